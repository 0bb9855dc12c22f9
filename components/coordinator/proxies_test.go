package coordinator

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestProxiesOfARecordThatCannotBeRead: the proxies stay, so that their streams continue. The
// proxies of a removed record do not.
func TestProxiesOfARecordThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		c := &Coordinator{views: view.NewWatcher(s, slog.New(slog.DiscardHandler)), directory: &control.Directory{}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.views.Run(ctx) })
		for _, step := range []struct {
			record string
			want   string
		}{
			{`{}`, ""}, // no record could be read yet
			{`{"group":"web","proxies":[{"id":"web-sidecar-proxy","service":"web"}]}`, "web-sidecar-proxy"},
			{`{"group":"web","prox`, "web-sidecar-proxy"},
			{`{"group":"db","proxies":[{"id":"db-sidecar-proxy","service":"db"}]}`, "web-sidecar-proxy"},
			{`{"group":"web","proxies":[{"id":"other-sidecar-proxy","service":"other"}]}`, "other-sidecar-proxy"},
			{"", ""},
		} {
			op := store.Op{Kind: store.OpPut, Key: store.ServiceMeshKey("web"), Value: []byte(step.record)}
			if step.record == "" {
				op = store.Op{Kind: store.OpDelete, Key: op.Key}
			}
			if err := s.Commit(ctx, op); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			v, _ := c.views.Latest()
			for _, when := range []string{"before the directory has it", "then"} {
				got := ""
				if all := c.proxies("web"); len(all) == 1 {
					got = all[0].ID
				}
				if got != step.want {
					t.Errorf("%q, %s: %q, want %q", step.record, when, got, step.want)
				}
				c.directory.Update(v, nil, nil)
			}
		}
		cancel()
		running.Wait()
	})
}
