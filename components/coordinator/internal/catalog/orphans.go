package catalog

import (
	"context"
	"errors"
	"fmt"

	consul "github.com/hashicorp/consul/api"
)

// orphan reports whether a caller's registration created the node after its Boot's node was
// removed. Every node that a fenced transaction creates names its Boot.
func (f Found) orphan() bool {
	return f.Exists && !f.Agent && !f.Foreign && f.NodeBoot == "" && len(f.Services) > 0
}

// takeBack removes the Boot's unfenced registrations when found shows that the node does not belong
// to the Boot now. Services that another Boot has overwritten meanwhile stay.
func (w *Writer) takeBack(ctx context.Context, slot, boot string, found Found) error {
	if found.orphan() {
		return w.removeFound(ctx, slot, found)
	}
	var ops consul.TxnOps
	for _, s := range found.Services {
		if found.Boots[s.ID] == boot {
			ops = append(ops, drop(slot, s.ID, found.Indices[s.ID]))
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return w.commit(ctx, "take back services of node "+slot, ops)
}

// noteGone schedules a check of a Slot without an admission for the time when no call for its last
// Boot can be in flight any more. A coordinator that crashed within such a call left its
// registration behind.
func (w *Writer) noteGone(slot string) {
	w.mu.Lock()
	w.gone[slot] = w.cfg.Now().Add(callLimit)
	w.mu.Unlock()
	w.dueIn(slot, callLimit)
}

// sweep removes the orphan of a Slot without an admission, once its check is due.
func (w *Writer) sweep(ctx context.Context, slot string) {
	w.mu.Lock()
	at, is := w.gone[slot]
	left := at.Sub(w.cfg.Now())
	if is && left <= 0 {
		delete(w.gone, slot)
	}
	w.mu.Unlock()
	switch {
	case !is:
		return
	case left > 0:
		w.dueIn(slot, left)
		return
	}
	call, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := w.removeOrphan(call, slot); err != nil && ctx.Err() == nil {
		w.cfg.Log.Warn("the orphan of a removed slot is still in the catalog; the removal is retried", "slot", slot, "error", err)
		w.mu.Lock()
		w.gone[slot] = w.cfg.Now().Add(retryIn)
		w.mu.Unlock()
		w.dueIn(slot, retryIn)
	}
}

func (w *Writer) removeOrphan(ctx context.Context, slot string) error {
	found, err := w.find(ctx, "", slot, false)
	if err != nil || !found.orphan() {
		return err
	}
	if err = w.removeFound(ctx, slot, found); errors.Is(err, errChanged) {
		return nil // another coordinator removed it first, or a Boot has the node now
	}
	return err
}

// verify removes the unfenced registrations of e when they are not on the node of its Boot. verify
// returns errChanged in that case.
func (w *Writer) verify(ctx context.Context, e Entry) error {
	found, err := w.find(ctx, e.Group, e.Slot, false)
	if err != nil || found.NodeBoot == e.Boot {
		return err
	}
	err = errors.Join(w.takeBack(ctx, e.Slot, e.Boot, found), fmt.Errorf("write services of node %s: %w: the node belongs to another boot than %.12s now", e.Slot, errChanged, e.Boot))
	// The removed service may have replaced one of the next Boot, so the Slot is evaluated again.
	w.forget(e.Slot)
	w.dueIn(e.Slot, 0)
	return err
}
