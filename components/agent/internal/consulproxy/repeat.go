package consulproxy

import (
	"net/http"
	"strings"
	"time"
)

// repeatable reports whether a request without an answer may be repeated to another coordinator.
// sent: it may have reached the first one. read: part of its body was consumed and cannot be sent
// again.
//
// Reads are repeated, and renewals of a session, which are idempotent. Any other request may have
// had its effect: a lock that was acquired and released meanwhile must not be acquired again by a
// copy of the request.
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
	// leastWait replaces the rest of an expired wait: 0 would mean Consul's default.
	leastWait = 10 * time.Millisecond
)

// remaining is the query of a request that has waited for elapsed: the same, with its index, and
// with the rest of its wait if it is a blocking query. The client's total wait stays the same,
// whichever coordinator answers.
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
				return query // Consul returns the error for it
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
