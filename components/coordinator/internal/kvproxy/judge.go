package kvproxy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// path is the beginning of every path.
const path = "/v1/kv/" + store.DefaultPrefix

// maxWait bounds the time of one blocking query, and readTime that of any other request.
const (
	maxWait  = 5 * time.Minute
	readTime = 30 * time.Second
)

// refusal is the answer to a request that is not passed on.
type refusal struct {
	status int
	text   string
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// request is a permitted request.
type request struct {
	method string
	// key is the record's key, or the prefix of a read.
	key   string
	query url.Values
	// wait is the time of a blocking query; 0: the request does not block.
	wait time.Duration
	// max bounds the body of a write, in bytes.
	max int64
	// cas: the write has an index. Otherwise it is a write of a spec, and the proxy reads the index.
	cas bool
}

// parameters of each method. dc names the only datacenter, and ns and partition must be empty.
var parameters = map[string][]string{
	http.MethodGet:    {"recurse", "keys", "separator", "raw", "index", "wait", "consistent", "stale", "pretty", "dc", "ns", "partition"},
	http.MethodPut:    {"cas", "flags", "dc", "ns", "partition"},
	http.MethodDelete: {"cas", "dc", "ns", "partition"},
}

// judge returns the permitted request, or the refusal.
func judge(method string, at *url.URL, datacenter string) (request, *refusal) {
	r := request{method: method, query: url.Values{}}
	if method == http.MethodHead {
		r.method = http.MethodGet
	}
	key, ok := strings.CutPrefix(at.Path, path)
	if !ok {
		return r, refuse(http.StatusBadRequest, "path: only %s… is served here; `cadre` and Terraform do everything else", path)
	}
	known, ok := parameters[r.method]
	if !ok {
		return r, refuse(http.StatusMethodNotAllowed, "method: %.20s is unknown: use GET, PUT or DELETE", method)
	}
	r.key = key
	values, err := url.ParseQuery(at.RawQuery)
	if err != nil {
		return r, refuse(http.StatusBadRequest, "query: %v", err)
	}
	for name, all := range values {
		if bad := parameter(r.method, name, all, known, datacenter); bad != nil {
			return r, bad
		}
		r.query.Set(name, all[0])
	}
	for _, local := range []string{"dc", "ns", "partition"} {
		r.query.Del(local)
	}
	if r.method == http.MethodGet {
		if err := store.CheckPrefix(key); err != nil {
			return r, refuse(http.StatusBadRequest, "key: %v", err)
		}
		return r, r.block()
	}
	return r, r.write()
}

// parameter refuses a parameter outside of the closed list.
func parameter(method, name string, values, known []string, datacenter string) *refusal {
	switch {
	case name == "token":
		return refuse(http.StatusBadRequest, "token: put the token into the header X-Consul-Token; parameters are logged on the way")
	case name == "recurse" && method == http.MethodDelete:
		return refuse(http.StatusBadRequest, "recurse: records are deleted one by one, each with cas=INDEX; `cadre group delete` removes a group")
	case !slices.Contains(known, name):
		return refuse(http.StatusBadRequest, "%.60s: is not a parameter of %s here; use %s", name, method, strings.Join(known[:len(known)-3], ", "))
	case len(values) != 1 || len(values[0]) > 200:
		return refuse(http.StatusBadRequest, "%s: give it once, in at most 200 bytes", name)
	case name == "dc" && values[0] != "" && values[0] != datacenter:
		return refuse(http.StatusBadRequest, "dc: the only datacenter is %s; leave dc out", datacenter)
	case (name == "ns" || name == "partition") && values[0] != "" && values[0] != "default":
		return refuse(http.StatusBadRequest, "%s: there are none; leave it out", name)
	case name == "cas" || name == "index" || name == "flags":
		if _, err := strconv.ParseUint(values[0], 10, 64); err != nil {
			return refuse(http.StatusBadRequest, "%s: %.60q is not a number from 0", name, values[0])
		}
	}
	return nil
}

// block computes the time of a blocking query.
func (r *request) block() *refusal {
	index := r.query.Get("index")
	if index == "" || index == "0" {
		r.query.Del("wait")
		return nil
	}
	r.wait = maxWait
	if text := r.query.Get("wait"); text != "" {
		wait, err := time.ParseDuration(text)
		if err != nil || wait <= 0 {
			return refuse(http.StatusBadRequest, "wait: %.60q is not a time above 0, such as 30s", text)
		}
		r.wait = min(wait, maxWait)
	}
	r.query.Set("wait", r.wait.String())
	return nil
}

// write checks the record and the index of a write.
func (r *request) write() *refusal {
	kind, err := store.KindOf(r.key)
	if err != nil {
		return refuse(http.StatusBadRequest, "key: %v; docs/reference/kv.md lists the records", err)
	}
	r.max = int64(kind.MaxBytes)
	r.cas = r.query.Has("cas")
	switch _, spec := specOf(r.key); {
	case r.cas, spec && r.method == http.MethodPut:
		return nil
	case r.method == http.MethodDelete:
		return refuse(http.StatusBadRequest, "cas: is missing: a delete needs the record's index, cas=INDEX. `consul kv get -detailed %s` shows it, and `consul kv delete -cas -modify-index=INDEX` sends it", store.DefaultPrefix+r.key)
	}
	return refuse(http.StatusBadRequest, "cas: is missing: a write needs the record's index, cas=INDEX, or cas=0 for a new record. `consul kv get -detailed %s` shows it, and `consul kv put -cas -modify-index=INDEX` sends it", store.DefaultPrefix+r.key)
}

// specOf returns the group whose spec has the key.
func specOf(key string) (name string, ok bool) {
	name, isGroup := strings.CutPrefix(key, store.GroupsPrefix)
	name, isSpec := strings.CutSuffix(name, "/spec")
	return name, isGroup && isSpec && group.NameProblem(name) == ""
}
