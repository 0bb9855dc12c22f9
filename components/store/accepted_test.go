package store_test

import (
	"errors"
	"strings"
	"testing"

	"cadre.dev/core/operation"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// A record of an older version, possibly from a restored snapshot, names no caller and is still
// readable.
func TestRecordsOfBeforeCallersWereNamedAreRead(t *testing.T) {
	accepted, err := store.Decode[store.AcceptedSpec](store.Entry{Key: store.GroupAcceptedKey("pg"),
		Value: []byte(`{"group":"pg","spec_index":7,"spec":{"name":"pg"},"term":1,"at":"2026-01-01T00:00:00Z"}`)})
	if err != nil || accepted.SpecIndex != 7 || accepted.By != "" || accepted.Request != "" {
		t.Errorf("accepted %+v, %v", accepted, err)
	}
	rollout, err := store.Decode[operation.Rollout](store.Entry{Key: store.RolloutKey("pg-1-00112233"),
		Value: []byte(`{"id":"pg-1-00112233","group":"pg","generation":1,"to_revision":"0011","state":"RUNNING","transfers":0,"steps":2,` +
			`"started_at":"2026-01-01T00:00:00Z","progress_at":"2026-01-01T00:00:00Z","term":1}`)})
	if err != nil || rollout.Steps != 2 || rollout.By != "" || rollout.Request != "" || rollout.RetriedBy != "" {
		t.Errorf("rollout %+v, %v", rollout, err)
	}
}

// The caller is named only for the write of its own transaction. A spec that was written before or
// after does not count, also with the same text, and neither does the spec of a later call.
func TestTheCallerIsThatOfItsOwnWrite(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return storetest.NewMemory() },
		"consul": func(t *testing.T) store.Store { return storetest.NewConsul(t) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			spec := func(text string) store.Op {
				return store.Op{Kind: store.OpPut, Key: store.GroupSpecKey("pg"), Value: []byte(text)}
			}
			call := func(request string) store.Op {
				return store.Op{Kind: store.OpPut, Key: store.AppliedKey("pg"), Value: []byte(`{"group":"pg","by":"ann","request":"` + request + `","at":"2026-01-01T00:00:00Z"}`)}
			}
			index := func() uint64 {
				t.Helper()
				_, index, err := store.ReadRaw(t.Context(), s, store.GroupSpecKey("pg"))
				if err != nil {
					t.Fatal(err)
				}
				return index
			}
			want := func(what string, at uint64, by, request string) {
				t.Helper()
				if gotBy, got, err := store.AppliedBy(t.Context(), s, "pg", at); err != nil || gotBy != by || got != request {
					t.Errorf("%s: by %q, request %q, %v; want %q, %q", what, gotBy, got, err, by, request)
				}
			}
			commit(t, s, spec(`{"a":1}`))
			want("no call", index(), store.WrittenToKV, "")
			commit(t, s, spec(`{"a":2}`), call("one"))
			first := index()
			want("a call", first, "ann", "one")
			commit(t, s, spec(`{"a":2}`))
			want("the same text once more", index(), "ann", "one")
			commit(t, s, spec(`{"a":3}`))
			commit(t, s, spec(`{"a":2}`))
			want("the text of the call, written again", index(), store.WrittenToKV, "")
			commit(t, s, spec(`{"a":4}`), call("two"))
			want("a later call", index(), "ann", "two")
			want("the spec of before the later call", first, "", "")
		})
	}
}

// The length of a call's id is checked before it is recorded.
func TestAnIdOfACallIsBounded(t *testing.T) {
	for id, ok := range map[string]bool{"apply-1": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false, "": false, "a b": false, "a\n": false} {
		if err := store.CheckRequestID(id); (err == nil) != ok {
			t.Errorf("%.20q: %v", id, err)
		}
	}
	if _, err := store.Put(store.AppliedKey("pg"), store.Applied{Group: "pg", By: strings.Repeat("<", 1<<10), Request: "r"}, 0); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a long name: %v", err)
	}
}
