package store_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

func TestThreat_CTL06_NextTerm(t *testing.T) {
	term := func(n uint64) *store.TermRecord { return &store.TermRecord{Term: n} }
	for name, c := range map[string]struct {
		facts store.TermFacts
		want  uint64
		err   error
	}{
		"a new cluster":                    {store.TermFacts{}, 1, nil},
		"the next one":                     {store.TermFacts{Stored: term(7), Seen: 7}, 8, nil},
		"it went back":                     {store.TermFacts{Stored: term(6), Seen: 7}, 0, store.ErrTermRegression},
		"it is gone, and was seen":         {store.TermFacts{Seen: 7}, 0, store.ErrTermRegression},
		"it is gone, and others are there": {store.TermFacts{Witness: "lease/coordinator"}, 0, store.ErrTermRegression},
		"it is gone and was raised":        {store.TermFacts{Witness: "lease/coordinator", Raised: 41}, 42, nil},
		"it went back and was raised":      {store.TermFacts{Stored: term(6), Seen: 7, Raised: 7}, 8, nil},
		"it was raised too little":         {store.TermFacts{Stored: term(6), Seen: 7, Raised: 6}, 0, store.ErrTermRegression},
		"raised to less than it is":        {store.TermFacts{Stored: term(9), Raised: 3}, 10, nil},
		"the last one":                     {store.TermFacts{Stored: term(store.MaxTerm - 1)}, store.MaxTerm, nil},
		"none is left":                     {store.TermFacts{Stored: term(store.MaxTerm)}, 0, store.ErrTermExhausted},
		"the largest number was written":   {store.TermFacts{Stored: term(math.MaxUint64)}, 0, store.ErrTermExhausted},
		"and it was seen":                  {store.TermFacts{Stored: term(math.MaxUint64), Seen: math.MaxUint64}, 0, store.ErrTermExhausted},
	} {
		got, err := store.NextTerm(c.facts)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v; want %d, %v", name, got, err, c.want, c.err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "EPOCH_REGRESSION: ") {
			t.Errorf("%s: %v does not name the code", name, err)
		}
		if errors.Is(err, store.ErrTermRegression) && !strings.Contains(err.Error(), store.RecoverKey()) {
			t.Errorf("%s: %v does not name the way out", name, err)
		}
	}
}

// overtaken is a Store in which another writer acts between two reads.
type overtaken struct {
	store.Store
	beforeList func()
}

func (o overtaken) List(ctx context.Context, prefix string) ([]store.Entry, uint64, error) {
	o.beforeList()
	return o.Store.List(ctx, prefix)
}

// TestThreat_CTL06_ATermThatIsWrittenMeanwhileIsNotGone: another coordinator becomes the first
// holder between the read of the Term and the list of the records.
func TestThreat_CTL06_ATermThatIsWrittenMeanwhileIsNotGone(t *testing.T) {
	m := storetest.NewMemory()
	facts, index, err := store.ReadTermFacts(t.Context(), overtaken{Store: m, beforeList: func() {
		lease, err := m.Acquire(t.Context(), "coordinator-1")
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = lease.Release(context.WithoutCancel(t.Context())) })
	}})
	if err != nil {
		t.Fatal(err)
	}
	written, err := m.Get(t.Context(), store.TermKey)
	if err != nil {
		t.Fatal(err)
	}
	if next, err := store.NextTerm(facts); next != 2 || err != nil || index != written.Index {
		t.Errorf("the next term is %d at index %d, %v; want 2 at %d", next, index, err, written.Index)
	}
}

// listed is a Store in which only the list has records.
type listed struct {
	store.Store
	entries []store.Entry
}

func (l listed) List(context.Context, string) ([]store.Entry, uint64, error) {
	return l.entries, 9, nil
}

// TestThreat_CTL06_ATermThatIsGoneIsWitnessed: the lock of its holder is the witness. An unreadable
// Term record that appears in the list is not taken for a missing one.
func TestThreat_CTL06_ATermThatIsGoneIsWitnessed(t *testing.T) {
	lock := store.Entry{Key: store.LeaseKey, Value: []byte("{}"), Index: 7}
	s := listed{Store: storetest.NewMemory(), entries: []store.Entry{lock}}
	facts, index, err := store.ReadTermFacts(t.Context(), s)
	if err != nil || facts.Stored != nil || facts.Witness != store.LeaseKey || index != 0 {
		t.Errorf("%+v at %d, %v; want the witness %s", facts, index, err, store.LeaseKey)
	}
	s.entries = append(s.entries, store.Entry{Key: store.TermKey, Value: []byte("no term"), Index: 8})
	if _, _, err = store.ReadTermFacts(t.Context(), s); len(store.RecordErrors(err)) != 1 {
		t.Errorf("a term that cannot be read: %v", err)
	}
}
