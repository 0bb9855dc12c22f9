package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"cadre.dev/store"
)

// keepOps bounds the operations of one transaction about leases.
const keepOps = 60

// duty is one due step, with the operations of its transaction.
type duty struct {
	slot string
	step step
	ops  []store.Op
}

// duty returns the transaction's part of w. Its check fails once the lease has changed: a successor
// may hold the lease with the same session. A take also checks that the Boot is on record and not
// revoked.
func (w wanted) duty(self, session string, now time.Time) (duty, error) {
	a := w.admission.Value
	out := duty{slot: w.slot, step: w.step}
	if w.lease.Index != 0 { // else there is no lease, or its record is unreadable here
		out.ops = append(out.ops, store.Op{Kind: store.OpCheckIndex, Key: store.BootLeaseKey(w.slot), Index: w.lease.Index})
	}
	if w.admission.Index == 0 {
		out.ops = append(out.ops, store.Op{Kind: store.OpCheckAbsent, Key: store.AdmissionKey(w.slot)})
	}
	var err error
	add := func(op store.Op, bad error) {
		out.ops, err = append(out.ops, op), errors.Join(err, bad)
	}
	switch w.step {
	case offer:
		lease := w.lease.BootLease
		lease.State = store.LeaseOffered
		add(lockOp(lease, session))
	case giveUp:
		add(unlockOp(w.lease, store.LeaseSilent))
	case take:
		if w.lease.Leased() && w.lease.Session != session {
			add(unlockOp(w.lease, w.lease.State))
		}
		add(lockOp(store.BootLease{
			Slot: a.Slot, BootID: a.BootID, InstanceID: a.InstanceID, Generation: a.Generation, Since: now.UTC(), By: self,
		}, session))
		out.ops = append(append(out.ops, store.Op{Kind: store.OpCheckIndex, Key: store.AdmissionKey(a.Slot), Index: w.admission.Index}), unrevoked(a)...)
	case leave:
	}
	return out, err
}

// batches groups duties into transactions of at most most operations. Duties of one batch share
// equal checks.
func batches(all []duty, most int) [][]duty {
	var out [][]duty
	has := map[string]bool{} // operations of the last batch
	for _, d := range all {
		fresh := 0
		for _, op := range d.ops {
			if !has[string(op.Kind)+op.Key] {
				fresh++
			}
		}
		if len(out) == 0 || len(has)+fresh > most {
			out, has = append(out, nil), map[string]bool{}
		}
		for _, op := range d.ops {
			has[string(op.Kind)+op.Key] = true
		}
		out[len(out)-1] = append(out[len(out)-1], d)
	}
	return out
}

func opsOf(batch []duty) []store.Op {
	var out []store.Op
	for _, d := range batch {
		for _, op := range d.ops {
			if !slices.ContainsFunc(out, func(had store.Op) bool { return had.Kind == op.Kind && had.Key == op.Key }) {
				out = append(out, op)
			}
		}
	}
	return out
}

// without returns batch without the duties that depend on a failed operation.
func without(batch []duty, conflict *store.ConflictError) []duty {
	return slices.DeleteFunc(slices.Clone(batch), func(d duty) bool {
		return slices.ContainsFunc(d.ops, func(op store.Op) bool {
			return slices.ContainsFunc(conflict.Failed, func(f store.FailedOp) bool { return f.Op.Kind == op.Kind && f.Op.Key == op.Key })
		})
	})
}

// commit carries out the duties of one transaction. Duties in conflict are left to the next round:
// another coordinator or Boot was faster, or the Boot is revoked.
func (k *keeper) commit(ctx context.Context, batch []duty) {
	for len(batch) > 0 && ctx.Err() == nil {
		err := k.cfg.Store.Commit(ctx, opsOf(batch)...)
		conflict, ok := errors.AsType[*store.ConflictError](err)
		switch {
		case err == nil:
			k.done(batch)
			return
		case !ok:
			if ctx.Err() == nil {
				k.cfg.Log.Warn("leases of boots not kept; the next round retries", "slots", len(batch), "error", err)
			}
			return
		}
		rest := without(batch, conflict)
		if len(rest) == len(batch) {
			return // a failure that names none of the duties concerns the whole batch
		}
		if len(rest) == 0 {
			// All duties failed: the session may have ended.
			if err := k.renew(ctx); err != nil && ctx.Err() == nil {
				k.cfg.Log.Warn("leases of boots not renewed", "error", err)
			}
		}
		batch = rest
	}
}

// done logs the number of finished duties, and their Slots if they are few.
func (k *keeper) done(batch []duty) {
	const few = 5
	slots := map[step][]string{}
	for _, d := range batch {
		slots[d.step] = append(slots[d.step], d.slot)
	}
	for does, what := range map[step]string{take: "taken for live boots", offer: "offered for silent boots", giveUp: "given up for silent boots"} {
		if n := len(slots[does]); n > 0 {
			k.cfg.Log.Info("leases changed", "what", what, "number", n, "slots", slots[does][:min(n, few)])
		}
	}
}
