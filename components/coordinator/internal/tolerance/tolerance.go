// Package tolerance carries out the operators' decisions about machines while this coordinator
// leads: temporary exceptions, and older collateral.
//
//	control/tcb-exceptions/<id> ──┬─► policy/tcb          in force, and the hash chain
//	control/collateral/<fmspc>  ──┴─► collateral/<fmspc>  the permit
//
// An operator's record takes effect once it is in the chain: both are written in one transaction,
// fenced by the Lease. The limits of the measured trust file are checked here and again by each
// judgement.
package tolerance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Config of a Keeper. All fields are required.
type Config struct {
	// Self is the Slot of this coordinator.
	Self   string
	Limits policy.TCBLimits
	Store  store.Store
	Views  *view.Watcher
	Now    func() time.Time
	Log    *slog.Logger
}

// Keeper keeps the ledger.
type Keeper struct{ cfg Config }

// New returns a Keeper; Lead runs it.
func New(cfg Config) *Keeper { return &Keeper{cfg} }

const (
	// resync is the maximum wait for a change: exceptions end by time.
	resync = 30 * time.Second
	// errorWait is the pause after a failed write.
	errorWait = 2 * time.Second
)

// Lead keeps the ledger under the Lease until it or ctx ends.
func (k *Keeper) Lead(ctx context.Context, lease store.Lease) {
	for ctx.Err() == nil {
		v, changed := k.cfg.Views.Latest()
		wait := resync
		if v != nil {
			switch err := k.pass(ctx, lease, v); {
			case errors.Is(err, store.ErrFenced):
				return
			case err != nil && ctx.Err() == nil:
				// A stale View makes a write fail on an index; the next View is current.
				if !errors.Is(err, store.ErrConflict) {
					k.cfg.Log.Warn("decisions about machines not carried out yet", "error", err)
				}
				wait = errorWait
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// maxSpent bounds the spent records that one pass removes.
const maxSpent = 8

// pass changes the ledger according to the operators' records in v.
func (k *Keeper) pass(ctx context.Context, lease store.Lease, v *view.View) error {
	if bad := v.BadBelow(store.TCBLedgerKey); bad != nil {
		return fmt.Errorf("the chain of decisions about machines is not readable, nothing is added to it: %w", bad)
	}
	now, before := k.cfg.Now().UTC(), v.Ledger.Value
	after, spent := before.Fold(v.Gate.AskedExceptions(), k.cfg.Limits, now, k.cfg.Self)
	var ops []store.Op
	for _, id := range spent[:min(len(spent), maxSpent)] { // the next pass removes the others
		ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.TCBExceptionKey(id), Index: v.Gate.Exceptions[id].Index})
	}
	for _, fmspc := range slices.Sorted(maps.Keys(v.Gate.Lowerings)) {
		request := v.Gate.Lowerings[fmspc]
		more, entry, err := k.lower(ctx, request.Value, now)
		if err != nil {
			return err
		}
		if entry.What != "" {
			after = after.Append(entry)
		}
		ops = append(ops, append(more, store.Op{Kind: store.OpDeleteCAS, Key: store.LoweringKey(fmspc), Index: request.Index})...)
	}
	if len(before.Granted) == 0 && len(after.Granted) == 0 {
		after.Granted = before.Granted
	}
	if !reflect.DeepEqual(before, after) {
		if err := before.Verify(); err != nil {
			k.cfg.Log.Error("decisions about machines were edited", "code", policy.CodeAuditChainBroken, "error", err)
		}
		after.Term = lease.Term()
		put, err := store.Put(store.TCBLedgerKey, after, v.Ledger.Index)
		if err != nil {
			return err
		}
		ops = append(ops, put)
	}
	if len(ops) == 0 {
		return nil
	}
	if err := k.cfg.Store.Commit(ctx, append(lease.Fence(), ops...)...); err != nil {
		return err
	}
	for _, e := range after.Entries {
		if n := len(before.Entries); n == 0 || e.Number > before.Entries[n-1].Number {
			k.cfg.Log.Info("decision about machines recorded", "what", e.What, "id", e.ID, "text", e.Text, "by", e.By, "number", e.Number, "digest", e.Digest())
		}
	}
	return nil
}

// lower returns the writes for a permit that an operator requests. A request that cannot be carried
// out leaves no entry: it is dropped with a log line.
func (k *Keeper) lower(ctx context.Context, l policy.CollateralLowering, now time.Time) (ops []store.Op, e policy.TCBEntry, err error) {
	key := store.CollateralKey(l.FMSPC)
	mark, index, err := store.Read[policy.CollateralWatermark](ctx, k.cfg.Store, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, e, err
	}
	lowered, err := mark.Lowered(l, now)
	if err != nil {
		k.cfg.Log.Warn("request for older collateral dropped", "fmspc", l.FMSPC, "by", l.By, "error", err)
		return nil, e, nil
	}
	put, err := store.Put(key, lowered, index)
	if err != nil {
		return nil, e, err
	}
	return []store.Op{put}, policy.TCBEntry{
		At: now, What: policy.TCBLowered, ID: l.FMSPC, By: l.By, Leader: k.cfg.Self,
		Text: fmt.Sprintf("evaluation numbers from %d (TCB info) and %d (QE identity) on instead of %d and %d, until %s: %s",
			l.TCBEvaluation, l.QEEvaluation, mark.TCBEvaluation, mark.QEEvaluation, lowered.Permit.Until.Format(time.RFC3339), l.Reason),
	}, nil
}
