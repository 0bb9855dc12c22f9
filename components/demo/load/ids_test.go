package load

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
)

func ids(list ...int64) IDs {
	var s IDs
	for _, id := range list {
		s.Add(id)
	}
	return s
}

// A set of ids behaves like a map, in any order.
func TestIDsAreASet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var s, other IDs
		in, out := map[int64]bool{}, map[int64]bool{}
		for range random.IntN(60) {
			id := random.Int64N(40)
			s.Add(id)
			in[id] = true
		}
		for range random.IntN(60) {
			id := random.Int64N(40)
			other.Add(id)
			out[id] = true
		}
		if s.Len() != len(in) {
			t.Fatalf("round %d: %v has %d ids, want %d", round, s.spans, s.Len(), len(in))
		}
		rest := s.Without(other)
		left := 0
		for id := range int64(42) {
			if s.Has(id) != in[id] || rest.Has(id) != (in[id] && !out[id]) {
				t.Fatalf("round %d: %d in %v: %v, in %v: %v", round, id, s.spans, s.Has(id), rest.spans, rest.Has(id))
			}
			if rest.Has(id) {
				left++
			}
		}
		if rest.Len() != left {
			t.Fatalf("round %d: %v has %d ids, want %d", round, rest.spans, rest.Len(), left)
		}
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var again IDs
		if err := json.Unmarshal(raw, &again); err != nil || again.Len() != s.Len() || !slices.Equal(again.spans, s.spans) {
			t.Fatalf("round %d: %s became %v, %v", round, raw, again.spans, err)
		}
	}
}

func TestIDsForPeople(t *testing.T) {
	s := ids(7, 9, 10, 11, 20)
	if got, want := s.First(2), []string{"7", "9-11"}; !slices.Equal(got, want) {
		t.Errorf("first = %v, want %v", got, want)
	}
	if got := s.forget(1); got != 4 || s.Len() != 1 || !s.Has(20) {
		t.Errorf("forgot %d, left %v", got, s.spans)
	}
}

func TestIDsOutOfOrderAreRefused(t *testing.T) {
	for _, text := range []string{`[[3,2]]`, `[[1,2],[2,4]]`, `[[1,2],[3,4]]`, `[[5,6],[1,2]]`} {
		var s IDs
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s was taken for %v", text, s.spans)
		}
	}
}
