package storetest

import (
	"bytes"
	"context"
	"fmt"

	"cadre.dev/store"
)

// Commit applies all operations or none.
func (m *Memory) Commit(ctx context.Context, ops ...store.Op) error {
	if err := store.ValidateOps(ops); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	fault := m.faults.next(ops)
	if fault == UnknownLost {
		return fmt.Errorf("commit: %w: injected, not applied", store.ErrUnknown)
	}
	if fault == Refused {
		return fmt.Errorf("commit: %w", errInjected)
	}
	err := store.CommitNoted(ctx, unfailing{m}, store.NoteFenced(m.holderOf(ops), m.cfg.Clock.Now(), ops), func(_ context.Context, ops []store.Op) error {
		conflict := m.commit(ops)
		if conflict == nil {
			return nil
		}
		if conflict.Fenced() {
			m.loseLeases(conflict)
		}
		return conflict
	})
	if fault == UnknownApplied {
		// Only the reply is lost; its content does not matter.
		return fmt.Errorf("commit: %w: injected, answered", store.ErrUnknown)
	}
	return err
}

// holderOf is the holder whose fence ops carry; "" for none.
func (m *Memory) holderOf(ops []store.Op) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, op := range ops {
		if open := m.sessions[op.Session]; open != nil && op.Kind == store.OpCheckSession && op.Key == store.LeaseKey {
			return open.holder
		}
	}
	return ""
}

func (m *Memory) commit(ops []store.Op) *store.ConflictError {
	m.mu.Lock()
	defer m.mu.Unlock()
	txn := m.beginLocked()
	conflict := &store.ConflictError{}
	for i, op := range ops {
		if what := txn.apply(op); what != "" {
			conflict.Failed = append(conflict.Failed, store.FailedOp{Index: i, Op: op, What: what})
		}
	}
	if len(conflict.Failed) > 0 {
		return conflict
	}
	if m.committed != nil {
		m.notifyLocked(ops, txn.index)
	}
	txn.finishLocked()
	return nil
}

// txn collects the changes of one transaction above the stored items.
type txn struct {
	m       *Memory
	index   uint64
	changes map[string]*item // nil: deleted
}

func (m *Memory) beginLocked() *txn {
	m.index++
	return &txn{m: m, index: m.index, changes: make(map[string]*item)}
}

func (t *txn) get(key string) (item, bool) {
	if change, ok := t.changes[key]; ok {
		if change == nil {
			return item{}, false
		}
		return *change, true
	}
	found, ok := t.m.items[key]
	return found, ok
}

// apply returns the reason why a check failed, "" when it passed.
func (t *txn) apply(op store.Op) string {
	found, exists := t.get(op.Key)
	switch op.Kind {
	case store.OpPut:
		t.put(op.Key, op.Value, found.session)
	case store.OpPutCAS:
		if exists != (op.Index != 0) || (exists && found.index != op.Index) {
			return fmt.Sprintf("index is stale: %d", found.index)
		}
		t.put(op.Key, op.Value, found.session)
	case store.OpCheckIndex, store.OpDeleteCAS:
		if !exists {
			return "the key does not exist"
		}
		if found.index != op.Index {
			return fmt.Sprintf("current modify index %d != %d", found.index, op.Index)
		}
		if op.Kind == store.OpDeleteCAS {
			t.changes[op.Key] = nil
		}
	case store.OpCheckAbsent:
		if exists {
			return "the key exists"
		}
	case store.OpCheckSession:
		if !exists || found.session != op.Session {
			return fmt.Sprintf("current session %q != %q", found.session, op.Session)
		}
	case store.OpLock, store.OpUnlock:
		return t.lock(op)
	case store.OpDelete:
		if exists {
			t.changes[op.Key] = nil
		}
	}
	return ""
}

// put keeps the index of an unchanged value, as Consul does.
func (t *txn) put(key string, value []byte, session string) {
	if found, exists := t.get(key); exists && bytes.Equal(found.value, value) && found.session == session {
		return
	}
	t.changes[key] = &item{value: bytes.Clone(value), index: t.index, session: session}
}

func (t *txn) finishLocked() {
	if len(t.changes) == 0 {
		return
	}
	var keys []string
	for key, change := range t.changes {
		keys = append(keys, key)
		if change != nil {
			t.m.storeLocked(key, *change)
			continue
		}
		if _, existed := t.m.items[key]; existed {
			t.m.graves[key] = t.index
		}
		t.m.removeLocked(key)
	}
	t.m.written = t.index
	t.m.wakeLocked(keys...)
}
