package storetest

import (
	"context"
	"errors"
	"time"

	"cadre.dev/store"
)

// stillness is how long the test waits for a watch that should not return.
const stillness = 150 * time.Millisecond

type watched struct {
	index uint64
	err   error
}

// watch starts a Watch from the current state of prefix.
func (s *suite) watch(prefix string) (from uint64, result <-chan watched) {
	s.Helper()
	_, from, err := s.List(s.ctx, prefix)
	if err != nil {
		s.Fatal(err)
	}
	return from, s.watchFrom(prefix, from)
}

func (s *suite) watchFrom(prefix string, from uint64) <-chan watched {
	done := make(chan watched, 1)
	go func() {
		index, err := s.Watch(s.ctx, prefix, from)
		done <- watched{index, err}
	}()
	return done
}

func (s *suite) woken(from uint64, result <-chan watched) {
	s.Helper()
	got := <-result
	if got.err != nil || got.index <= from {
		s.Fatalf("watch from %d: got %d, %v", from, got.index, got.err)
	}
}

func (s *suite) asleep(result <-chan watched) {
	s.Helper()
	timer := time.NewTimer(stillness)
	defer timer.Stop()
	select {
	case got := <-result:
		s.Fatalf("watch returned %d, %v though nothing changed", got.index, got.err)
	case <-timer.C:
	}
}

var watchTests = []contractTest{
	{"a change wakes it, another prefix does not", func(s *suite) {
		s.must(put("a/x", "one"), put("b/x", "one"))
		from, result := s.watch("a/")
		s.must(put("b/x", "two"))
		s.asleep(result)
		s.must(put("a/x", "two"))
		s.woken(from, result)
	}},

	{"a new key and a deletion wake it", func(s *suite) {
		s.must(put("a/x", "one"))
		from, result := s.watch("a/")
		s.must(put("a/y", "new"))
		s.woken(from, result)
		from, result = s.watch("a/")
		s.must(remove("a/x"))
		s.woken(from, result)
		from, result = s.watch("a/")
		s.must(remove("a/y"))
		s.woken(from, result)
	}},

	{"the first key below an empty prefix wakes it", func(s *suite) {
		from, result := s.watch("a/")
		s.must(put("a/x", "one"))
		s.woken(from, result)
	}},

	{"a change before the call is not missed", func(s *suite) {
		s.must(put("a/x", "one"))
		_, from, err := s.List(s.ctx, "a/")
		if err != nil {
			s.Fatal(err)
		}
		s.must(put("a/x", "two"))
		s.woken(from, s.watchFrom("a/", from))
	}},

	{"index 0 returns at once", func(s *suite) {
		s.must(put("a/x", "one"))
		s.woken(0, s.watchFrom("a/", 0))
	}},

	{"one key can be watched", func(s *suite) {
		s.must(put("a/x", "one"), put("a/y", "one"))
		from, result := s.watch("a/x")
		s.must(put("a/y", "two"))
		s.asleep(result)
		s.must(put("a/x", "two"))
		s.woken(from, result)
	}},

	{"the end of the context ends it", func(s *suite) {
		s.must(put("a/x", "one"))
		ctx, cancel := context.WithCancel(s.ctx)
		_, from, err := s.List(s.ctx, "a/")
		if err != nil {
			s.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := s.Watch(ctx, "a/", from)
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			s.Fatalf("got %v, want %v", err, context.Canceled)
		}
	}},

	{"taking and freeing the lease wakes it", func(s *suite) {
		from, result := s.watch(store.LeaseKey)
		lease := s.acquire("one")
		s.woken(from, result)
		from, result = s.watch(store.LeaseKey)
		if err := lease.Release(s.ctx); err != nil {
			s.Fatal(err)
		}
		s.woken(from, result)
	}},
}
