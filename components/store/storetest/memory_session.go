package storetest

import (
	"context"
	"fmt"
	"time"

	"cadre.dev/store"
)

// CreateSession is store.Consul's CreateSession.
func (m *Memory) CreateSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	if err := m.beforeRead(ctx); err != nil {
		return "", fmt.Errorf("create the session %s: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sequence++
	// Consul's sessions end at twice their TTL.
	open := &session{id: fmt.Sprintf("session-%d", m.sequence), holder: name, ttl: 2 * ttl}
	m.sessions[open.id] = open
	m.armLocked(open)
	return open.id, nil
}

// RenewSession is store.Consul's RenewSession.
func (m *Memory) RenewSession(ctx context.Context, id string) error {
	if err := m.beforeRead(ctx); err != nil {
		return fmt.Errorf("renew the session: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	open, ok := m.sessions[id]
	if !ok {
		return fmt.Errorf("renew the session: %w", store.ErrNoSession)
	}
	m.armLocked(open)
	return nil
}

// DestroySession is store.Consul's DestroySession.
func (m *Memory) DestroySession(ctx context.Context, id string) error {
	if err := m.beforeRead(ctx); err != nil {
		return fmt.Errorf("destroy the session: %w", err)
	}
	m.destroy(id)
	return nil
}

// lock returns the reason why op cannot take or free its key, "" when it did.
func (t *txn) lock(op store.Op) string {
	found, _ := t.get(op.Key)
	if op.Kind == store.OpUnlock {
		if found.session != op.Session {
			return "lock isn't held by the session"
		}
		t.put(op.Key, op.Value, "")
		return ""
	}
	if _, open := t.m.sessions[op.Session]; !open {
		return fmt.Sprintf("invalid session %q", op.Session)
	}
	if found.session != "" && found.session != op.Session {
		return "lock is already held"
	}
	t.put(op.Key, op.Value, op.Session)
	return ""
}
