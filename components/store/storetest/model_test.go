package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// kv is the part of a Store that scripts use.
type kv interface {
	Commit(ctx context.Context, ops ...store.Op) error
	List(ctx context.Context, prefix string) ([]store.Entry, uint64, error)
}

// model is a map and a counter: the simple reference implementation.
type model struct {
	index   uint64
	entries map[string]store.Entry
}

func (m *model) Commit(_ context.Context, ops ...store.Op) error {
	m.index++
	next := maps.Clone(m.entries)
	conflict := &store.ConflictError{}
	for i, op := range ops {
		old, exists := next[op.Key]
		if !m.holds(op, old, exists) {
			conflict.Failed = append(conflict.Failed, store.FailedOp{Index: i, Op: op})
			continue
		}
		switch op.Kind {
		case store.OpPut, store.OpPutCAS:
			if !exists || string(old.Value) != string(op.Value) {
				next[op.Key] = store.Entry{Key: op.Key, Value: op.Value, Index: m.index}
			}
		case store.OpDelete, store.OpDeleteCAS:
			delete(next, op.Key)
		case store.OpCheckAbsent, store.OpCheckIndex, store.OpCheckSession, store.OpLock, store.OpUnlock:
		}
	}
	if len(conflict.Failed) > 0 {
		return conflict
	}
	m.entries = next
	return nil
}

func (m *model) holds(op store.Op, old store.Entry, exists bool) bool {
	switch op.Kind {
	case store.OpPutCAS:
		return (op.Index == 0 && !exists) || (exists && old.Index == op.Index)
	case store.OpCheckIndex, store.OpDeleteCAS:
		return exists && old.Index == op.Index
	case store.OpCheckAbsent:
		return !exists
	case store.OpCheckSession, store.OpLock, store.OpUnlock:
		return false
	case store.OpPut, store.OpDelete:
	}
	return true
}

func (m *model) List(context.Context, string) ([]store.Entry, uint64, error) {
	keys := slices.Sorted(maps.Keys(m.entries))
	entries := make([]store.Entry, 0, len(keys))
	for _, key := range keys {
		entries = append(entries, m.entries[key])
	}
	return entries, m.index, nil
}

// step is an operation whose index is chosen at run time: stores number their changes differently.
type step struct {
	kind  store.OpKind
	key   string
	value string
	// index "none", "present", "old" (of an earlier change of the key).
	index string
}

func (s step) String() string { return fmt.Sprintf("%s %s %q %s", s.kind, s.key, s.value, s.index) }

func scripts() *rapid.Generator[[][]step] {
	one := rapid.Custom(func(t *rapid.T) step {
		return step{
			kind: rapid.SampledFrom([]store.OpKind{
				store.OpPut, store.OpPut, store.OpPutCAS, store.OpPutCAS, store.OpPutCAS, store.OpCheckIndex,
				store.OpCheckAbsent, store.OpCheckSession, store.OpDelete, store.OpDeleteCAS,
			}).Draw(t, "kind"),
			key:   rapid.SampledFrom([]string{"a", "b", "b/c", "d"}).Draw(t, "key"),
			value: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "value"),
			index: rapid.SampledFrom([]string{"present", "present", "present", "old", "none"}).Draw(t, "index"),
		}
	})
	return rapid.SliceOfN(rapid.SliceOfN(one, 1, 4), 1, 12)
}

// play runs a script below dir and returns the observable result without the stores' own numbers:
// the outcome of each transaction, then each key with its value and the number of index changes.
func play(t *rapid.T, s kv, dir string, script [][]step) []string {
	var trace []string
	history := make(map[string][]uint64)
	for _, steps := range script {
		ops := make([]store.Op, 0, len(steps))
		for _, step := range steps {
			ops = append(ops, step.op(dir, history[dir+step.key]))
		}
		trace = append(trace, outcome(s.Commit(t.Context(), ops...)))
		entries, _, err := s.List(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			seen := history[entry.Key]
			if len(seen) == 0 || seen[len(seen)-1] != entry.Index {
				history[entry.Key] = append(seen, entry.Index)
			}
			trace = append(trace, fmt.Sprintf("%s=%q after %d changes",
				strings.TrimPrefix(entry.Key, dir), entry.Value, len(history[entry.Key])))
		}
	}
	return trace
}

func (s step) op(dir string, history []uint64) store.Op {
	op := store.Op{Kind: s.kind, Key: dir + s.key, Value: []byte(s.value), Session: "11111111-2222-3333-4444-555555555555"}
	switch {
	case s.index == "present" && len(history) > 0:
		op.Index = history[len(history)-1]
	case s.index == "old" && len(history) > 1:
		op.Index = history[len(history)-2]
	case s.kind != store.OpPutCAS:
		op.Index = 1 // index 0 is rejected outside of put-cas
	}
	return op
}

func outcome(err error) string {
	if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
		var failed []int
		for _, f := range conflict.Failed {
			failed = append(failed, f.Index)
		}
		return fmt.Sprint("conflict of operations ", slices.Compact(failed))
	}
	return fmt.Sprint(err)
}

func TestMemoryBehavesLikeAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		script := scripts().Draw(t, "script")
		got := play(t, storetest.NewMemory(), "r/", script)
		want := play(t, &model{index: 1, entries: make(map[string]store.Entry)}, "r/", script)
		compare(t, script, got, want)
	})
}

func TestMemoryBehavesLikeConsul(t *testing.T) {
	consul := storetest.NewConsul(t)
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		script := scripts().Draw(t, "script")
		runs++
		want := play(t, consul, fmt.Sprintf("r%d/", runs), script)
		compare(t, script, play(t, storetest.NewMemory(), "r/", script), want)
	})
}

func compare(t *rapid.T, script [][]step, got, want []string) {
	if !slices.Equal(got, want) {
		t.Fatalf("script %v\n got %s\nwant %s", script, strings.Join(got, "; "), strings.Join(want, "; "))
	}
}
