package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"cadre.dev/store"
)

// patience bounds every wait of the suite on a busy machine.
const patience = 30 * time.Second

// Factory returns an empty Store for one test. Its session TTL should be short: the suite waits for
// sessions to end. Tests run in parallel.
type Factory func(t *testing.T) store.Store

// pausable stores can hold up renewals, as if the holder's process had been paused.
type pausable interface{ PauseRenewals(paused bool) }

// breakable stores can end the session of a holder.
type breakable interface {
	DestroyHolderSession(ctx context.Context, holder string) (bool, error)
	EndLease(ctx context.Context, holder string, term uint64) (bool, error)
}

// Run runs the contract of every Store.
func Run(t *testing.T, factory Factory) {
	for _, part := range []struct {
		name  string
		tests []contractTest
	}{
		{"read", readTests}, {"commit", commitTests}, {"bounds", boundTests}, {"watch", watchTests},
		{"lease", leaseTests}, {"session", sessionTests}, {"typed", typedTests}, {"audit", auditTests},
	} {
		for _, test := range part.tests {
			t.Run(part.name+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				test.run(&suite{T: t, Store: factory(t), ctx: ctx})
			})
		}
	}
}

type contractTest struct {
	name string
	run  func(s *suite)
}

// suite is one running test with its store.
type suite struct {
	*testing.T
	store.Store
	ctx context.Context //nolint:containedctx // one suite value is one test
}

// must commits, and fails the test on an error.
func (s *suite) must(ops ...store.Op) {
	s.Helper()
	if err := s.Commit(s.ctx, ops...); err != nil {
		s.Fatalf("commit %v: %v", ops, err)
	}
}

// refused commits and wants errors.Is(err, want) and an unchanged store.
func (s *suite) refused(want error, ops ...store.Op) error {
	s.Helper()
	before := s.contents()
	err := s.Commit(s.ctx, ops...)
	if !errors.Is(err, want) {
		s.Fatalf("commit %v: got error %v, want %v", ops, err, want)
	}
	after := s.contents()
	if len(before) != len(after) {
		s.Fatalf("a refused transaction changed the keys: %v, then %v", before, after)
	}
	for key, entry := range before {
		if after[key] != entry {
			s.Fatalf("a refused transaction changed %s: %v, then %v", key, entry, after[key])
		}
	}
	return err
}

type content struct {
	value string
	index uint64
}

func (s *suite) contents() map[string]content {
	s.Helper()
	entries, _, err := s.List(s.ctx, "")
	if err != nil {
		s.Fatalf("list: %v", err)
	}
	all := make(map[string]content, len(entries))
	for _, entry := range entries {
		all[entry.Key] = content{string(entry.Value), entry.Index}
	}
	return all
}

func (s *suite) index(key string) uint64 {
	s.Helper()
	entry, err := s.Get(s.ctx, key)
	if err != nil {
		s.Fatalf("get %s: %v", key, err)
	}
	return entry.Index
}

func (s *suite) want(key, value string) {
	s.Helper()
	entry, err := s.Get(s.ctx, key)
	if err != nil || string(entry.Value) != value {
		s.Fatalf("get %s: got %q, %v, want %q", key, entry.Value, err, value)
	}
}

func (s *suite) wantAbsent(key string) {
	s.Helper()
	if entry, err := s.Get(s.ctx, key); !errors.Is(err, store.ErrNotFound) {
		s.Fatalf("get %s: got %q, %v, want %v", key, entry.Value, err, store.ErrNotFound)
	}
}

func (s *suite) acquire(holder string) store.Lease {
	s.Helper()
	lease, err := store.AcquireBlocking(s.ctx, s.Store, holder, func(err error) { s.Logf("acquire %s: %v", holder, err) })
	if err != nil {
		s.Fatalf("acquire %s: %v", holder, err)
	}
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := lease.Release(ctx); err != nil {
			s.Errorf("release %s: %v", holder, err)
		}
	})
	return lease
}

// ended waits for the end of a lease and returns the cause.
func (s *suite) ended(lease store.Lease) error {
	s.Helper()
	select {
	case <-lease.Context().Done():
		return context.Cause(lease.Context())
	case <-s.ctx.Done():
		s.Fatalf("the lease of term %d did not end", lease.Term())
		return nil
	}
}

func put(key, value string) store.Op {
	return store.Op{Kind: store.OpPut, Key: key, Value: []byte(value)}
}

func putCAS(key, value string, index uint64) store.Op {
	return store.Op{Kind: store.OpPutCAS, Key: key, Value: []byte(value), Index: index}
}

func remove(key string) store.Op { return store.Op{Kind: store.OpDelete, Key: key} }

func removeCAS(key string, index uint64) store.Op {
	return store.Op{Kind: store.OpDeleteCAS, Key: key, Index: index}
}

func checkIndex(key string, index uint64) store.Op {
	return store.Op{Kind: store.OpCheckIndex, Key: key, Index: index}
}

func checkAbsent(key string) store.Op { return store.Op{Kind: store.OpCheckAbsent, Key: key} }

func checkSession(key, session string) store.Op {
	return store.Op{Kind: store.OpCheckSession, Key: key, Session: session}
}
