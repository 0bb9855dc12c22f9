package watermark_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/internal/watermark"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// saw are agents that all report the same watermark.
type saw struct{ mark reports.Watermark }

func (s *saw) HighWater() reports.HighWater {
	return reports.HighWater{Agents: 3, Most: s.mark, Any: s.mark}
}

func lead(t *testing.T, s store.Store) store.Lease {
	t.Helper()
	lease, err := store.AcquireBlocking(t.Context(), s, "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release(context.WithoutCancel(t.Context())) })
	return lease
}

func stateOf(t *testing.T, s store.Store) uint64 {
	t.Helper()
	record, _, err := store.Read[store.StateRecord](t.Context(), s, store.StateKey)
	if err != nil {
		t.Fatal(err)
	}
	return record.State
}

func TestStateGrowsWithEachWrite(t *testing.T) {
	s, agents := storetest.NewMemory(), &saw{}
	lease, r := lead(t, s), watermark.New(s, agents, time.Now)
	spec := store.Op{Kind: store.OpPut, Key: store.GroupStatusKey("pg"), Value: []byte("{}")}
	for want := range uint64(3) {
		if err := r.Grow(t.Context(), lease, spec); err != nil || stateOf(t, s) != want+1 {
			t.Fatalf("state %d, %v, want %d", stateOf(t, s), err, want+1)
		}
	}
	conflict := store.Op{Kind: store.OpCheckAbsent, Key: store.GroupStatusKey("pg")}
	if err := r.Grow(t.Context(), lease, conflict); !errors.Is(err, store.ErrConflict) || stateOf(t, s) != 3 {
		t.Errorf("state %d, %v: it grew although the write was refused", stateOf(t, s), err)
	}
	agents.mark.State = 4
	if err := r.Grow(t.Context(), lease, spec); !errors.Is(err, store.ErrStateRegression) || stateOf(t, s) != 3 {
		t.Errorf("state %d, %v: most agents saw 4", stateOf(t, s), err)
	}
	for _, op := range []store.Op{
		{Kind: store.OpPut, Key: store.StateKey, Value: []byte("{}")}, {Kind: store.OpDelete, Key: store.StateKey}, {Kind: store.OpDeleteCAS, Key: store.StateKey, Index: 1},
	} {
		if err := s.Commit(t.Context(), op); !errors.Is(err, store.ErrBadOp) {
			t.Errorf("%s of the state: %v", op.Kind, err)
		}
	}
}

// TestAStandbyRemembersTheFollowedState: it may be the next leader, and it answers operators.
func TestAStandbyRemembersTheFollowedState(t *testing.T) {
	s, standby := storetest.NewMemory(), watermark.New(storetest.NewMemory(), &saw{}, time.Now)
	lease, r := lead(t, s), watermark.New(s, &saw{}, time.Now)
	for range 5 {
		if err := r.Grow(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	views := view.NewWatcher(s, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = views.Run(ctx) })
	for v, changed := views.Latest(); v == nil; v, changed = views.Latest() {
		<-changed
	}
	running.Go(func() { _ = standby.Follow(ctx, views) })
	for standby.Seen() < 5 {
		runtime.Gosched()
	}
	now, err := standby.State(t.Context())
	cancel()
	running.Wait()
	// Its own records are empty: they went back.
	if err != nil || now.SeenState != 5 || !errors.Is(now.Halted, store.ErrTermRegression) && !errors.Is(now.Halted, store.ErrStateRegression) {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestCTL06_ARealSnapshotOfTheSameTermIsNoticed: the test uses Consul's own save and restore, and
// holds the Lease over both, so that every fence passes before and after.
func TestCTL06_ARealSnapshotOfTheSameTermIsNoticed(t *testing.T) {
	server := storetest.StartConsulACL(t)
	s := storetest.ConsulAt(t, server.Addr, server.ManagementToken, "cadre/v1/")
	consul, err := api.NewClient(&api.Config{Address: server.Addr, Token: server.ManagementToken})
	if err != nil {
		t.Fatal(err)
	}
	agents := &saw{}
	lease, r := lead(t, s), watermark.New(s, agents, time.Now)
	grow := func(r *watermark.Watermark, by store.Lease, times int) (err error) {
		for range times {
			err = errors.Join(err, r.Grow(t.Context(), by))
		}
		return err
	}
	if err := grow(r, lease, 3); err != nil {
		t.Fatal(err)
	}
	backup, _, err := consul.Snapshot().Save(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer backup.Close() //nolint:errcheck // read to its end
	if err := grow(r, lease, 2); err != nil {
		t.Fatal(err)
	}
	agents.mark = reports.Watermark{Term: 1, State: 5}
	if err := consul.Snapshot().Restore(nil, backup); err != nil {
		t.Fatal(err)
	}
	if got := stateOf(t, s); got != 3 {
		t.Fatalf("state %d after the restore, want 3", got)
	}
	for name, one := range map[string]*watermark.Watermark{
		"the leader": r, "a new coordinator": watermark.New(s, agents, time.Now), "a coordinator without reports": watermark.New(s, &saw{}, time.Now),
	} {
		now, err := one.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if known := name != "a coordinator without reports"; errors.Is(now.Halted, store.ErrStateRegression) != known {
			t.Errorf("%s: halted: %v", name, now.Halted)
		}
	}
	if err := grow(r, lease, 1); !errors.Is(err, store.ErrStateRegression) {
		t.Fatalf("the leader goes on: %v", err)
	}
	now, err := r.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raised := store.Recovery{Reason: "restored", By: "op"}
	raised.Term, raised.State = now.Above()
	text, err := json.Marshal(raised)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: store.RecoverKey(), Value: text}); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := lead(t, s)
	if err := grow(r, next, 1); err != nil || stateOf(t, s) <= 5 || next.Term() <= 1 {
		t.Errorf("after the recovery: term %d, state %d, %v", next.Term(), stateOf(t, s), err)
	}
	if now, err := r.State(t.Context()); err != nil || now.Halted != nil {
		t.Errorf("still halted: %v, %v", now.Halted, err)
	}
}
