package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cadre.dev/store"
	"cadre.dev/store/internal/leasing"
)

// session is one session of the twin.
type session struct {
	id     string
	holder string
	ttl    time.Duration
	// stop cancels its expiry.
	stop func() bool
	// paused holds up renewals until it is closed; nil: not paused.
	paused chan struct{}
}

// Acquire takes the lock and the next Term.
func (m *Memory) Acquire(ctx context.Context, holder string) (store.Lease, error) {
	if holder == "" {
		return nil, errors.New("acquire the lease: the holder has no name")
	}
	// A holder that wrote the Term in between has the lock.
	facts, _, err := store.ReadTermFacts(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("acquire the lease: %w", err)
	}
	sentAt := m.cfg.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.items[store.LeaseKey].session != "" {
		return nil, store.ErrLeaseTaken
	}
	if facts.Stored, err = m.termLocked(); err != nil {
		return nil, fmt.Errorf("acquire the lease: %w", err)
	}
	facts.Seen = m.maxTerm
	if facts.Stored != nil {
		m.maxTerm = max(m.maxTerm, facts.Stored.Term)
	}
	term, err := store.NextTerm(facts)
	if err != nil {
		return nil, fmt.Errorf("acquire the lease: %w", err)
	}
	lockValue, err := json.Marshal(store.LeaseRecord{Holder: holder, Term: term, Since: sentAt.UTC()})
	if err != nil {
		return nil, err
	}
	var termIndex uint64
	if facts.Stored != nil {
		termIndex = m.items[store.TermKey].index
	}
	writes, err := store.LeaseOps(ctx, locked{m}, holder, term, termIndex, sentAt)
	if err != nil {
		return nil, fmt.Errorf("acquire the lease: %w", err)
	}
	m.sequence++
	open := &session{id: fmt.Sprintf("session-%d", m.sequence), holder: holder, ttl: m.cfg.SessionTTL}
	take := m.beginLocked()
	take.put(store.LeaseKey, lockValue, open.id)
	for _, write := range writes {
		take.put(write.Key, write.Value, "")
	}
	take.finishLocked()
	m.maxTerm = term
	m.sessions[open.id] = open
	m.armLocked(open)
	lease := &memoryLease{session: open.id, term: term, termIndex: take.index}
	lease.Session = leasing.Start(ctx, leasing.Config{
		TTL: m.cfg.SessionTTL, Margin: m.cfg.Margin, Clock: m.cfg.Clock,
		Renew:    func(ctx context.Context) error { return m.renew(ctx, open) },
		Destroy:  func(context.Context) error { m.destroy(open.id); return nil },
		Lost:     store.ErrFenced,
		Released: store.ErrReleased,
	}, sentAt)
	m.leases[lease] = struct{}{}
	context.AfterFunc(lease.Context(), func() { //nolint:contextcheck // at the end of the lease, not of ctx
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.leases, lease)
	})
	return lease, nil
}

// Holder returns the holder of the lock, and the Term.
func (m *Memory) Holder(ctx context.Context) (string, uint64, error) {
	if err := m.beforeRead(ctx); err != nil {
		return "", 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	term, err := m.readTermLocked()
	if err != nil {
		return "", 0, err
	}
	if open, held := m.sessions[m.items[store.LeaseKey].session]; held {
		return open.holder, term, nil
	}
	return "", term, nil
}

// termLocked is the Term record; nil: there is none.
func (m *Memory) termLocked() (*store.TermRecord, error) {
	found, ok := m.items[store.TermKey]
	if !ok {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	record := &store.TermRecord{}
	if err := json.Unmarshal(found.value, record); err != nil {
		return nil, &store.RecordError{Key: store.TermKey, Index: found.index, Err: err}
	}
	return record, nil
}

// SeenTerm is store.Consul's SeenTerm.
func (m *Memory) SeenTerm() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.maxTerm
}

func (m *Memory) readTermLocked() (uint64, error) {
	record, err := m.termLocked()
	if err != nil {
		return 0, err
	}
	if record == nil {
		record = &store.TermRecord{}
	}
	if record.Term < m.maxTerm {
		_, err := store.NextTerm(store.TermFacts{Stored: record, Seen: m.maxTerm})
		return 0, err
	}
	m.maxTerm = record.Term
	return record.Term, nil
}

// DestroyHolderSession is store.Consul's DestroyHolderSession.
func (m *Memory) DestroyHolderSession(ctx context.Context, holder string) (bool, error) {
	return m.endSession(ctx, func(r store.LeaseRecord) bool { return r.Holder == holder })
}

// EndLease is store.Consul's EndLease.
func (m *Memory) EndLease(ctx context.Context, holder string, term uint64) (bool, error) {
	return m.endSession(ctx, func(r store.LeaseRecord) bool { return r.Holder == holder && r.Term == term })
}

func (m *Memory) endSession(ctx context.Context, meant func(store.LeaseRecord) bool) (bool, error) {
	if err := m.beforeRead(ctx); err != nil {
		return false, err
	}
	m.mu.Lock()
	lock := m.items[store.LeaseKey]
	open, held := m.sessions[lock.session]
	m.mu.Unlock()
	if !held {
		return false, nil
	}
	var record store.LeaseRecord
	if err := json.Unmarshal(lock.value, &record); err != nil {
		return false, &store.RecordError{Key: store.LeaseKey, Index: lock.index, Err: err}
	}
	if !meant(record) {
		return false, nil
	}
	m.destroy(open.id)
	return true, nil
}

// ExpireSession ends the session that holds the lock, as if its TTL had passed, and reports whether
// there was one. The holder gets no notification.
func (m *Memory) ExpireSession() bool {
	m.mu.Lock()
	id := m.items[store.LeaseKey].session
	m.mu.Unlock()
	m.destroy(id)
	return id != ""
}

// PauseRenewals makes every renewal hang until a call with false, as if the holders' processes had
// been paused.
func (m *Memory) PauseRenewals(paused bool) {
	m.pauseRenewals(paused, func(*session) bool { return true })
}

// PauseRenewalsOf is [Memory.PauseRenewals] for the Leases that one holder has now.
func (m *Memory) PauseRenewalsOf(holder string, paused bool) {
	m.pauseRenewals(paused, func(s *session) bool { return s.holder == holder })
}

func (m *Memory) pauseRenewals(paused bool, which func(*session) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, open := range m.sessions {
		switch {
		case !which(open):
		case paused && open.paused == nil:
			open.paused = make(chan struct{})
		case !paused && open.paused != nil:
			close(open.paused)
			open.paused = nil
		}
	}
}

func (m *Memory) renew(ctx context.Context, open *session) error {
	m.mu.Lock()
	paused := open.paused
	m.mu.Unlock()
	if paused != nil {
		select {
		case <-paused:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := m.beforeRead(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[open.id] != open {
		return leasing.ErrGone
	}
	m.armLocked(open)
	return nil
}

// armLocked (re)starts the TTL of a session.
func (m *Memory) armLocked(open *session) {
	if open.stop != nil {
		open.stop()
	}
	open.stop = m.cfg.Clock.AfterFunc(open.ttl, func() { m.destroy(open.id) })
}

// destroy ends a session and frees its locks. It ignores unknown sessions.
func (m *Memory) destroy(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	open, ok := m.sessions[id]
	if !ok {
		return
	}
	open.stop()
	delete(m.sessions, id)
	free := m.beginLocked()
	for key, lock := range m.items {
		if lock.session == id {
			free.put(key, lock.value, "")
		}
	}
	free.finishLocked()
}

// loseLeases ends the Leases whose fence failed, as store.Consul does.
func (m *Memory) loseLeases(conflict *store.ConflictError) {
	m.mu.Lock()
	var lost []*memoryLease
	for lease := range m.leases {
		for _, f := range conflict.Failed {
			if (f.Op.Kind == store.OpCheckSession && f.Op.Session == lease.session) ||
				(f.Op.Kind == store.OpCheckIndex && f.Op.Key == store.TermKey && f.Op.Index == lease.termIndex) {
				lost = append(lost, lease)
				break
			}
		}
	}
	m.mu.Unlock()
	for _, lease := range lost {
		lease.Lose(conflict)
	}
}

// memoryLease is a held lock on a Memory.
type memoryLease struct {
	*leasing.Session
	session   string
	term      uint64
	termIndex uint64
}

var _ store.Lease = (*memoryLease)(nil)

// Term of this holder.
func (l *memoryLease) Term() uint64 { return l.term }

// Fence returns the checks of this holder.
func (l *memoryLease) Fence() []store.Op { return store.FenceOps(l.session, l.termIndex) }
