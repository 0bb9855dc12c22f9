package storetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

func putOp(key, value string) store.Op {
	return store.Op{Kind: store.OpPut, Key: key, Value: []byte(value)}
}

func TestMemoryFaults(t *testing.T) {
	m := storetest.NewMemory()
	m.FailCommits(storetest.UnknownLost, storetest.UnknownApplied, storetest.Refused, storetest.None)
	for _, test := range []struct {
		value string
		want  error
		reads string
	}{
		{"1", store.ErrUnknown, ""}, {"2", store.ErrUnknown, "2"}, {"3", nil, "2"}, {"4", nil, "4"},
	} {
		err := m.Commit(t.Context(), putOp("a", test.value))
		if test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("commit %s: got %v, want %v", test.value, err, test.want)
		}
		if got := m.Dump()["a"]; got != test.reads {
			t.Errorf("after commit %s: %q, want %q", test.value, got, test.reads)
		}
	}
	m.OnCommit(func([]store.Op) storetest.Fault { return storetest.Refused })
	if err := m.Commit(t.Context(), putOp("a", "5")); err == nil || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrConflict) {
		t.Errorf("refused: got %v", err)
	}
}

func TestMemoryReadFaults(t *testing.T) {
	m := storetest.NewMemory()
	down := errors.New("down")
	done := make(chan error, 1)
	go func() {
		_, err := m.Watch(t.Context(), "a", 1)
		done <- err
	}()
	m.FailReads(down)
	if err := <-done; !errors.Is(err, down) {
		t.Errorf("watch: got %v", err)
	}
	if _, err := m.Get(t.Context(), "a"); !errors.Is(err, down) {
		t.Errorf("get: got %v", err)
	}
	if _, _, err := m.Holder(t.Context()); !errors.Is(err, down) {
		t.Errorf("holder: got %v", err)
	}
	m.FailReads(nil)
	if _, err := m.Get(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get: got %v", err)
	}
}

// TestCTL02_SessionEndsBetweenDecisionAndWrite is the race that the fence prevents.
func TestCTL02_SessionEndsBetweenDecisionAndWrite(t *testing.T) {
	m := storetest.NewMemory()
	lease, err := m.Acquire(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	m.OnCommit(func([]store.Op) storetest.Fault { m.ExpireSession(); return storetest.None })
	if lease.Context().Err() != nil {
		t.Fatal("lost too early")
	}
	if err := m.Commit(t.Context(), append(lease.Fence(), putOp("a", "stale"))...); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("got %v, want %v", err, store.ErrFenced)
	}
	if _, written := m.Dump()["a"]; written {
		t.Fatal("written past the fence")
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, store.ErrFenced) {
		t.Fatalf("cause %v", cause)
	}
	_ = lease.Release(t.Context())
}

func TestMemoryOutageCostsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewMemory()
		lease, err := m.Acquire(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if lease.Context().Err() != nil {
			t.Fatalf("ended: %v", context.Cause(lease.Context()))
		}
		m.FailReads(errors.New("down"))
		<-lease.Context().Done()
		time.Sleep(10 * time.Second)
		m.FailReads(nil)
		if holder, term, err := m.Holder(t.Context()); holder != "" || term != 1 || err != nil {
			t.Fatalf("holder %q, term %d, %v", holder, term, err)
		}
		_ = lease.Release(t.Context())
	})
}

func TestMemoryNoticesARestore(t *testing.T) {
	m := storetest.NewMemory()
	if err := m.Commit(t.Context(), putOp("a", "old")); err != nil {
		t.Fatal(err)
	}
	before := m.Snapshot()
	lease, err := m.Acquire(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(t.Context(), append(lease.Fence(), putOp("a", "new"))...); err != nil {
		t.Fatal(err)
	}
	_, index, err := m.List(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	m.Restore(before)
	if now, err := m.Watch(t.Context(), "a", index); err != nil || now >= index {
		t.Errorf("watch: got %d, %v, want less than %d", now, err, index)
	}
	if err := m.Commit(t.Context(), append(lease.Fence(), putOp("a", "newer"))...); !errors.Is(err, store.ErrFenced) {
		t.Errorf("write of the old leader: got %v, want %v", err, store.ErrFenced)
	}
	if _, err := m.Acquire(t.Context(), "two"); !errors.Is(err, store.ErrTermRegression) {
		t.Errorf("acquire: got %v, want %v", err, store.ErrTermRegression)
	}
	_ = lease.Release(t.Context())
}

func TestManualClockDrivesTheLease(t *testing.T) {
	clock := storetest.NewManualClock()
	m := storetest.NewMemoryWith(storetest.MemoryConfig{Clock: clock})
	lease, err := m.Acquire(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := lease.Remaining(), 7*time.Second; got != want {
		t.Fatalf("remaining %v, want %v", got, want)
	}
	m.PauseRenewals(true)
	clock.Advance(7 * time.Second)
	if lease.Remaining() != 0 || lease.Context().Err() == nil {
		t.Fatal("the lease outlived its deadline")
	}
	if holder, _, err := m.Holder(t.Context()); holder != "one" || err != nil {
		t.Fatalf("holder %q, %v: the session lives until its TTL", holder, err)
	}
	clock.Advance(3 * time.Second)
	next, err := store.AcquireBlocking(t.Context(), m, "two", nil)
	if err != nil || next.Term() != 2 {
		t.Fatalf("got %v, %v", next, err)
	}
	for _, l := range []store.Lease{lease, next} {
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAcquireBlockingWaitsErrorsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewMemory()
		m.FailReads(errors.New("no leader"))
		told := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(30*time.Second, func() { m.FailReads(nil) })
		lease, err := store.AcquireBlocking(ctx, m, "one", func(error) { told++ })
		if err != nil {
			t.Fatal(err)
		}
		if told < 10 || told > 60 {
			t.Errorf("%d attempts in 30 s", told)
		}
		waited, err := store.AcquireBlocking(ctx, m, "two", nil)
		if waited != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v, want %v", waited, err, context.DeadlineExceeded)
		}
		_ = lease.Release(t.Context())
	})
}

func TestCommitResolved(t *testing.T) {
	readBack := func(m *storetest.Memory) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			_, err := m.Get(ctx, "a")
			if errors.Is(err, store.ErrNotFound) {
				return false, nil
			}
			return err == nil, err
		}
	}
	m := storetest.NewMemory()
	m.FailCommits(storetest.UnknownLost, storetest.UnknownApplied)
	if err := store.CommitResolved(t.Context(), m, []store.Op{putOp("a", "1")}, readBack(m)); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("lost: got %v, want %v", err, store.ErrUnknown)
	}
	if err := store.CommitResolved(t.Context(), m, []store.Op{putOp("a", "1")}, readBack(m)); err != nil {
		t.Errorf("applied: got %v", err)
	}
	m.FailCommits(storetest.UnknownApplied)
	down := errors.New("down")
	err := store.CommitResolved(t.Context(), m, []store.Op{putOp("a", "2")}, func(context.Context) (bool, error) { return false, down })
	if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, down) {
		t.Errorf("read-back down: got %v, want both", err)
	}
}
