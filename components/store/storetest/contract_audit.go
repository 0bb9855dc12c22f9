package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cadre.dev/core/audit"
	"cadre.dev/store"
)

// note is an entry of an operator.
func note(verb string) audit.Entry {
	return audit.Entry{At: time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC), Who: audit.Operator, By: "alice", Verb: verb, Reason: "a test"}
}

// chain reads the whole chain and verifies it.
func (s *suite) chain() []audit.Entry {
	s.Helper()
	head, err := store.ReadAuditHead(s.ctx, s.Store)
	if err != nil {
		s.Fatalf("read the head: %v", err)
	}
	var all []audit.Entry
	v := audit.After(head.Checkpoint)
	for from := head.Checkpoint.Number + 1; from <= head.Last.Number; {
		some, err := store.ReadAudit(s.ctx, s.Store, from, head.Last.Number)
		if err != nil || len(some) == 0 {
			s.Fatalf("read the chain from %d: %d entries, %v", from, len(some), err)
		}
		for _, e := range some {
			if err := v.Next(e); err != nil {
				s.Fatalf("%v", err)
			}
		}
		all, from = append(all, some...), from+uint64(len(some))
	}
	if err := v.End(head.Last); err != nil {
		s.Fatalf("%v", err)
	}
	return all
}

func (s *suite) giveUp(lease store.Lease) {
	s.Helper()
	if err := lease.Release(s.ctx); err != nil {
		s.Fatalf("release: %v", err)
	}
}

var auditTests = []contractTest{
	{"an act and its entry are one transaction", func(s *suite) {
		s.must(store.Noted(putCAS("control/a", "one", 0), note("create")))
		s.must(store.Noted(put("control/a", "two"), note("set")), store.Noted(put("control/b", "x"), note("set")), put("c", "unnoted"))
		s.must(store.Noted(removeCAS("control/a", s.index("control/a")), note("lift")), store.Noted(remove("control/b"), note("lift")))
		s.must(store.Noted(remove("control/b"), note("lift")))
		digest := func(value string) string { return audit.ValueDigest([]byte(value), true) }
		got := s.chain()
		for n, want := range []audit.Entry{
			{Object: "control/a", After: digest("one")},
			{Object: "control/a", Before: digest("one"), After: digest("two")},
			{Object: "control/b", After: digest("x")},
			{Object: "control/a", Before: digest("two")},
			{Object: "control/b", Before: digest("x")},
		} {
			if n >= len(got) || got[n].Object != want.Object || got[n].Before != want.Before || got[n].After != want.After || got[n].By != "alice" {
				s.Fatalf("entry %d: got %+v, want %+v", n+1, got, want)
			}
		}
		if len(got) != 5 {
			s.Fatalf("%d entries, want 5: the deletion of an absent key changes nothing", len(got))
		}
		s.want("c", "unnoted")
	}},

	{"a refused act has no entry", func(s *suite) {
		s.must(put("control/a", "one"))
		err := s.refused(store.ErrConflict, put("b", "x"), store.Noted(putCAS("control/a", "two", 0), note("set")))
		conflict, ok := errors.AsType[*store.ConflictError](err)
		if !ok || len(conflict.Failed) != 1 || conflict.Failed[0].Index != 1 || conflict.Failed[0].Op.Note == nil {
			s.Fatalf("got %#v, want operation 1 as it was given", err)
		}
		s.refused(store.ErrConflict, store.Noted(put("control/a", "two"), note("set")), checkAbsent("control/a"))
		if got := s.chain(); len(got) != 0 {
			s.Fatalf("entries of refused acts: %+v", got)
		}
	}},

	{"a check with a note enters what was found", func(s *suite) {
		s.must(put("control/a", "one"))
		found := note("edit")
		found.Before = "before"
		s.must(store.Noted(checkIndex("control/a", s.index("control/a")), found), store.Noted(checkAbsent("control/b"), found))
		got := s.chain()
		if len(got) != 2 || got[0].Before != "before" || got[0].After != audit.ValueDigest([]byte("one"), true) || got[1].Before != "before" || got[1].After != "" {
			s.Fatalf("got %+v", got)
		}
	}},

	{"acts at the same time have one order", func(s *suite) {
		const writers, acts = 4, 6
		var all sync.WaitGroup
		errs := make(chan error, writers*acts)
		for w := range writers {
			all.Go(func() {
				for n := range acts {
					errs <- s.Commit(s.ctx, store.Noted(putCAS(fmt.Sprintf("control/%d-%d", w, n), "x", 0), note("set")))
				}
			})
		}
		all.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				s.Fatalf("%v", err)
			}
		}
		if got := len(s.chain()); got != writers*acts {
			s.Fatalf("%d entries, want %d", got, writers*acts)
		}
	}},

	{"a note takes room in a transaction", func(s *suite) {
		var ops []store.Op
		for n := range 31 {
			ops = append(ops, store.Noted(put(fmt.Sprintf("control/%d", n), "x"), note("set")))
		}
		s.must(ops...)
		s.must(append(ops, put("a", "x"))...)
		s.refused(store.ErrBadOp, append(ops, put("a", "x"), put("b", "x"))...)
		s.refused(store.ErrTooLarge, store.Noted(put("control/a", strings.Repeat("x", store.MaxTxnBytes/4*3-1024)), note("set")))
		if got := len(s.chain()); got != 2*31 {
			s.Fatalf("%d entries, want %d", got, 2*31)
		}
		n := 0
		for batch := range store.Batches(nil, append(ops, ops...)) {
			if n += len(batch); !store.Fit(batch...) {
				s.Fatalf("a batch of %d operations does not fit", len(batch))
			}
		}
		if n != 2*31 {
			s.Fatalf("%d operations in batches, want %d", n, 2*31)
		}
	}},

	{"a damaged end of the chain stops no act", func(s *suite) {
		s.must(store.Noted(put("control/a", "one"), note("set")))
		for _, damage := range []store.Op{put(store.AuditHeadKey, "not JSON"), remove(store.AuditHeadKey)} {
			before := len(s.chain())
			s.must(damage)
			s.must(store.Noted(put("control/a", "after "+string(damage.Kind)), note("set")))
			if got := len(s.chain()); got != before+1 {
				s.Fatalf("%d entries after %s, want %d", got, damage.Kind, before+1)
			}
		}
	}},

	{"each holder of the lease has an entry", func(s *suite) {
		for n, holder := range []string{"one", "two"} {
			lease := s.acquire(holder)
			s.must(fenced(lease, store.Noted(put("control/a", holder), note("set")))...)
			s.must(fenced(lease, put("control/"+holder, "by the leader"), put("a", holder))...)
			s.giveUp(lease)
			got := s.chain()
			if own := got[len(got)-1]; own.Who != audit.Leader || own.By != holder || own.Verb != "update" || own.Object != "control/"+holder {
				s.Fatalf("got %+v", own)
			}
			if lead := got[3*n]; len(got) != 3*n+3 || lead.Verb != "lead" || lead.By != holder || lead.Who != audit.Leader || lead.Object != store.TermKey {
				s.Fatalf("got %+v", got)
			}
		}
	}},

	{"a fenced act has no entry", func(s *suite) {
		old := s.acquire("one")
		s.giveUp(old)
		before := len(s.chain())
		s.refused(store.ErrFenced, fenced(old, store.Noted(put("control/a", "late"), note("set")))...)
		if got := len(s.chain()); got != before {
			s.Fatalf("%d entries, want %d", got, before)
		}
	}},
}
