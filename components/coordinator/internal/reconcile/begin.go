package reconcile

import (
	"cadre.dev/coordinator/internal/truncate"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// maxBegun bounds the Operations that one pass starts: each takes up to three of a transaction's
// operations. The next pass starts the next ones.
const maxBegun = 8

// begun returns the Operations that this pass starts or gives another desired state, with all writes of the
// transaction.
func (p *pass) begun() (ops []store.Op, started []operation.Operation, err error) {
	for _, a := range p.plan.Actions {
		if len(started) == maxBegun {
			break
		}
		op, ok := p.plan.Begin(a, p.lease.Term(), p.now)
		if !ok {
			continue
		}
		op = truncate.Operation(op)
		var index uint64
		if a.Retarget != nil {
			index = p.view.Operations[op.ID].Index
		}
		put, err := store.Put(store.OperationKey(op.ID), op, index)
		if err != nil {
			return nil, nil, err
		}
		ops = append(ops, p.noteBegun(put, op))
		started = append(started, op)
		if asked, ok := p.view.Queue[a.Request.ID]; ok && a.Request.ID != "" {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.QueueKey(a.Request.ID), Index: asked.Index})
		}
	}
	return ops, started, nil
}

// answeredOps removes the requests that need no more work, at most room of them.
func (p *pass) answeredOps(room int) []store.Op {
	var ops []store.Op
	for _, id := range p.plan.Answered {
		if asked, ok := p.view.Queue[id]; ok && len(ops) < room {
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: store.QueueKey(id), Index: asked.Index})
		}
	}
	return ops
}
