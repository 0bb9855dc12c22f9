package consulproxy

import (
	"net/http"
	"strings"
	"time"
)

// repeatable reports whether a request that got no answer may be asked of another
// coordinator. sent tells that it may have reached the first one; read, that some of its
// body was taken, which cannot be had again.
//
// Sent again are reads, and renewals of a session: renewed twice is renewed. Everything
// else may have had its effect: a lock that was taken and let go again meanwhile must not
// be taken by a copy of the request.
func repeatable(method, path string, sent, read bool) bool {
	switch {
	case read:
		return false
	case !sent:
		return true
	case method == http.MethodGet, method == http.MethodHead:
		return true
	}
	return method == http.MethodPut && strings.HasPrefix(path, "/v1/session/renew/")
}

// Bounds on how long a blocking query waits.
const (
	// defaultWait is Consul's, for a query that names an index and no wait.
	defaultWait = 5 * time.Minute
	// leastWait is what is left of a wait that is over: 0 would mean Consul's default.
	leastWait = 10 * time.Millisecond
)

// remaining is the query of a request that has been waiting for elapsed: the same, with
// its index, and with what is left of its wait if it is a blocking one. Whoever asked goes
// on to wait as long as they said, whichever coordinator answers.
func remaining(query string, elapsed time.Duration) string {
	if elapsed <= 0 {
		return query
	}
	var blocking bool
	wait, at := defaultWait, -1
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "index", "hash":
			blocking = blocking || value != "" && value != "0"
		case "wait":
			d, err := time.ParseDuration(value)
			if err != nil {
				return query // Consul says what is wrong with it
			}
			at = i
			if d > 0 {
				wait = d
			}
		}
	}
	if !blocking {
		return query
	}
	left := "wait=" + max(wait-elapsed, leastWait).Round(time.Millisecond).String()
	if at < 0 {
		return query + "&" + left
	}
	parts[at] = left
	return strings.Join(parts, "&")
}
