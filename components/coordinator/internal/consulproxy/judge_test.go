package consulproxy

import (
	"bufio"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

var member = Caller{Group: "pg", Slot: "pg-1", Boot: "b007"}

func TestDOR01_Judge(t *testing.T) {
	const id = "11111111-2222-3333-4444-555555555555"
	for _, c := range []struct{ method, target, want string }{
		{"GET", "/v1/kv/service/pg/?recurse=1", "/v1/kv/service/pg/?recurse=1"},
		{"GET", "/v1/kv/service/pg/leader?index=7&wait=9.5s", "/v1/kv/service/pg/leader?index=7&wait=9.5s"},
		{"GET", "/v1/kv/service/pg/leader?index=7&wait=90m", "/v1/kv/service/pg/leader?index=7&wait=10m0s"},
		{"PUT", "/v1/kv/service/pg/leader?acquire=" + id, "/v1/kv/service/pg/leader?acquire=" + id},
		{"PUT", "/v1/kv/service/pg/leader?token=x&dc=dc1&cas=0", "/v1/kv/service/pg/leader?cas=0"},
		{"GET", "/v1/kv/service/pg/a%20b", "/v1/kv/service/pg/a%20b"},
		{"GET", "/v1/session/list", "/v1/session/node/pg-1"},
		{"GET", "/v1/session/node/pg-1", "/v1/session/node/pg-1"},
		{"PUT", "/v1/session/renew/" + id, "/v1/session/renew/" + id},
		{"GET", "/v1/health/service/web?passing&near=_agent", CodeForbidden},
		{"GET", "/v1/health/service/web?passing&filter=Node.Node==x", "/v1/health/service/web?filter=Node.Node%3D%3Dx&passing="},
		{"GET", "/v1/health/service/", CodeForbidden},
		{"GET", "/v1/config/service-defaults/web", "/v1/config/service-defaults/web"},
		{"GET", "/v1/config/service-defaults/web/x", CodeForbidden},

		{"GET", "/v1/kv/?recurse=1", CodeForbidden},
		{"GET", "/v1/kv/service/pg", CodeForbidden},
		{"GET", "/v1/kv/service/pg2/leader", CodeForbidden},
		{"GET", "/v1/kv/service/PG/leader", CodeForbidden},
		{"GET", "/V1/kv/service/pg/leader", CodeForbidden},
		{"GET", "/v1/KV/service/pg/leader", CodeForbidden},
		{"DELETE", "/v1/kv/service/?recurse", CodeForbidden},
		{"GET", "/v1/kv/cadre/v1/admissions/pg-1", CodeForbidden},
		{"GET", "/v1/kv/service/pg/../web/leader", CodeInvalid},
		{"GET", "/v1/kv/service/pg/./leader", CodeInvalid},
		{"GET", "/v1/kv/service/pg//leader", CodeInvalid},
		{"GET", "//v1/kv/service/pg/leader", CodeForbidden},
		{"GET", "/v1//kv/service/pg/leader", CodeInvalid},
		// The encoding of npm's consul and others, which encode the whole key.
		{"GET", "/v1/kv/service%2fpg/leader", "/v1/kv/service/pg/leader"},
		{"PUT", "/v1/kv/service%2Fpg%2Fjs%2Fa", "/v1/kv/service/pg/js/a"},
		{"GET", "/v1/kv/service%2Fpg%2Fjs%2F?recurse=true", "/v1/kv/service/pg/js/?recurse=true"},
		{"GET", "/v1/kv/service%2Fpg%2Fa%20b%3Fc", "/v1/kv/service/pg/a%20b%3Fc"},
		{"GET", "/v1/kv/service%2Fpg2%2Fleader", CodeForbidden},
		{"GET", "/v1/kv/service%2Fpg", CodeForbidden},
		{"GET", "/v1/kv/service%2Fpg%2F..%2Fweb", CodeInvalid},
		{"GET", "/v1/kv/service%2Fpg%2F%2Fleader", CodeInvalid},
		{"GET", "/v1/kv/%2Fservice/pg/leader", CodeInvalid},
		{"GET", "/v1/kv/service%2Fpg%2F%2e%2e%2Fweb", CodeInvalid},
		{"GET", "/v1/kv/service%252Fpg%252Fleader", CodeInvalid},
		{"GET", "/v1/kv%2Fservice/pg/leader", CodeInvalid},
		{"GET", "/v1%2Fkv/service/pg/leader", CodeInvalid},
		{"GET", "/%761/kv/service%2Fpg/leader", CodeInvalid},
		{"GET", "/v1/health/service/a%2Fb", CodeInvalid},
		{"GET", "/v1/session/node%2Fpg-1", CodeInvalid},

		// The group's folder without its slash.
		{"GET", "/v1/kv/service/pg?recurse", "/v1/kv/service/pg/?recurse="},
		{"GET", "/v1/kv/service%2Fpg?keys=true&separator=%2F", "/v1/kv/service/pg/?keys=true&separator=%2F"},
		{"DELETE", "/v1/kv/service/pg?recurse=true", "/v1/kv/service/pg/?recurse=true"},
		{"GET", "/v1/kv/service/p?recurse", CodeForbidden},
		{"GET", "/v1/kv/service/pg2?recurse", CodeForbidden},
		{"GET", "/v1/kv/service?recurse", CodeForbidden},
		{"PUT", "/v1/kv/service/pg?flags=1", CodeForbidden},
		{"GET", "/v1/kv/service/pg/%2E%2E/web/leader", CodeInvalid},
		{"GET", "/v1/kv/service/pg/%252e%252e/web", CodeInvalid},
		{"GET", "/v1/kv/service/pg/..%5Cweb", CodeInvalid},
		{"GET", "/v1/kv/service/pg/a%00", CodeInvalid},
		{"GET", "/v1/kv/service/pg/%ff", CodeInvalid},
		{"GET", "/v1/kv/service/pg/" + strings.Repeat("k", maxPath), CodeInvalid},
		{"GET", "/v1/session/node/pg-0", CodeForbidden},
		{"PUT", "/v1/session/renew/x", CodeInvalid},
		{"PUT", "/v1/session/destroy/" + id + "/x", CodeForbidden},
		{"POST", "/v1/kv/service/pg/leader", CodeForbidden},
		{"OPTIONS", "/v1/kv/service/pg/leader", CodeForbidden},
		{"CONNECT", "/v1/kv/service/pg/leader", CodeForbidden},
		{"PUT", "/v1/kv/service/pg/leader?acquire=a&acquire=b", CodeInvalid},
		{"GET", "/v1/kv/service/pg/leader?dc=dc2", CodeForbidden},
		{"GET", "/v1/kv/service/pg/leader?ns=x", CodeForbidden},
		{"GET", "/v1/kv/service/pg/leader?partition=x", CodeForbidden},
		{"GET", "/v1/kv/service/pg/leader?cached", CodeForbidden},
		{"GET", "/v1/kv/service/pg/leader?index=x", CodeInvalid},
		{"GET", "/v1/kv/service/pg/leader?wait=x", CodeInvalid},
		{"GET", "/v1/kv/service/pg/leader?a;b", CodeInvalid},
		{"GET", "/v1/catalog/nodes?filter=" + strings.Repeat("x", maxFilter+1), CodeInvalid},
		{"PUT", "/v1/agent/service/register", CodeForbidden},
		{"GET", "/ui/", CodeForbidden},
		{"GET", "*", CodeForbidden},
		{"GET", "http://other/v1/catalog/register", CodeForbidden},
		{"GET", "http://other/v1/catalog/nodes", "/v1/catalog/nodes"},
	} {
		target, err := url.ParseRequestURI(c.target)
		if err != nil {
			target = &url.URL{Path: c.target}
		}
		v, refused := Judge(member, "dc1", c.method, target)
		var got string
		if refused != nil {
			got = refused.Code
			if !strings.HasPrefix(refused.Error(), refused.Code+": ") || refused.Status < 400 || refused.Status >= 500 {
				t.Errorf("%s %s: %d %v", c.method, c.target, refused.Status, refused)
			}
		} else {
			out := url.URL{Path: v.Path, RawQuery: v.Query.Encode()}
			got = out.String()
		}
		if got != c.want {
			t.Errorf("%s %s: %s, want %s (%v)", c.method, c.target, got, c.want, refused)
		}
	}
}

func TestARefusalListsAllowedRequests(t *testing.T) {
	for target, want := range map[string]string{
		"/v1/kv/other":                 "service/pg/",
		"/v1/session/node/pg-0":        "/v1/session/node/pg-1",
		"/v1/agent/members":            "GET /v1/agent/self",
		"/v1/kv/service/pg/x?near=_a":  "index",
		"/v1/kv/service/pg/x?dc=other": "dc1",
	} {
		at, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if _, refused := Judge(member, "dc1", http.MethodGet, at); refused == nil || !strings.Contains(refused.Text, want) {
			t.Errorf("%s: %v, want %q in it", target, refused, want)
		}
	}
}

// FuzzDOR01_Judge: the path that goes to Consul is the judged path, as Consul reads it. For a key
// it is the path that the caller wrote, and it is in the caller's scope.
func FuzzDOR01_Judge(f *testing.F) {
	for _, seed := range []string{
		"/v1/kv/service/pg/leader", "/v1/kv/service/pg/../x", "/v1/kv/service%2fpg/x?keys", "/v1/kv/service%2Fpg%2Fa%3Fb%23c", "/v1/kv/service%2Fpg%2F%252e",
		"/v1/kv/service/pg?recurse", "/v1/kv/service/pg/a+b%2Bc;d", "/v1/catalog/nodes?filter=x", "/v1/session/list", "http://x/v1/kv/service%2Fpg%2Fx", "/v1/kv/service/pg/%C3%A9",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			f.Add(method, seed)
		}
	}
	proxy := &Proxy{cfg: Config{Consul: "127.0.0.1:8500"}}
	f.Fuzz(func(t *testing.T, method, target string) {
		at, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		v, refused := Judge(member, "dc1", method, at)
		if refused != nil {
			return
		}
		sent, err := proxy.request(t.Context(), method, v.Path, v.Query, "", nil)
		if err != nil {
			t.Fatalf("%q cannot be sent: %v", target, err)
		}
		// The first line as it is written, read as Consul's server does.
		got, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + sent.URL.RequestURI() + " HTTP/1.1\r\nHost: consul\r\n\r\n")))
		if err != nil {
			t.Fatalf("%q becomes %q: %v", target, sent.URL.RequestURI(), err)
		}
		// Consul decodes names and keys once more.
		twice, err := url.PathUnescape(got.URL.Path)
		if err != nil || twice != v.Path || got.URL.Path != v.Path {
			t.Errorf("%q is judged as %q and read as %q, then %q (%v)", target, v.Path, got.URL.Path, twice, err)
		}
		if strings.Contains(v.Path, "//") || strings.Contains(v.Path+"/", "/../") || strings.Contains(v.Path+"/", "/./") {
			t.Errorf("%q becomes %q, which can be read in two ways", target, v.Path)
		}
		many := v.Query.Has("recurse") || v.Query.Has("keys")
		if v.Rule.Check == CheckKey {
			if !strings.HasPrefix(v.Path, "/v1/kv/service/pg/") {
				t.Errorf("%q reaches %q", target, v.Path)
			}
			if v.Path != at.Path && (!many || v.Path != at.Path+"/") {
				t.Errorf("%q is a request for %q and becomes one for %q", target, at.Path, v.Path)
			}
		} else if strings.HasPrefix(v.Path, "/v1/kv") {
			t.Errorf("%q reaches %q without a check of its key", target, v.Path)
		}
		if query := got.URL.Query(); query.Encode() != v.Query.Encode() || query.Has("token") || query.Has("dc") {
			t.Errorf("%q is sent with %q", target, got.URL.RawQuery)
		}
	})
}

// TestDocs: the page has the current table.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/reference/consul-proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{Table(), Shares()} {
		if !strings.Contains(string(page), part) {
			t.Errorf("docs/reference/consul-proxy.md is outdated: go generate ./internal/consulproxy")
		}
	}
}
