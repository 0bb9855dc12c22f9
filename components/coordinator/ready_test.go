package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/reconcile"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/raced/synctest"
	"cadre.dev/store/storetest"
)

// TestReadyOnlyWhileTheRecordsCanBeRead: /readyz and /healthz agree with health.
func TestReadyOnlyWhileTheRecordsCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		c := &Coordinator{cfg: Config{Slot: "coordinator-0"}, views: view.NewWatcher(s, slog.New(slog.DiscardHandler)), reconcile: reconcile.New(reconcile.Config{})}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		want := func(records bool, when string) {
			t.Helper()
			if h := c.health(); h.Records != records || h.Slot != "coordinator-0" {
				t.Errorf("%s: %+v", when, h)
			}
		}
		want(false, "before the first read")
		running.Go(func() { _ = c.views.Run(ctx) })
		synctest.Wait()
		want(true, "once they were read")
		s.FailReads(errors.New("no cluster leader"))
		time.Sleep(time.Minute)
		want(false, "after a minute without a leader")
		s.FailReads(nil)
		time.Sleep(2 * time.Second)
		want(true, "with a leader again")
		cancel()
		running.Wait()
	})
}
