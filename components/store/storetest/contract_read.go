package storetest

import (
	"errors"
	"slices"
	"strconv"

	"cadre.dev/store"
)

var readTests = []contractTest{
	{"an absent key is ErrNotFound", func(s *suite) { s.wantAbsent("a/b") }},

	{"a written value is read back", func(s *suite) {
		s.must(put("a/b", "one"))
		s.want("a/b", "one")
		s.must(put("a/b", "two"))
		s.want("a/b", "two")
	}},

	{"binary and empty values survive", func(s *suite) {
		s.must(put("a/b", "\x00\xff\n\""), put("a/empty", ""))
		s.want("a/b", "\x00\xff\n\"")
		s.want("a/empty", "")
	}},

	{"the index grows with each change", func(s *suite) {
		s.must(put("a/b", "one"))
		first := s.index("a/b")
		s.must(put("a/b", "two"))
		if second := s.index("a/b"); first == 0 || second <= first {
			s.Fatalf("indices %d, %d: want growing ones", first, second)
		}
	}},

	{"a put that changes nothing keeps the index", func(s *suite) {
		s.must(put("a/b", "one"))
		first := s.index("a/b")
		s.must(put("a/b", "one"))
		if second := s.index("a/b"); second != first {
			s.Fatalf("index %d, then %d: want the same", first, second)
		}
	}},

	{"list is sorted and kept to the prefix", func(s *suite) {
		s.must(put("a/c", "3"), put("a/b", "2"), put("b/a", "4"), put("a/b/x", "5"), put("ab", "6"))
		entries, index, err := s.List(s.ctx, "a/")
		if err != nil {
			s.Fatal(err)
		}
		var got []string
		for _, entry := range entries {
			got = append(got, entry.Key+"="+string(entry.Value))
			if entry.Index == 0 || entry.Index > index {
				s.Errorf("%s has index %d, the list %d", entry.Key, entry.Index, index)
			}
		}
		if want := []string{"a/b=2", "a/b/x=5", "a/c=3"}; !slices.Equal(got, want) {
			s.Fatalf("list a/: got %v, want %v", got, want)
		}
	}},

	{"list of nothing is empty with an index", func(s *suite) {
		entries, index, err := s.List(s.ctx, "nothing/")
		if err != nil || len(entries) != 0 || index == 0 {
			s.Fatalf("got %v, %d, %v", entries, index, err)
		}
	}},

	{"get and list agree", func(s *suite) {
		s.must(put("a/b", "one"))
		entries, _, err := s.List(s.ctx, "a/b")
		if err != nil || len(entries) != 1 || entries[0].Index != s.index("a/b") {
			s.Fatalf("got %v, %v, want index %d", entries, err, s.index("a/b"))
		}
	}},

	{"keys and prefixes are read together", func(s *suite) {
		s.must(put("a/c", "3"), put("a/b", "2"), put("b/a", "4"), put("ab", "6"), put("b/ab", "7"), put("c", "8"))
		entries, err := s.Together(s.ctx, "b/a", "a/"+store.Below, "absent", "nothing/"+store.Below, "a/b", "b/a"+store.Below)
		if err != nil {
			s.Fatal(err)
		}
		var got []string
		for _, entry := range entries {
			got = append(got, entry.Key+"="+string(entry.Value))
			if entry.Index != s.index(entry.Key) {
				s.Errorf("%s has index %d, alone %d", entry.Key, entry.Index, s.index(entry.Key))
			}
		}
		if want := []string{"a/b=2", "a/c=3", "b/a=4", "b/ab=7"}; !slices.Equal(got, want) {
			s.Fatalf("got %v, want %v", got, want)
		}
		for _, bad := range [][]string{nil, {""}, {store.Below}, {"/a"}, {"a/"}, slices.Repeat([]string{"a"}, store.MaxTogether+1)} {
			if _, err := s.Together(s.ctx, bad...); !errors.Is(err, store.ErrBadOp) && !errors.Is(err, store.ErrBadKey) {
				s.Errorf("together %q: got %v", bad, err)
			}
		}
		if _, err := s.Together(s.ctx, slices.Repeat([]string{"a/" + store.Below}, store.MaxTogether)...); err != nil {
			s.Error(err)
		}
	}},

	{"what is read together is of one moment", func(s *suite) {
		s.must(put("x/a", "0"), put("y/a", "0"))
		done := make(chan error, 1)
		go func() {
			for i := range 50 {
				value := strconv.Itoa(i)
				if err := s.Commit(s.ctx, put("x/a", value), put("y/a", value)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for open := true; open; {
			select {
			case err := <-done:
				if open = false; err != nil {
					s.Error(err)
				}
			default:
			}
			entries, err := s.Together(s.ctx, "x/"+store.Below, "y/a")
			if err != nil || len(entries) != 2 || string(entries[0].Value) != string(entries[1].Value) {
				s.Fatalf("got %v, %v", entries, err)
			}
		}
	}},

	{"bad keys are refused", func(s *suite) {
		for _, key := range []string{"", "/a", "a/", "a//b", "a/../b", "a\x00", "a b", "ü", store.SlotKey("pg", "../x")} {
			if _, err := s.Get(s.ctx, key); !errors.Is(err, store.ErrBadKey) {
				s.Errorf("get %q: got %v, want %v", key, err, store.ErrBadKey)
			}
			if err := s.Commit(s.ctx, put(key, "x")); !errors.Is(err, store.ErrBadKey) {
				s.Errorf("put %q: got %v, want %v", key, err, store.ErrBadKey)
			}
		}
		if _, _, err := s.List(s.ctx, "/a"); !errors.Is(err, store.ErrBadKey) {
			s.Errorf("list /a: got %v, want %v", err, store.ErrBadKey)
		}
	}},
}
