package storetest

import "cadre.dev/store"

// Committed is one applied transaction.
type Committed struct {
	Index uint64
	Ops   []store.Op
	// Before has the values of the keys that Ops delete, in their order.
	Before [][]byte
	// Holder of the Lease whose fence the transaction carried, and its Term; "" and 0: none.
	Holder string
	Term   uint64
}

// OnCommitted calls hook with each transaction that is applied from now on, in order; nil removes
// the hook. The hook runs within the transaction: it must not use the store.
func (m *Memory) OnCommitted(hook func(Committed)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.committed = hook
}

// notifyLocked is called before the changes of ops are stored.
func (m *Memory) notifyLocked(ops []store.Op, index uint64) {
	c := Committed{Index: index, Ops: ops}
	for _, op := range ops {
		switch op.Kind { //nolint:exhaustive // the others say nothing of the writer, and delete nothing
		case store.OpDelete, store.OpDeleteCAS:
			c.Before = append(c.Before, m.items[op.Key].value)
		case store.OpCheckSession:
			if open := m.sessions[op.Session]; open != nil && op.Key == store.LeaseKey {
				c.Holder = open.holder
				if record, err := m.termLocked(); err == nil && record != nil {
					c.Term = record.Term
				}
			}
		}
	}
	m.committed(c)
}
