package store_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"cadre.dev/store"
)

func TestThreat_CTL06_NextTerm(t *testing.T) {
	term := func(n uint64) *store.TermRecord { return &store.TermRecord{Term: n} }
	for name, c := range map[string]struct {
		facts store.TermFacts
		want  uint64
		err   error
	}{
		"a new cluster":                     {store.TermFacts{}, 1, nil},
		"the next one":                      {store.TermFacts{Stored: term(7), Seen: 7}, 8, nil},
		"it went back":                      {store.TermFacts{Stored: term(6), Seen: 7}, 0, store.ErrTermRegression},
		"it is gone, and was seen":          {store.TermFacts{Seen: 7}, 0, store.ErrTermRegression},
		"it is gone, and others are there":  {store.TermFacts{Witness: "lease/coordinator"}, 0, store.ErrTermRegression},
		"it is gone and was raised":         {store.TermFacts{Witness: "lease/coordinator", Raised: 41}, 42, nil},
		"it went back and was raised":       {store.TermFacts{Stored: term(6), Seen: 7, Raised: 7}, 8, nil},
		"it was raised too little":          {store.TermFacts{Stored: term(6), Seen: 7, Raised: 6}, 0, store.ErrTermRegression},
		"raised to less than it is":         {store.TermFacts{Stored: term(9), Raised: 3}, 10, nil},
		"the last one":                      {store.TermFacts{Stored: term(store.MaxTerm - 1)}, store.MaxTerm, nil},
		"none is left":                      {store.TermFacts{Stored: term(store.MaxTerm)}, 0, store.ErrTermExhausted},
		"somebody wrote the largest number": {store.TermFacts{Stored: term(math.MaxUint64)}, 0, store.ErrTermExhausted},
		"and it was seen":                   {store.TermFacts{Stored: term(math.MaxUint64), Seen: math.MaxUint64}, 0, store.ErrTermExhausted},
	} {
		got, err := store.NextTerm(c.facts)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v; want %d, %v", name, got, err, c.want, c.err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "EPOCH_REGRESSION: ") {
			t.Errorf("%s: %v does not name the code", name, err)
		}
		if errors.Is(err, store.ErrTermRegression) && !strings.Contains(err.Error(), store.RaisedTermKey()) {
			t.Errorf("%s: %v does not name the way out", name, err)
		}
	}
}
