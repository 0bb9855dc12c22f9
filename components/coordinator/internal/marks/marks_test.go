package marks

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// What one coordinator has seen binds all.
func TestATT05_MarksAreSharedAndOnlyGrow(t *testing.T) {
	kv, ctx, now := storetest.NewMemory(), context.Background(), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	one, other := New(kv), New(kv)
	const fmspc = "50806f000000"
	if got, err := one.Get(ctx, fmspc); err != nil || got.TCBEvaluation != 0 {
		t.Errorf("before anything: %+v, %v", got, err)
	}
	var group sync.WaitGroup
	for i := range 4 {
		m := one
		if i%2 == 1 {
			m = other
		}
		group.Go(func() {
			mark := policy.CollateralMark{FMSPC: fmspc, TCBEvaluation: uint32(10 + i), QEEvaluation: uint32(20 - i), IssuedAt: now.Add(time.Duration(i) * time.Hour)}
			if err := m.Raise(ctx, mark); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	want := policy.CollateralMark{FMSPC: fmspc, TCBEvaluation: 13, QEEvaluation: 20, IssuedAt: now.Add(3 * time.Hour)}
	got, err := other.Get(ctx, fmspc)
	if err != nil || !got.Equal(want) {
		t.Errorf("mark %+v, %v; want %+v", got, err, want)
	}
	_, index, err := store.Read[policy.CollateralMark](ctx, kv, store.CollateralKey(fmspc))
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Raise(ctx, policy.CollateralMark{FMSPC: fmspc, TCBEvaluation: 12}); err != nil {
		t.Fatal(err)
	}
	if _, again, err := store.Read[policy.CollateralMark](ctx, kv, store.CollateralKey(fmspc)); err != nil || again != index {
		t.Errorf("an older mark was written: index %d, %d, %v", index, again, err)
	}
	if err := one.Raise(ctx, policy.CollateralMark{FMSPC: "../x"}); !errors.Is(err, store.ErrBadKey) {
		t.Errorf("a bad FMSPC: %v", err)
	}
}
