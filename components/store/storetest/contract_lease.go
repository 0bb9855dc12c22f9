package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"cadre.dev/store"
)

// fenced adds the fence of lease to ops.
func fenced(lease store.Lease, ops ...store.Op) []store.Op { return append(lease.Fence(), ops...) }

var leaseTests = []contractTest{
	{"it is free at first", func(s *suite) { s.wantHolder("", 0) }},

	{"one holder at a time", func(s *suite) {
		lease := s.acquire("one")
		s.wantHolder("one", 1)
		if lease.Term() != 1 || lease.Remaining() <= 0 || lease.Context().Err() != nil {
			s.Fatalf("term %d, remaining %v, context %v", lease.Term(), lease.Remaining(), lease.Context().Err())
		}
		for range 3 {
			if _, err := s.Acquire(s.ctx, "two"); !errors.Is(err, store.ErrLeaseTaken) {
				s.Fatalf("second acquire: got %v, want %v", err, store.ErrLeaseTaken)
			}
		}
		if _, err := s.Acquire(s.ctx, "one"); !errors.Is(err, store.ErrLeaseTaken) {
			s.Fatalf("the lease is not re-entrant: got %v, want %v", err, store.ErrLeaseTaken)
		}
		s.wantHolder("one", 1)
	}},

	{"a holder needs a name", func(s *suite) {
		if lease, err := s.Acquire(s.ctx, ""); err == nil {
			s.Fatalf("got a lease of term %d", lease.Term())
		}
	}},

	{"the holder's fenced writes pass, its own session's only", func(s *suite) {
		lease := s.acquire("one")
		s.must(fenced(lease, put("a", "one"))...)
		s.must(lease.Fence()...)
		s.want("a", "one")
		s.refused(store.ErrFenced, checkSession(store.LeaseKey, "11111111-2222-3333-4444-555555555555"), put("a", "two"))
		s.refused(store.ErrFenced, checkIndex(store.TermKey, s.index(store.TermKey)+1), put("a", "two"))
	}},

	{"a conflict on a record is not a lost lease", func(s *suite) {
		lease := s.acquire("one")
		s.must(put("a", "one"))
		if err := s.refused(store.ErrConflict, fenced(lease, putCAS("a", "two", 0))...); errors.Is(err, store.ErrFenced) {
			s.Fatalf("%v: says that the lease is lost", err)
		}
		if lease.Context().Err() != nil {
			s.Fatal("the lease ended")
		}
	}},

	{"release frees it at once and the fence no longer passes", func(s *suite) {
		lease := s.acquire("one")
		started := time.Now()
		for range 2 {
			if err := lease.Release(s.ctx); err != nil {
				s.Fatal(err)
			}
		}
		if cause := s.ended(lease); !errors.Is(cause, store.ErrReleased) || lease.Remaining() != 0 {
			s.Fatalf("cause %v, remaining %v", cause, lease.Remaining())
		}
		s.wantHolder("", 1)
		err := s.refused(store.ErrFenced, fenced(lease, put("a", "one"))...)
		if !errors.Is(err, store.ErrConflict) {
			s.Fatalf("%v: want %v too", err, store.ErrConflict)
		}
		next := s.acquire("two")
		s.Logf("released and taken over in %v", time.Since(started))
		if next.Term() != 2 {
			s.Fatalf("term %d, want 2", next.Term())
		}
	}},

	{"the term grows by one with each holder", func(s *suite) {
		for want := uint64(1); want <= 5; want++ {
			lease := s.acquire(fmt.Sprint("holder-", want))
			if lease.Term() != want {
				s.Fatalf("term %d, want %d", lease.Term(), want)
			}
			s.wantHolder(fmt.Sprint("holder-", want), want)
			if err := lease.Release(s.ctx); err != nil {
				s.Fatal(err)
			}
		}
	}},

	{"a lost term with remaining records of its leaders is not begun again", func(s *suite) {
		lease := s.acquire("one")
		s.must(fenced(lease, put(store.AdmissionKey("pg-0"), "{}"))...)
		if err := lease.Release(s.ctx); err != nil {
			s.Fatal(err)
		}
		wipe, ok := s.Store.(interface{ Wipe(key string) store.Store })
		if !ok {
			s.Skip("the store cannot lose a lease key")
		}
		fresh := wipe.Wipe(store.TermKey)
		for _, left := range []string{store.LeaseKey, store.AdmissionKey("pg-0")} {
			_, err := store.AcquireBlocking(s.ctx, fresh, "two", nil)
			if !errors.Is(err, store.ErrTermRegression) {
				s.Fatalf("with %s left: got %v, want %v", left, err, store.ErrTermRegression)
			}
			if _, err := fresh.Get(s.ctx, store.TermKey); !errors.Is(err, store.ErrNotFound) {
				s.Fatalf("a term was written: %v", err)
			}
			wipe.Wipe(store.LeaseKey)
		}
		s.must(put(store.RecoverKey(), "not a record"))
		if _, err := fresh.Acquire(s.ctx, "two"); !errors.Is(err, store.ErrTermRegression) || !strings.Contains(err.Error(), store.RecoverKey()) {
			s.Fatalf("raised by nonsense: %v", err)
		}
		s.must(put(store.RecoverKey(), `{"term":41,"reason":"the term was deleted","by":"op"}`))
		next, err := fresh.Acquire(s.ctx, "two")
		if err != nil || next.Term() != 42 {
			s.Fatalf("raised to 41: %v, %v", next, err)
		}
		s.must(fenced(next, put("a", "two"))...)
		if err := next.Release(s.ctx); err != nil {
			s.Fatal(err)
		}
	}},

	{"what operators and coordinators wrote before the first leader is no earlier term", func(s *suite) {
		s.must(put(store.GroupSpecKey("pg"), "{}"), put(store.OverrideKey(store.OverrideFreeze, store.Everywhere), "{}"), put(store.CollateralKey("00906ed50000"), "{}"),
			put(store.OperatorTokenKey(strings.Repeat("0d", 32)), "{}"))
		if lease := s.acquire("one"); lease.Term() != 1 {
			s.Fatalf("term %d, want 1", lease.Term())
		}
	}},

	{"the last term is not passed", func(s *suite) {
		rewrite, ok := s.Store.(interface{ SetTerm(term uint64) })
		if !ok {
			s.Skip("the store cannot write a term")
		}
		for _, term := range []uint64{store.MaxTerm, math.MaxUint64} {
			rewrite.SetTerm(term)
			if _, err := store.AcquireBlocking(s.ctx, s.Store, "one", nil); !errors.Is(err, store.ErrTermExhausted) {
				s.Fatalf("after term %d: got %v, want %v", term, err, store.ErrTermExhausted)
			}
		}
	}},

	{"the values of the lease keys are the documented records", func(s *suite) {
		s.acquire("one")
		record, _, err := store.Read[store.LeaseRecord](s.ctx, s.Store, store.LeaseKey)
		if err != nil || record.Holder != "one" || record.Term != 1 || record.Since.IsZero() {
			s.Fatalf("got %+v, %v", record, err)
		}
		term, _, err := store.Read[store.TermRecord](s.ctx, s.Store, store.TermKey)
		if err != nil || term.Term != 1 {
			s.Fatalf("got %+v, %v", term, err)
		}
	}},

	{"renewals keep it far beyond its TTL", func(s *suite) {
		lease := s.acquire("one")
		// The timer is four times the initial remaining time; the test also sees the real end of
		// the lease.
		timer := time.NewTimer(4 * lease.Remaining())
		defer timer.Stop()
		select {
		case <-lease.Context().Done():
			s.Fatalf("the lease ended: %v", context.Cause(lease.Context()))
		case <-timer.C:
		}
		s.must(fenced(lease, put("a", "one"))...)
		s.wantHolder("one", 1)
	}},

	{"the end of the context given to acquire does not end it", func(s *suite) {
		ctx, cancel := context.WithCancel(s.ctx)
		lease, err := s.Acquire(ctx, "one")
		if err != nil {
			s.Fatal(err)
		}
		cancel()
		s.must(fenced(lease, put("a", "one"))...)
		if err := lease.Release(s.ctx); err != nil {
			s.Fatal(err)
		}
	}},

	{"a destroyed session: the waiter takes over at once, the old holder writes nothing", func(s *suite) {
		broken, ok := s.Store.(breakable)
		if !ok {
			s.Skip("the store cannot end a session")
		}
		old := s.acquire("one")
		taken := make(chan store.Lease, 1)
		go func() { taken <- s.acquireQuietly("two") }()
		if did, err := broken.DestroyHolderSession(s.ctx, "two"); did || err != nil {
			s.Fatalf("destroyed the session of another: %v, %v", did, err)
		}
		started := time.Now()
		if did, err := broken.DestroyHolderSession(s.ctx, "one"); !did || err != nil {
			s.Fatalf("destroy: %v, %v", did, err)
		}
		next := <-taken
		if next == nil {
			s.Fatal("no takeover")
		}
		s.Logf("taken over in %v", time.Since(started))
		if next.Term() != old.Term()+1 {
			s.Fatalf("term %d after %d", next.Term(), old.Term())
		}
		s.refused(store.ErrFenced, fenced(old, put("a", "stale"))...)
		if cause := s.ended(old); !errors.Is(cause, store.ErrFenced) {
			s.Fatalf("cause %v, want %v", cause, store.ErrFenced)
		}
		s.must(fenced(next, put("a", "fresh"))...)
		if err := next.Release(s.ctx); err != nil {
			s.Fatal(err)
		}
	}},

	{"a lease is ended by holder and term, and no later one", func(s *suite) {
		broken, ok := s.Store.(breakable)
		if !ok {
			s.Skip("the store cannot end a session")
		}
		end := func(holder string, term uint64, want bool) {
			if did, err := broken.EndLease(s.ctx, holder, term); did != want || err != nil {
				s.Fatalf("end the lease of %s in term %d: %v, %v, want %v", holder, term, did, err, want)
			}
		}
		end("one", 1, false) // the lease is free
		old := s.acquire("one")
		end("two", old.Term(), false)
		end("one", old.Term()+1, false)
		end("one", old.Term(), true)
		next := s.acquire("one")
		end("one", old.Term(), false)
		s.refused(store.ErrFenced, fenced(old, put("a", "stale"))...)
		s.must(fenced(next, put("a", "fresh"))...)
		if err := next.Release(s.ctx); err != nil {
			s.Fatal(err)
		}
	}},

	{"the holder learns of a destroyed session from its renewal", func(s *suite) {
		broken, ok := s.Store.(breakable)
		if !ok {
			s.Skip("the store cannot end a session")
		}
		lease := s.acquire("one")
		if _, err := broken.DestroyHolderSession(s.ctx, "one"); err != nil {
			s.Fatal(err)
		}
		if cause := s.ended(lease); !errors.Is(cause, store.ErrFenced) {
			s.Fatalf("cause %v, want %v", cause, store.ErrFenced)
		}
	}},

	{"a paused holder knows before another takes over, and cannot write after", func(s *suite) {
		paused, ok := s.Store.(pausable)
		if !ok {
			s.Skip("the store cannot hold renewals up")
		}
		old := s.acquire("one")
		paused.PauseRenewals(true)
		taken := make(chan time.Time, 1)
		leases := make(chan store.Lease, 1)
		go func() {
			lease := s.acquireQuietly("two")
			taken <- time.Now()
			leases <- lease
		}()
		cause := s.ended(old)
		endedAt := time.Now()
		if !errors.Is(cause, store.ErrFenced) || old.Remaining() != 0 {
			s.Fatalf("cause %v, remaining %v", cause, old.Remaining())
		}
		paused.PauseRenewals(false)
		takenAt, next := <-taken, <-leases
		if next == nil {
			s.Fatal("no takeover")
		}
		if takenAt.Before(endedAt) {
			s.Errorf("taken over %v before the old holder knew", endedAt.Sub(takenAt))
		}
		s.Logf("taken over %v after the old holder stopped", takenAt.Sub(endedAt))
		s.refused(store.ErrFenced, fenced(old, put("a", "stale"))...)
		s.must(fenced(next, put("a", "fresh"))...)
		s.want("a", "fresh")
		if err := next.Release(s.ctx); err != nil {
			s.Fatal(err)
		}
	}},

	{"contenders lead one after another and lose no update", func(s *suite) {
		const contenders, rounds = 3, 4
		var wait sync.WaitGroup
		var mu sync.Mutex
		seen := make(map[uint64]string)
		for i := range contenders {
			holder := fmt.Sprint("holder-", i)
			wait.Go(func() {
				for range rounds {
					lease := s.acquireQuietly(holder)
					if lease == nil {
						s.Errorf("%s never led", holder)
						return
					}
					s.count(lease)
					mu.Lock()
					if other, twice := seen[lease.Term()]; twice {
						s.Errorf("term %d of %s and %s", lease.Term(), other, holder)
					}
					seen[lease.Term()] = holder
					mu.Unlock()
					if err := lease.Release(s.ctx); err != nil {
						s.Errorf("release: %v", err)
					}
				}
			})
		}
		wait.Wait()
		s.want("count", strconv.Itoa(contenders*rounds))
	}},
}

// count adds one under the fence of lease, by an unguarded read and write: only the lease keeps two
// holders from doing it at once.
func (s *suite) count(lease store.Lease) {
	n := 0
	entry, err := s.Get(s.ctx, "count")
	if err == nil {
		err = json.Unmarshal(entry.Value, &n)
	} else if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	if err == nil {
		err = s.Commit(s.ctx, fenced(lease, put("count", strconv.Itoa(n+1)))...)
	}
	if err != nil {
		s.Errorf("count at term %d: %v", lease.Term(), err)
	}
}

// acquireQuietly is for goroutines, which must not end the test: it returns nil on an error.
func (s *suite) acquireQuietly(holder string) store.Lease {
	lease, err := store.AcquireBlocking(s.ctx, s.Store, holder, nil)
	if err != nil {
		return nil
	}
	return lease
}

func (s *suite) wantHolder(want string, wantTerm uint64) {
	s.Helper()
	holder, term, err := s.Holder(s.ctx)
	if err != nil || holder != want || term != wantTerm {
		s.Fatalf("holder %q, term %d, %v: want %q, %d", holder, term, err, want, wantTerm)
	}
}
