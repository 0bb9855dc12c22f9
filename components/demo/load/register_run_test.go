package load

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"cadre.dev/raced/synctest"
)

// memory is a RegisterStore in memory. Its members share one state, except that a
// stale one answers reads from the state before the last write.
type memory struct {
	stale int // index of the stale member, -1 for none
	lose  bool

	mu     sync.Mutex
	values map[int]int64
	before map[int]int64
	ids    map[int64]bool
	calls  int
}

func newMemory() *memory {
	return &memory{stale: -1, values: map[int]int64{}, before: map[int]int64{}, ids: map[int64]bool{}}
}

var errNoAnswer = errors.New("no answer")

func (m *memory) Members() []string { return []string{"a", "b", "c"} }

func (m *memory) Do(_ context.Context, member int, op RegisterOp) (RegisterAnswer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	value := m.values[op.Key]
	switch {
	case op.Kind == RegisterRead && member == m.stale:
		return RegisterAnswer{Value: m.before[op.Key], Term: 1}, nil
	case op.Kind == RegisterRead:
		return RegisterAnswer{Value: value, Term: 1}, nil
	case op.Kind == RegisterSwap && value != op.Expect:
		return RegisterAnswer{Value: value, Term: 1}, nil
	case m.calls%7 == 0: // no answer, and no effect every other time
		if m.calls%2 == 0 {
			m.write(op)
		}
		return RegisterAnswer{}, errNoAnswer
	case m.lose && m.calls%11 == 0: // acknowledged and forgotten
		return RegisterAnswer{Swapped: op.Kind == RegisterSwap, Term: 1}, nil
	}
	m.write(op)
	return RegisterAnswer{Swapped: op.Kind == RegisterSwap, Term: 1}, nil
}

func (m *memory) write(op RegisterOp) {
	m.before[op.Key], m.values[op.Key], m.ids[op.ID] = m.values[op.Key], op.ID, true
}

func (m *memory) IDs(context.Context) (map[int64]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.ids), nil
}

func (m *memory) Leader(_ context.Context, member int) (uint64, bool, error) {
	return 1, member == 1, nil
}

// runFor drives store for a while of virtual time.
func runFor(t *testing.T, store RegisterStore, d time.Duration) (*Registers, *History) {
	t.Helper()
	h := NewHistory(nil)
	r := NewRegisters(RegisterConfig{Clients: 4, Keys: 3, Interval: 10 * time.Millisecond, Deadline: 500 * time.Millisecond}, store, h)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r.Run(ctx)
	return r, h
}

func TestRegistersFindNothingInAGoodStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r, h := runFor(t, store, 2*time.Second)
		if v := Check(h.Ops(), 10*time.Second); v.Result != "Ok" || v.Unknown == 0 {
			t.Errorf("check = %+v, want Ok with unknown outcomes", v)
		}
		ids, _ := store.IDs(t.Context())
		if n := Missing(h.AcknowledgedIDs(), ids); n != 0 {
			t.Errorf("%d acknowledged writes are missing", n)
		}
		s := h.Summarize(r.Began(), time.Time{}, time.Time{})
		if s.Acknowledged == 0 || s.Reads == 0 || s.Refused == 0 && s.Unknown == 0 || s.Attempted != s.Acknowledged+s.Failed || s.Failed != s.Unknown {
			t.Errorf("summary = %+v", s)
		}
		if len(s.Reigns) != 1 || s.Reigns[0].Leader != "b" || s.Reigns[0].Term != 1 {
			t.Errorf("reigns = %+v, want b in term 1", s.Reigns)
		}
	})
}

func TestRegistersFindAStaleMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.stale = 2
		_, h := runFor(t, store, 2*time.Second)
		if v := Check(h.Ops(), 10*time.Second); v.Result != "Illegal" {
			t.Errorf("check = %+v, want Illegal", v)
		}
	})
}

func TestRegistersFindLostWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.lose = true
		_, h := runFor(t, store, 2*time.Second)
		if v := Check(h.Ops(), 10*time.Second); v.Result != "Illegal" {
			t.Errorf("check = %+v, want Illegal", v)
		}
		ids, _ := store.IDs(t.Context())
		if Missing(h.AcknowledgedIDs(), ids) == 0 {
			t.Error("no acknowledged write is missing, want some")
		}
	})
}

func TestReignsOfASpan(t *testing.T) {
	h := NewHistory(nil)
	h.sawTerm(2, "", at(0))
	h.sawTerm(2, "a", at(5))
	h.sawTerm(3, "b", at(100))
	h.sawTerm(4, "c", at(300))
	for name, tc := range map[string]struct{ from, to, first, n int }{
		"the one before counts": {50, 200, 2, 2},
		"only the running one":  {150, 200, 3, 1},
		"all":                   {0, 400, 2, 3},
	} {
		got := h.reignsIn(at(tc.from), at(tc.to))
		if len(got) != tc.n || got[0].Term != uint64(tc.first) {
			t.Errorf("%s: reigns = %+v, want %d from term %d", name, got, tc.n, tc.first)
		}
	}
	if got := h.reignsIn(at(0), at(400))[0]; got.Leader != "a" || !got.Since.Equal(at(0)) {
		t.Errorf("first reign = %+v, want a since its term was first seen", got)
	}
}

func TestMissing(t *testing.T) {
	if got := Missing([]int64{1, 2, 3}, map[int64]bool{1: true, 3: true, 9: true}); got != 1 {
		t.Errorf("missing = %d, want 1", got)
	}
}
