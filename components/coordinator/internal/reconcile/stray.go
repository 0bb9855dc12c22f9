package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// strayKept is how long a request without an addressee stays, so that the author of a hand-written
// request can look at it.
const strayKept = 10 * time.Minute

// strayRequests removes the requests that no group answers, and logs the reason.
func (r *Reconciler) strayRequests(v *view.View) []store.Op {
	var ops []store.Op
	for _, id := range slices.Sorted(maps.Keys(v.Queue)) {
		q := v.Queue[id]
		why := strayRequest(v, q.Value)
		if why == nil || r.cfg.Now().Sub(q.Value.At) < strayKept {
			continue
		}
		r.log.Warn("request removed: it cannot be carried out", "request", id, "kind", q.Value.Kind, "by", q.Value.By, "error", why)
		ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.QueueKey(id), Index: q.Index})
	}
	return ops
}

// strayRequest is why no group answers a request; nil: some group does.
func strayRequest(v *view.View, q store.QueueRequest) error {
	if err := q.Check(); err != nil {
		return err
	}
	_, slot := v.Slots[q.Slot]
	_, operation := v.Operations[q.Operation]
	switch {
	case q.Slot != "" && !slot:
		return fmt.Errorf("slot: there is no slot %s", q.Slot)
	case q.Operation != "" && !operation:
		return fmt.Errorf("operation: %s is not recorded any more", q.Operation)
	case (q.Kind == store.RequestRetry || q.Kind == store.RequestPromote) && !slices.Contains(v.Known(), q.Group):
		return fmt.Errorf("group: there is no group %s", q.Group)
	}
	return nil
}
