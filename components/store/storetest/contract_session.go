package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"cadre.dev/store"
)

// bootTTL is the minimum of the test servers.
const bootTTL = SessionTTL

var bootKey = store.BootLeaseKey("pg-0")

func lock(session, value string) store.Op {
	return store.Op{Kind: store.OpLock, Key: bootKey, Value: []byte(value), Session: session}
}

func unlock(session string) store.Op {
	return store.Op{Kind: store.OpUnlock, Key: bootKey, Session: session}
}

// session creates a session that the test ends.
func (s *suite) session(name string) string {
	s.Helper()
	id, err := s.CreateSession(s.ctx, name, bootTTL)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = s.DestroySession(s.Context(), id) })
	return id
}

func (s *suite) wantLock(session, value string) {
	s.Helper()
	entry, err := s.Get(s.ctx, bootKey)
	if err != nil || entry.Session != session || string(entry.Value) != value {
		s.Fatalf("%s: locked by %q with %q (%v), want %q with %q", bootKey, entry.Session, entry.Value, err, session, value)
	}
}

// awaitFree waits until the key is free.
func (s *suite) awaitFree() {
	s.Helper()
	var index uint64
	for {
		entry, err := s.Get(s.ctx, bootKey)
		if err != nil {
			s.Fatal(err)
		}
		if entry.Session == "" {
			return
		}
		if index, err = s.Watch(s.ctx, bootKey, max(index, entry.Index)); err != nil {
			s.Fatalf("the key did not become free: %v", err)
		}
	}
}

var sessionTests = []contractTest{
	{"one session holds a key", func(s *suite) {
		one, two := s.session("one"), s.session("two")
		s.must(lock(one, "one"), put("a", "1"))
		s.wantLock(one, "one")
		if err := s.refused(store.ErrConflict, lock(two, "two"), put("a", "2")); errors.Is(err, store.ErrFenced) {
			s.Fatalf("%v: says that the leader's lease is lost", err)
		}
		s.must(lock(one, "again"))
		s.wantLock(one, "again")
		s.must(checkSession(bootKey, one))
		s.refused(store.ErrConflict, checkSession(bootKey, two))
	}},

	{"who knows the holder hands the key over in one transaction", func(s *suite) {
		one, two, three := s.session("one"), s.session("two"), s.session("three")
		s.must(lock(one, "one"))
		s.refused(store.ErrConflict, unlock(two), lock(two, "two"))
		s.must(unlock(one), lock(two, "two"))
		s.wantLock(two, "two")
		s.refused(store.ErrConflict, unlock(one), lock(three, "three"))
		s.wantLock(two, "two")
	}},

	{"a handed-over key does not wait and does not fall with its old session", func(s *suite) {
		one, two := s.session("one"), s.session("two")
		s.must(lock(one, "one"))
		s.must(unlock(one), lock(two, "two"))
		if err := s.DestroySession(s.ctx, one); err != nil {
			s.Fatal(err)
		}
		s.wantLock(two, "two")
	}},

	{"a destroyed session frees its key at once and locks nothing any more", func(s *suite) {
		one := s.session("one")
		s.must(lock(one, "one"))
		for range 2 {
			if err := s.DestroySession(s.ctx, one); err != nil {
				s.Fatal(err)
			}
		}
		s.wantLock("", "one")
		s.refused(store.ErrConflict, lock(one, "one"))
		if err := s.RenewSession(s.ctx, one); !errors.Is(err, store.ErrNoSession) {
			s.Fatalf("renewing a destroyed session: %v", err)
		}
	}},

	{"a key that was free is deleted by its index, and not once it is taken", func(s *suite) {
		one, two := s.session("one"), s.session("two")
		s.must(lock(one, "one"))
		held := s.index(bootKey)
		if err := s.DestroySession(s.ctx, one); err != nil {
			s.Fatal(err)
		}
		free := s.index(bootKey)
		s.refused(store.ErrConflict, removeCAS(bootKey, held))
		s.must(lock(two, "one")) // the same value
		s.refused(store.ErrConflict, removeCAS(bootKey, free))
		s.wantLock(two, "one")
		s.must(unlock(two))
		s.must(removeCAS(bootKey, s.index(bootKey)))
		if _, err := s.Get(s.ctx, bootKey); !errors.Is(err, store.ErrNotFound) {
			s.Fatalf("deleted, but: %v", err)
		}
		s.must(lock(two, "again"))
		s.wantLock(two, "again")
	}},

	{"a watch sees the end of a session", func(s *suite) {
		one := s.session("one")
		s.must(lock(one, "one"))
		before := s.index(bootKey)
		seen := make(chan error, 1)
		go func() { _, err := s.Watch(s.ctx, store.BootLeasePrefix, before); seen <- err }()
		if err := s.DestroySession(s.ctx, one); err != nil {
			s.Fatal(err)
		}
		if err := <-seen; err != nil {
			s.Fatal(err)
		}
		if after := s.index(bootKey); after <= before {
			s.Fatalf("index %d after %d", after, before)
		}
	}},

	{"renewals keep a session beyond its TTL, their end ends it", func(s *suite) {
		one := s.session("one")
		s.must(lock(one, "one"))
		tick := time.NewTicker(bootTTL / 3)
		defer tick.Stop()
		for started := time.Now(); time.Since(started) < 3*bootTTL; <-tick.C {
			if err := s.RenewSession(s.ctx, one); err != nil {
				s.Fatal(err)
			}
		}
		s.wantLock(one, "one")
		last := time.Now()
		s.awaitFree()
		if lasted := time.Since(last); lasted < bootTTL/2 {
			s.Fatalf("it ended %v after its last renewal, its TTL is %v", lasted, bootTTL)
		}
	}},

	{"of many that lock at once one succeeds", func(s *suite) {
		var wg sync.WaitGroup
		won := make(chan string, 20)
		for i := range cap(won) {
			id := s.session(fmt.Sprint("racer-", i))
			wg.Go(func() {
				switch err := s.Commit(s.ctx, lock(id, id)); {
				case err == nil:
					won <- id
				case !errors.Is(err, store.ErrConflict):
					s.Errorf("lock: %v", err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			s.Fatalf("%d won", len(won))
		}
		winner := <-won
		s.wantLock(winner, winner)
	}},

	{"a lock is of a boot lease and of a session", func(s *suite) {
		one := s.session("one")
		s.refused(store.ErrBadOp, store.Op{Kind: store.OpLock, Key: "a", Session: one})
		s.refused(store.ErrBadOp, store.Op{Kind: store.OpLock, Key: store.LeaseKey, Session: one})
		s.refused(store.ErrBadOp, store.Op{Kind: store.OpLock, Key: bootKey})
		s.refused(store.ErrBadOp, store.Op{Kind: store.OpUnlock, Key: bootKey})
		s.refused(store.ErrBadOp, put(bootKey, "x"))
		s.refused(store.ErrBadOp, remove(bootKey))
	}},
}
