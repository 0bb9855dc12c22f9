package reconcile_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/platform"
	"cadre.dev/store"
)

// lines is a log that a test reads while coordinators write it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// has reports whether one line contains all of these.
func (l *lines) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		n := 0
		for _, part := range parts {
			if strings.Contains(line, part) {
				n++
			}
		}
		if n == len(parts) {
			return true
		}
	}
	return false
}

// applyAs writes a spec as the API does for a caller.
func (w *world) applyAs(s group.Spec, by, request string) {
	w.t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	call, err := json.Marshal(store.Applied{Group: "pg", By: by, Request: request, At: time.Now().UTC()})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.Commit(w.t.Context(), store.Op{Kind: store.OpPut, Key: store.GroupSpecKey("pg"), Value: raw},
		store.Op{Kind: store.OpPut, Key: store.AppliedKey("pg"), Value: call}); err != nil {
		w.t.Fatal(err)
	}
}

// rolloutTo returns the newest rollout to the Revision of the release.
func (w *world) rolloutTo(release string) operation.Rollout {
	w.t.Helper()
	for _, r := range w.view().RolloutsOf("pg") {
		if r.Value.To == spec(release).Revision() {
			return r.Value
		}
	}
	w.t.Fatalf("no rollout to %s", release)
	return operation.Rollout{}
}

// The accepted spec, its rollout and the leader's log lines name the caller of the API and the
// request. For a spec that was written to Consul KV after that call they name the KV edit.
func TestAnAcceptedSpecAndItsRolloutNameTheCaller(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		var log lines
		w.coordinator("coordinator-0", func(_ *life, c *simulated.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		check := func(release, by, request string) {
			t.Helper()
			w.until("the rollout to "+release, 5*time.Minute, w.complete(release))
			accepted, _, err := store.Read[store.AcceptedSpec](t.Context(), w.store, store.GroupAcceptedKey("pg"))
			if err != nil || accepted.By != by || accepted.Request != request {
				t.Errorf("%s: accepted by %q, request %q, %v; want %q, %q", release, accepted.By, accepted.Request, err, by, request)
			}
			if r := w.rolloutTo(release); r.By != by || r.Request != request {
				t.Errorf("%s: rollout by %q, request %q; want %q, %q", release, r.By, r.Request, by, request)
			}
			for _, line := range []string{`msg="spec accepted"`, `msg=rollout`} {
				if !log.has(line, "group=pg", spec(release).Revision(), `by="`+by+`"`, "request="+orQuotes(request)) {
					t.Errorf("%s: no line with %s, by %q and request %q", release, line, by, request)
				}
			}
		}
		w.applyAs(spec("one"), "ann (0d3c)", "apply-1")
		check("one", "ann (0d3c)", "apply-1")
		w.apply(spec("two"))
		check("two", store.WrittenToKV, "")
		w.applyAs(spec("three"), "bob (77aa)", "undo-1")
		check("three", "bob (77aa)", "undo-1")
		// An unreadable record of the caller blocks no spec.
		w.put(store.AppliedKey("pg"), []byte(`{"group":"pg","by":7}`))
		w.apply(spec("four"))
		check("four", "unknown (applied/pg cannot be read)", "")
	})
}

func orQuotes(request string) string {
	if request == "" {
		return `""`
	}
	return request
}

// A retry names its caller in the rollout's record and in the leader's log. The caller that began
// the rollout stays named.
func TestARetriedRolloutNamesBothCallers(t *testing.T) {
	begin(t, func(t *testing.T, w *world) {
		var log lines
		w.coordinator("coordinator-0", func(_ *life, c *simulated.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		w.applyAs(spec("one"), "ann (0d3c)", "apply-1")
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.mu.Lock()
		w.fault = func(call string) (bool, error) {
			if strings.HasPrefix(call, "update") {
				return false, platform.ErrRefused
			}
			return true, nil
		}
		w.mu.Unlock()
		w.applyAs(spec("two"), "ann (0d3c)", "apply-2")
		w.until("the failure", 2*time.Hour, func() bool { return w.status().RolloutState == string(operation.FailedState) })
		w.mu.Lock()
		w.fault = nil
		w.mu.Unlock()
		w.request(store.QueueRequest{ID: "retry-1", Kind: store.RequestRetry, Group: "pg"})
		w.until("the retry", 10*time.Minute, w.complete("two"))
		if r := w.rolloutTo("two"); r.By != "ann (0d3c)" || r.Request != "apply-2" || r.RetriedBy != "somebody" || r.RetryRequest != "retry-1" {
			t.Errorf("rollout %+v", r)
		}
		if !log.has("msg=rollout", "request=apply-2", "retried_by=somebody", "retry_request=retry-1") {
			t.Error("no line names the retry")
		}
	})
}

// The record of a group's last caller is deleted with the group.
func TestTheRecordOfTheCallerGoesWithItsGroup(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.applyAs(spec("one"), "ann (0d3c)", "apply-1")
		w.until("creation", 2*time.Minute, w.complete("one"))
		w.putJSON(store.DeleteGroupKey("pg"), store.DeleteGroup{Group: "pg", KeepCVMs: true, Reason: "moved", By: "ann", At: time.Now()})
		w.until("the deletion", 10*time.Minute, func() bool {
			entries, _, err := w.store.List(t.Context(), store.GroupsPrefix)
			return err == nil && len(entries) == 0
		})
		if entry, err := w.store.Get(t.Context(), store.AppliedKey("pg")); err == nil {
			t.Errorf("left behind: %s", entry.Value)
		}
	})
}
