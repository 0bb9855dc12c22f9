package consulproxy

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Codes of refusals; each begins the text of an answer.
const (
	// CodeForbidden: the request is not in the table.
	CodeForbidden = "CONSUL_PROXY_FORBIDDEN"
	// CodeInvalid: the request is in the table, and malformed.
	CodeInvalid = "CONSUL_PROXY_INVALID"
	// CodeTokenMissing: the request needs a token and has none.
	CodeTokenMissing = "CONSUL_PROXY_TOKEN_MISSING"
	// CodeTokenForeign: the token does not belong to the caller's Slot.
	CodeTokenForeign = "CONSUL_PROXY_TOKEN_FOREIGN"
	// CodeNotAdmitted: the caller's Boot does not hold its Slot now.
	CodeNotAdmitted = "CONSUL_PROXY_NOT_ADMITTED"
	// CodeOverloaded: the caller, or all callers together, exceed a limit.
	CodeOverloaded = "CONSUL_PROXY_OVERLOADED"
	// CodeUnavailable: this coordinator's Consul does not answer; that of another may.
	CodeUnavailable = "CONSUL_PROXY_UNAVAILABLE"
)

// Refusal is an answer of the Consul proxy itself.
type Refusal struct {
	Status int
	Code   string
	Text   string
}

// Error implements error: the text of the answer.
func (r *Refusal) Error() string { return r.Code + ": " + r.Text }

func forbidden(format string, args ...any) *Refusal {
	return &Refusal{http.StatusForbidden, CodeForbidden, fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *Refusal {
	return &Refusal{http.StatusBadRequest, CodeInvalid, fmt.Sprintf(format, args...)}
}

// Caller is the member that the Session of a request authenticates.
type Caller struct {
	Group, Slot, Boot string
}

// Scope returns the prefix of all keys that a group's members may use.
func Scope(group string) string { return "service/" + group + "/" }

// Verdict is a request of the table in the canonical form that goes to Consul.
type Verdict struct {
	Rule *Rule
	// Path is decoded. Query has only known parameters, without the token.
	Path  string
	Query url.Values
	// Token from a parameter; "": the request has no such parameter.
	Token string
	// Blocks reports whether the answer may take as long as Wait, which is 0 otherwise.
	Blocks bool
	Wait   time.Duration
	// Cost is the number of requests that it counts for.
	Cost float64
}

// refusedFor1 is the Verdict of a refusal: it counts as one request.
var refusedFor1 = Verdict{Cost: 1}

// walkCost is the cost of a request that makes Consul scan the entries of all members.
const walkCost = 10

// Judge decides about a request by its method and target. An accepted request goes to Consul in the
// form of the Verdict. dc is the cluster's datacenter.
func Judge(c Caller, dc, method string, target *url.URL) (Verdict, *Refusal) {
	path, refused := cleanPath(target)
	if refused != nil {
		return refusedFor1, refused
	}
	rule, last := find(method, path)
	if rule == nil {
		return refusedFor1, forbidden("%s %s is not for members; allowed are %s", method, truncated(path), allowed(method, path))
	}
	v := Verdict{Rule: rule, Path: path, Cost: 1}
	if refused := v.readQuery(dc, target.RawQuery); refused != nil {
		return refusedFor1, refused
	}
	if rule.Walks || v.Query.Has("filter") {
		v.Cost = walkCost
	}
	switch rule.Check {
	case CheckKey:
		if v.Query.Has("recurse") || v.Query.Has("keys") {
			last = prefixOf(c, last)
			v.Path = kvPath + last
		}
		if refused := inScope(c, last); refused != nil {
			return refusedFor1, refused
		}
	case CheckSession:
		if !sessionForm.MatchString(last) {
			return refusedFor1, invalid("session %s: want a UUID", truncated(last))
		}
	case CheckOwnNode:
		if last != c.Slot {
			return refusedFor1, forbidden("sessions of node %s are not for %s; ask for /v1/session/node/%s", truncated(last), c.Slot, c.Slot)
		}
	case CheckOwnSessions:
		v.Path = "/v1/session/node/" + c.Slot
	case CheckNone, CheckCreate, CheckTxn, CheckSelf:
	}
	return v, nil
}

var sessionForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// prefixOf returns the prefix of a request for many keys. Consul's own clients also name a folder
// without its final slash. Such a prefix would include the keys of other groups, so prefixOf adds
// the slash.
func prefixOf(c Caller, prefix string) string {
	if prefix+"/" == Scope(c.Group) {
		return Scope(c.Group)
	}
	return prefix
}

func inScope(c Caller, key string) *Refusal {
	if !strings.HasPrefix(key, Scope(c.Group)) {
		return forbidden("key %s is not in the scope of group %s; keys begin with %s", truncated(key), c.Group, Scope(c.Group))
	}
	return nil
}

// maxPath bounds a path; Consul's keys are shorter.
const maxPath = 1 << 10

// kvPath is the start of the path of every key.
const kvPath = "/v1/kv/"

// cleanPath decodes the path once, and rejects a path with a second reading. Consul decodes the
// path of a key twice, so no percent sign may remain after the first time. Some clients encode the
// slashes of a key: the decoded path alone is judged and sent. Elsewhere a name has no slash.
func cleanPath(target *url.URL) (string, *Refusal) {
	encoded := target.EscapedPath()
	if len(encoded) > maxPath {
		return "", invalid("the path has %d bytes, at most %d are allowed", len(encoded), maxPath)
	}
	hidden := []string{"%5c", "%2e", "%25"}
	if !strings.HasPrefix(encoded, kvPath) {
		hidden = append(hidden, "%2f")
	}
	for _, hidden := range hidden {
		if strings.Contains(strings.ToLower(encoded), hidden) {
			return "", invalid("the path has %s in it; write it without", hidden)
		}
	}
	path := target.Path
	if target.Opaque != "" || !strings.HasPrefix(path, "/v1/") {
		return "", forbidden("%s is not below /v1/", truncated(path))
	}
	if !utf8.ValidString(path) || strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || r == '%' || unicode.IsControl(r) }) {
		return "", invalid("the path is not clean text")
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		// A key may end with a slash, as the prefix of others.
		if s == "." || s == ".." || s == "" && i < len(segments)-1 {
			return "", invalid("the path has an empty segment, \".\" or \"..\"")
		}
	}
	return path, nil
}

// find returns the rule for a path, and the path's segment for a name.
func find(method, path string) (*Rule, string) {
	for i := range Rules {
		if last, ok := match(Rules[i].Path, path); ok && Rules[i].Method == method {
			return &Rules[i], last
		}
	}
	return nil, ""
}

// match is exact: it folds no case and decodes nothing again.
func match(pattern, path string) (last string, ok bool) {
	if prefix, isKey := strings.CutSuffix(pattern, "{key}"); isKey {
		return strings.CutPrefix(path, prefix)
	}
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return "", false
	}
	for i := range want {
		switch {
		case strings.HasPrefix(want[i], "{") && have[i] != "":
			last = have[i]
		case want[i] != have[i]:
			return "", false
		}
	}
	return last, true
}

// allowed lists the rules that the caller may have meant.
func allowed(method, path string) string {
	var same, near, all []string
	for _, r := range Rules {
		one := r.Method + " " + r.Path
		all = append(all, one)
		if _, ok := match(r.Path, path); ok {
			same = append(same, one)
		}
		if strings.HasPrefix(path, strings.Join(strings.SplitN(r.Path, "/", 4)[:3], "/")) && r.Method == method {
			near = append(near, one)
		}
	}
	for _, some := range [][]string{same, near, all} {
		if len(some) > 0 {
			return strings.Join(some, ", ")
		}
	}
	return ""
}

// Bounds of parameters.
const (
	maxParameter = 256
	maxFilter    = 512
	// maxWait and defaultWait are Consul's own.
	maxWait     = 10 * time.Minute
	defaultWait = 5 * time.Minute
)

func (v *Verdict) readQuery(dc, raw string) *Refusal {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return invalid("the query cannot be read: %s", truncated(err.Error()))
	}
	v.Query = url.Values{}
	defer v.setWait()
	for name, values := range given {
		if !slices.Contains(Common, name) && !slices.Contains(v.Rule.Query, name) {
			return forbidden("parameter %s is not for members; %s %s takes %s", truncated(name), v.Rule.Method, v.Rule.Path, strings.Join(with(v.Rule.Query, Common...), ", "))
		}
		bound := maxParameter
		if name == "filter" {
			bound = maxFilter
		}
		if len(values) != 1 || len(values[0]) > bound {
			return invalid("parameter %s: want it once, with at most %d bytes", name, bound)
		}
		value := values[0]
		switch name {
		case "token":
			v.Token = value
			continue
		case "dc":
			if value != dc {
				return forbidden("datacenter %s is not this one; omit dc, or use %s", truncated(value), dc)
			}
			continue
		case "index":
			index, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return invalid("parameter index: %s is not a number", truncated(value))
			}
			v.Blocks = v.Blocks || index > 0
		case "wait":
			wait, err := time.ParseDuration(value)
			if err != nil || wait < 0 {
				return invalid("parameter wait: %s is not a duration such as 30s", truncated(value))
			}
			value = min(wait, maxWait).String()
		}
		v.Query.Set(name, value)
	}
	return nil
}

// setWait sets Consul's maximum wait: the requested or the default wait, and Consul's jitter of a
// sixteenth of it.
func (v *Verdict) setWait() {
	if !v.Blocks {
		return
	}
	v.Wait = defaultWait
	if wait, err := time.ParseDuration(v.Query.Get("wait")); err == nil && wait > 0 {
		v.Wait = wait
	}
	v.Wait += v.Wait / 16
}

// truncated quotes and truncates a foreign text for an answer.
func truncated(text string) string { return fmt.Sprintf("%.120q", text) }
