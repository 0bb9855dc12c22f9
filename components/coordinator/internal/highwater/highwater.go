// Package highwater records the newest collateral in KV, one record per family of machines, so that
// every coordinator refuses older collateral (ATT-05, ATT-29).
package highwater

import (
	"context"
	"errors"
	"fmt"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Watermarks implements collateral.Highest. Safe for concurrent use.
type Watermarks struct{ store store.Store }

// New returns the high-water marks in s.
func New(s store.Store) *Watermarks { return &Watermarks{s} }

// raiseAttempts bounds the attempts when another coordinator writes first.
const raiseAttempts = 5

// Get implements collateral.Highest. An unreadable record of any family is an error, because it may
// have the newest time.
func (m *Watermarks) Get(ctx context.Context, fmspc string) (policy.CollateralWatermark, error) {
	key := store.CollateralKey(fmspc)
	entries, _, err := m.store.List(ctx, store.CollateralPrefix)
	if err != nil {
		return policy.CollateralWatermark{}, err
	}
	var own, all policy.CollateralWatermark
	for _, entry := range entries {
		mark, err := store.Decode[policy.CollateralWatermark](entry)
		if err != nil {
			return policy.CollateralWatermark{}, err
		}
		if all = all.Raised(mark); entry.Key == key {
			own = mark
		}
	}
	own.IssuedAt = all.IssuedAt
	return own, nil
}

// Raise implements collateral.Highest.
func (m *Watermarks) Raise(ctx context.Context, mark policy.CollateralWatermark) error {
	key := store.CollateralKey(mark.FMSPC)
	var err error
	for range raiseAttempts {
		var (
			before policy.CollateralWatermark
			index  uint64
			op     store.Op
		)
		before, index, err = store.Read[policy.CollateralWatermark](ctx, m.store, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		raised := before.Raised(mark)
		if index != 0 && raised.Equal(before) {
			return nil
		}
		if op, err = store.Put(key, raised, index); err != nil {
			return err
		}
		if err = m.store.Commit(ctx, op); err == nil || !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("record the newest collateral: %w", err)
}
