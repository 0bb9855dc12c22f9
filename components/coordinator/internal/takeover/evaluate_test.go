package takeover

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestOnlyCertainAnswersOfConsulEndALease: only certain answers end a Lease.
func TestOnlyCertainAnswersOfConsulEndALease(t *testing.T) {
	s := storetest.NewMemory()
	lease, err := store.AcquireBlocking(t.Context(), s, "coordinator-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release(context.WithoutCancel(t.Context())) })
	views := view.NewWatcher(s, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = views.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	for v, changed := views.Latest(); v == nil || v.Leader == ""; v, changed = views.Latest() {
		<-changed
	}
	const (
		other   = `{"Name":"coordinator-0","Addr":"127.50.0.1","Status":4}`
		alive   = `{"Name":"coordinator-1","Addr":"127.50.0.2","Status":1}`
		gone    = `{"Name":"coordinator-1","Addr":"127.50.0.2","Status":4}`
		elected = `"127.50.0.3:8300"`
		itself  = `"127.50.0.2:8300"`
	)
	for name, c := range map[string]struct {
		slot, members, raft string
		want                Evaluation
	}{
		"alive":                   {"coordinator-2", alive + "," + other, elected, Evaluation{Leader: "coordinator-1", Term: 1}},
		"given up":                {"coordinator-2", gone + "," + other, elected, Evaluation{Leader: "coordinator-1", Term: 1, Failed: true}},
		"given up, leads Consul":  {"coordinator-2", gone, itself, Evaluation{Leader: "coordinator-1", Term: 1, Failed: true, LeadsRaft: true}},
		"Consul has no leader":    {"coordinator-2", gone, `""`, Evaluation{Leader: "coordinator-1", Term: 1, Failed: true, Elects: true}},
		"unknown":                 {"coordinator-2", other, elected, Evaluation{Leader: "coordinator-1", Term: 1}},
		"Consul does not answer":  {"coordinator-2", "", "", Evaluation{Leader: "coordinator-1", Term: 1}},
		"this coordinator itself": {"coordinator-1", gone, elected, Evaluation{}},
	} {
		t.Run(name, func(t *testing.T) {
			consul := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case c.members == "":
					http.Error(w, "starting", http.StatusInternalServerError)
				case r.URL.Path == "/v1/agent/members":
					_, _ = fmt.Fprintf(w, "[%s]", c.members)
				case r.URL.Path == "/v1/status/leader":
					_, _ = fmt.Fprint(w, c.raft)
				}
			}))
			defer consul.Close()
			w, err := New(Config{Slot: c.slot, Address: strings.TrimPrefix(consul.URL, "http://"), Views: views, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if got := w.evaluate(); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
