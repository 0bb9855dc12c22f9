package consulproxy

import (
	"strings"
	"testing"
)

func TestDOR04_SessionBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"TTL":"15s"}`: `{"Node":"pg-1","Checks":[],"TTL":"15s"}`,
		// The body that Patroni sends.
		`{"name": "pg-pg-1", "checks": [], "behavior": "delete", "lockdelay": "0.001s", "ttl": "15.0s"}`: `{"Node":"pg-1","Name":"pg-pg-1","Checks":[],"LockDelay":"1ms","Behavior":"delete","TTL":"15.0s"}`,
		// The body that Consul's own client sends.
		`{"LockDelay":"15000ms","Checks":["serfHealth"],"NodeChecks":["a"],"ServiceChecks":[{"ID":"b"}],"Node":"pg-0","TTL":"10s"}`: `{"Node":"pg-1","Checks":[],"LockDelay":"15s","TTL":"10s"}`,
		`{"LockDelay":15,"TTL":"10s"}`:              `{"Node":"pg-1","Checks":[],"LockDelay":"15s","TTL":"10s"}`,
		`{"LockDelay":15000000000,"TTL":"10s"}`:     `{"Node":"pg-1","Checks":[],"LockDelay":"15s","TTL":"10s"}`,
		`{"Node":"pg-1","node":"pg-0","TTL":"10s"}`: `{"Node":"pg-1","Checks":[],"TTL":"10s"}`,
		``:                                "body",
		`{}`:                              "TTL",
		`{"TTL":""}`:                      "TTL",
		`{"TTL":"25h"}`:                   "TTL",
		`{"TTL":"-1s"}`:                   "TTL",
		`{"TTL":"10s","ID":"x"}`:          "body",
		`{"TTL":"10s","Namespace":"x"}`:   "body",
		`{"TTL":"10s","Behavior":"keep"}`: "Behavior",
		`{"TTL":"10s","LockDelay":"2m"}`:  "LockDelay",
		`{"TTL":"10s","LockDelay":1e99}`:  "LockDelay",
		`{"TTL":"10s"}{"TTL":"10s"}`:      "body",
		`{"TTL":"10s","Name":"` + strings.Repeat("n", 129) + `"}`: "Name",
	} {
		out, refused := sessionBody(member, []byte(body))
		got := string(out)
		if refused != nil {
			got, _, _ = strings.Cut(refused.Text, ":")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestDOR01_TxnBody(t *testing.T) {
	for body, want := range map[string]string{
		`[{"KV":{"Verb":"set","Key":"service/pg/a","Value":"eA=="},"Node":null,"Service":null,"Check":null}]`:                                    `[{"KV":{"Verb":"set","Key":"service/pg/a","Value":"eA=="}}]`,
		`[{"kv":{"verb":"check-index","key":"service/pg/a","index":7}},{"KV":{"Verb":"lock","Key":"service/pg/b","Session":"s"}}]`:               `[{"KV":{"Verb":"check-index","Key":"service/pg/a","Index":7}},{"KV":{"Verb":"lock","Key":"service/pg/b","Session":"s"}}]`,
		`[{"KV":{"Verb":"get-tree","Key":"service/pg/"}},{"KV":{"Verb":"get","Key":"service/pg/a"}},{"KV":{"Verb":"get","Key":"service/pg/b"}}]`: `[{"KV":{"Verb":"get-tree","Key":"service/pg/"}},{"KV":{"Verb":"get","Key":"service/pg/a"}},{"KV":{"Verb":"get","Key":"service/pg/b"}}]`,
		`[{"KV":{"Verb":"get-tree","Key":"service/pg/"}},{"KV":{"Verb":"get-tree","Key":"service/pg/a"}}]`:                                       CodeInvalid,
		`[{"KV":{"Verb":"get","Key":"service/pg/a"}},{"KV":{"Verb":"get-or-empty","Key":"service/pg/a"}}]`:                                       CodeInvalid,
		`[{"KV":{"Verb":"get-tree","Key":"service/pg"}},{"KV":{"Verb":"delete-tree","Key":"service/pg"}}]`:                                       `[{"KV":{"Verb":"get-tree","Key":"service/pg/"}},{"KV":{"Verb":"delete-tree","Key":"service/pg/"}}]`,
		`[{"KV":{"Verb":"get","Key":"service/pg"}}]`:                                                                                             CodeForbidden,
		`[{"KV":{"Verb":"delete-tree","Key":"service/pg2"}}]`:                                                                                    CodeForbidden,
		`[{"KV":{"Verb":"delete-tree","Key":"service"}}]`:                                                                                        CodeForbidden,
		`[]`:            CodeInvalid,
		`{}`:            CodeInvalid,
		`[{"KV":null}]`: CodeForbidden,
		`[{"KV":{"Verb":"set","Key":"service/pg/a"}},{"KV":{"Verb":"set","Key":"service/web/a"}}]`:                   CodeForbidden,
		`[{"KV":{"Verb":"set","Key":"service/pg/a"},"Node":{"Verb":"set","Node":{"Node":"pg-1"}}}]`:                  CodeForbidden,
		`[{"Service":{"Verb":"delete","Node":"pg-0","Service":{"ID":"pg"}}}]`:                                        CodeForbidden,
		`[{"Check":{"Verb":"delete","Check":{"Node":"pg-0","CheckID":"pg:ready"}}}]`:                                 CodeForbidden,
		`[{"Session":{"Verb":"delete","Session":{"ID":"x"}}}]`:                                                       CodeInvalid,
		`[{"KV":{"Verb":"get-tree","Key":""}}]`:                                                                      CodeForbidden,
		`[{"KV":{"Verb":"get-tree","Key":"cadre/v1/"}}]`:                                                             CodeForbidden,
		`[{"KV":{"Verb":"nuke","Key":"service/pg/a"}}]`:                                                              CodeForbidden,
		`[{"KV":{"Verb":"get","Key":"service/pg/a","Namespace":"x"}}]`:                                               CodeInvalid,
		`[` + strings.TrimSuffix(strings.Repeat(`{"KV":{"Verb":"get","Key":"service/pg/a"}},`, maxOps+1), ",") + `]`: CodeInvalid,
		`[{"KV":{"Verb":"get","Key":"service/pg/a"}}] [{"Node":{"Verb":"delete","Node":{"Node":"pg-0"}}}]`:           CodeInvalid,
		`[{"KV":{"Verb":"set","Key":"service/pg/a"},"KV":{"Verb":"set","Key":"cadre/v1/a"}}]`:                        CodeForbidden,
	} {
		out, refused := txnBody(member, []byte(body))
		got := string(out.body)
		if refused != nil {
			got = refused.Code
		}
		if got != want {
			t.Errorf("%.200s: %s, want %s", body, got, want)
		}
	}
}

// A transaction without an effect is answered within the bounds of reads.
func TestDOR05_TransactionsWithAndWithoutAnEffect(t *testing.T) {
	type does struct{ effect, reads bool }
	for ops, want := range map[string]does{
		"get": {false, true}, "get-tree": {false, true}, "get-or-empty": {false, true}, "check-index": {}, "check-session": {}, "check-not-exists": {},
		"set": {true, false}, "cas": {true, false}, "lock": {true, false}, "unlock": {true, false},
		"delete": {true, false}, "delete-tree": {true, false}, "delete-cas": {true, false},
		"set get-tree": {true, true}, "check-index delete": {true, false}, "check-index get": {false, true},
	} {
		var parts []string
		for _, verb := range strings.Fields(ops) {
			parts = append(parts, `{"KV":{"Verb":"`+verb+`","Key":"service/pg/a"}}`)
		}
		out, refused := txnBody(member, []byte("["+strings.Join(parts, ",")+"]"))
		if got := (does{out.effect, out.reads}); refused != nil || got != want {
			t.Errorf("%s: %+v, want %+v; %v", ops, got, want, refused)
		}
	}
	for _, verb := range verbs {
		if out, _ := txnBody(member, []byte(`[{"KV":{"Verb":"`+verb+`","Key":"service/pg/a"}}]`)); out.effect == (out.reads || strings.HasPrefix(verb, "check-")) {
			t.Errorf("%s neither changes, reads nor checks", verb)
		}
	}
}
