package highwater

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/attest/collateral"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// The newest collateral that one coordinator has seen binds all.
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
			mark := policy.CollateralWatermark{FMSPC: fmspc, TCBEvaluation: uint32(10 + i), QEEvaluation: uint32(20 - i), IssuedAt: now.Add(time.Duration(i) * time.Hour)}
			if err := m.Raise(ctx, mark); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	want := policy.CollateralWatermark{FMSPC: fmspc, TCBEvaluation: 13, QEEvaluation: 20, IssuedAt: now.Add(3 * time.Hour)}
	got, err := other.Get(ctx, fmspc)
	if err != nil || !got.Equal(want) {
		t.Errorf("mark %+v, %v; want %+v", got, err, want)
	}
	_, index, err := store.Read[policy.CollateralWatermark](ctx, kv, store.CollateralKey(fmspc))
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Raise(ctx, policy.CollateralWatermark{FMSPC: fmspc, TCBEvaluation: 12}); err != nil {
		t.Fatal(err)
	}
	if _, again, err := store.Read[policy.CollateralWatermark](ctx, kv, store.CollateralKey(fmspc)); err != nil || again != index {
		t.Errorf("an older mark was written: index %d, %d, %v", index, again, err)
	}
	if err := one.Raise(ctx, policy.CollateralWatermark{FMSPC: "../x"}); !errors.Is(err, store.ErrBadKey) {
		t.Errorf("a bad FMSPC: %v", err)
	}
}

// A coordinator that starts with a slow clock may find no record of a family. The newest signed
// time of any family binds it.
func TestATT29_TheNewestSignedTimeIsOfAllFamilies(t *testing.T) {
	kv, ctx, now := storetest.NewMemory(), t.Context(), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	old := policy.CollateralWatermark{FMSPC: "50806f000000", TCBEvaluation: 17, QEEvaluation: 17, IssuedAt: now.AddDate(0, 0, -45)}
	newer := policy.CollateralWatermark{FMSPC: "90c06f000000", TCBEvaluation: 19, QEEvaluation: 18, IssuedAt: now}
	for _, mark := range []policy.CollateralWatermark{newer, old} {
		if err := New(kv).Raise(ctx, mark); err != nil {
			t.Fatal(err)
		}
	}
	for fmspc, want := range map[string]policy.CollateralWatermark{
		old.FMSPC:      {FMSPC: old.FMSPC, TCBEvaluation: 17, QEEvaluation: 17, IssuedAt: now},
		newer.FMSPC:    newer,
		"00806f050000": {IssuedAt: now},
	} {
		got, err := New(kv).Get(ctx, fmspc)
		if err != nil || !got.Equal(want) {
			t.Errorf("%s: %+v, %v; want %+v", fmspc, got, err, want)
		}
		asked := policy.CollateralWatermark{FMSPC: fmspc, TCBEvaluation: 30, QEEvaluation: 30, IssuedAt: old.IssuedAt}
		if err := collateral.CheckMark(asked, got, old.IssuedAt.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), string(policy.CodeClockUntrusted)) {
			t.Errorf("%s at a clock 45 days behind: %v", fmspc, err)
		}
		if err := collateral.CheckMark(asked, got, now.Add(time.Hour)); err != nil {
			t.Errorf("%s at a clock that is right: %v", fmspc, err)
		}
	}
	// An unreadable record may have had a newer time.
	if err := kv.Commit(ctx, store.Op{Kind: store.OpPut, Key: store.CollateralKey(newer.FMSPC), Value: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	if got, err := New(kv).Get(ctx, old.FMSPC); err == nil {
		t.Errorf("with an unreadable record: %+v", got)
	}
}
