package storetest

import (
	"errors"
	"fmt"
	"strings"

	"cadre.dev/store"
)

var commitTests = []contractTest{
	{"index 0 writes only what is absent", func(s *suite) {
		s.must(putCAS("a", "one", 0))
		s.refused(store.ErrConflict, putCAS("a", "two", 0))
		s.want("a", "one")
	}},

	{"check-and-set needs the present index", func(s *suite) {
		s.must(put("a", "one"))
		old := s.index("a")
		s.must(putCAS("a", "two", old))
		s.refused(store.ErrConflict, putCAS("a", "three", old))
		s.refused(store.ErrConflict, putCAS("a", "three", s.index("a")+1))
		s.refused(store.ErrConflict, putCAS("absent", "x", old))
		s.want("a", "two")
	}},

	{"a failed check undoes everything", func(s *suite) {
		s.must(put("a", "one"), put("b", "one"), put("d", "one"))
		for _, check := range []store.Op{
			checkIndex("a", s.index("a")+1), checkIndex("absent", 1), checkAbsent("a"),
			checkSession("a", "11111111-2222-3333-4444-555555555555"), putCAS("a", "x", 0), removeCAS("a", s.index("a")+1),
		} {
			s.refused(store.ErrConflict, put("b", "two"), remove("d"), put("c", "new"), check)
			s.refused(store.ErrConflict, check, put("b", "two"))
		}
	}},

	{"the conflict names the failed operations", func(s *suite) {
		s.must(put("a", "one"))
		err := s.refused(store.ErrConflict, put("b", "x"), checkAbsent("a"), checkIndex("a", s.index("a")), checkIndex("c", 7))
		conflict, ok := errors.AsType[*store.ConflictError](err)
		if !ok || len(conflict.Failed) != 2 || conflict.Failed[0].Index != 1 || conflict.Failed[1].Index != 3 {
			s.Fatalf("got %#v, want operations 1 and 3", err)
		}
		if errors.Is(err, store.ErrFenced) {
			s.Fatalf("%v: says fenced, but no fence was checked", err)
		}
	}},

	{"checks that hold let the writes through", func(s *suite) {
		s.must(put("a", "one"))
		s.must(checkIndex("a", s.index("a")), checkAbsent("b"), put("b", "new"))
		s.want("b", "new")
	}},

	{"a transaction of checks alone", func(s *suite) {
		s.must(put("a", "one"))
		s.must(checkIndex("a", s.index("a")))
		s.refused(store.ErrConflict, checkIndex("a", s.index("a")+1))
	}},

	{"delete removes, and is fine with an absent key", func(s *suite) {
		s.must(put("a", "one"))
		s.must(remove("a"))
		s.wantAbsent("a")
		s.must(remove("a"))
	}},

	{"delete by index needs the present index and a key", func(s *suite) {
		s.must(put("a", "one"))
		old := s.index("a")
		s.must(put("a", "two"))
		s.refused(store.ErrConflict, removeCAS("a", old))
		present := s.index("a")
		s.must(removeCAS("a", present))
		s.wantAbsent("a")
		s.refused(store.ErrConflict, removeCAS("a", present))
	}},

	{"a key that was deleted is absent again", func(s *suite) {
		s.must(putCAS("a", "one", 0))
		old := s.index("a")
		s.must(remove("a"))
		s.refused(store.ErrConflict, putCAS("a", "two", old))
		s.must(checkAbsent("a"), putCAS("a", "two", 0))
		if s.index("a") <= old {
			s.Fatalf("index %d after %d: want a later one", s.index("a"), old)
		}
	}},

	{"later operations see earlier ones", func(s *suite) {
		s.must(put("a", "one"))
		s.must(remove("a"), checkAbsent("a"), putCAS("a", "two", 0))
		s.want("a", "two")
		s.refused(store.ErrConflict, put("b", "x"), checkAbsent("b"))
	}},

	{"all keys of a transaction get one index", func(s *suite) {
		s.must(put("a", "1"), put("b", "1"))
		if a, b := s.index("a"), s.index("b"); a != b {
			s.Fatalf("indices %d and %d", a, b)
		}
	}},
}

var boundTests = []contractTest{
	{"64 operations are written", func(s *suite) {
		s.must(puts(store.MaxTxnOps)...)
		if all := s.contents(); len(all) != store.MaxTxnOps {
			s.Fatalf("%d keys", len(all))
		}
	}},

	{"64 deletes by index are written", func(s *suite) {
		s.must(puts(store.MaxTxnOps)...)
		var deletes []store.Op
		for key, entry := range s.contents() {
			deletes = append(deletes, removeCAS(key, entry.index))
		}
		s.must(deletes...)
		if all := s.contents(); len(all) != 0 {
			s.Fatalf("left: %v", all)
		}
	}},

	{"65 operations are refused", func(s *suite) { s.refused(store.ErrBadOp, puts(store.MaxTxnOps+1)...) }},

	{"no operations are refused", func(s *suite) { s.refused(store.ErrBadOp) }},

	{"a transaction just below the size bound is written", func(s *suite) {
		big := strings.Repeat("x", (store.MaxTxnBytes-1024)/4*3)
		s.must(put("a", big))
		s.want("a", big)
	}},

	{"many operations just below the size bound are written", func(s *suite) {
		ops := puts(store.MaxTxnOps)
		for i := range ops {
			ops[i].Key = fmt.Sprintf("%s%03d", strings.Repeat("k/", 100), i)
			ops[i].Value = []byte(strings.Repeat("x", (store.MaxTxnBytes/store.MaxTxnOps-256-204)/4*3))
		}
		s.must(ops...)
	}},

	{"a transaction above the size bound is refused", func(s *suite) {
		s.refused(store.ErrTooLarge, put("a", strings.Repeat("x", store.MaxTxnBytes/4*3)))
	}},

	{"malformed operations are refused", func(s *suite) {
		for _, op := range []store.Op{
			{Kind: "chmod", Key: "a"}, {Key: "a"}, checkSession(store.LeaseKey, ""), checkIndex("a", 0), removeCAS("a", 0),
		} {
			s.refused(store.ErrBadOp, op)
		}
	}},

	{"the lease keys are written only by taking the lease", func(s *suite) {
		for _, key := range []string{store.LeaseKey, store.TermKey} {
			for _, op := range []store.Op{put(key, "x"), putCAS(key, "x", 1), remove(key), removeCAS(key, 1)} {
				s.refused(store.ErrBadOp, op)
			}
		}
		// A restore creates the Term.
		s.refused(store.ErrBadOp, putCAS(store.LeaseKey, "x", 0))
	}},
}

func puts(n int) []store.Op {
	ops := make([]store.Op, 0, n)
	for i := range n {
		ops = append(ops, put(fmt.Sprintf("k/%03d", i), "x"))
	}
	return ops
}
