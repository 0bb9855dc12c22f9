package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"cadre.dev/store/internal/leasing"
)

// lockDelay is the shortest possible one: the fence protects the records, so a successor need not
// wait. Zero would mean Consul's default of 15 s.
const lockDelay = time.Millisecond

// errLockDelay means that the lock was freed a moment ago.
var errLockDelay = errors.New("lock delay")

// errChainMoved means that another act was entered in the audit chain meanwhile.
var errChainMoved = errors.New("the audit chain moved")

// FenceOps returns the checks of a leader's write: its session holds the lock, and the Term key is
// unchanged since the leader wrote it.
func FenceOps(session string, termIndex uint64) []Op {
	return []Op{
		{Kind: OpCheckSession, Key: LeaseKey, Session: session},
		{Kind: OpCheckIndex, Key: TermKey, Index: termIndex},
	}
}

// Acquire takes the lock and the next Term in one transaction (threat model 9.4, rule 2). The Lease
// outlives ctx; give it up with Release.
//
// Errors: ErrLeaseTaken; ErrTermRegression; ErrTermExhausted; ErrUnknown when Consul did not answer
// (Acquire then tries to destroy the session, so that the lock is free again soon).
func (c *Consul) Acquire(ctx context.Context, holder string) (Lease, error) {
	if holder == "" {
		return nil, errors.New("acquire the lease: the holder has no name")
	}
	lock, err := c.get(ctx, LeaseKey)
	if err != nil {
		return nil, fmt.Errorf("acquire the lease: %w", err)
	}
	if lock != nil && lock.Session != "" {
		return nil, ErrLeaseTaken
	}
	term, termIndex, err := c.nextTerm(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire the lease: %w", err)
	}
	sentAt := time.Now()
	session, err := c.CreateSession(ctx, "cadre coordinator "+holder, c.cfg.SessionTTL)
	if err != nil {
		return nil, fmt.Errorf("acquire the lease: %w", err)
	}
	lease := &consulLease{session: session, term: term}
	lease.termIndex, err = c.takeLock(ctx, lease, holder, termIndex)
	if err != nil {
		if destroyErr := c.destroySession(context.WithoutCancel(ctx), session); destroyErr != nil {
			err = errors.Join(err, destroyErr)
		}
		return nil, fmt.Errorf("acquire the lease: %w", err)
	}
	c.sawTerm(lease.term)
	lease.Session = leasing.Start(ctx, leasing.Config{
		TTL: c.cfg.SessionTTL, Margin: c.cfg.Margin, Clock: leasing.System{},
		Renew:    func(ctx context.Context) error { return c.renewSession(ctx, session) },
		Destroy:  func(ctx context.Context) error { return c.destroySession(ctx, session) },
		Lost:     ErrFenced,
		Released: ErrReleased,
	}, sentAt)
	c.mu.Lock()
	c.holder = holder
	c.leases[session] = lease
	c.mu.Unlock()
	context.AfterFunc(lease.Context(), func() { //nolint:contextcheck // at the end of the lease, not of ctx
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.leases, session)
	})
	return lease, nil
}

// takeLock takes the lock and returns the modify index of the Term key that it wrote.
func (c *Consul) takeLock(ctx context.Context, lease *consulLease, holder string, termIndex uint64) (uint64, error) {
	lockValue, err := json.Marshal(LeaseRecord{Holder: holder, Term: lease.term, Since: time.Now().UTC()})
	if err != nil {
		return 0, err
	}
	// The lock delay ends within a millisecond of the Raft leader's clock.
	const attempts = 20
	for range attempts {
		var writes []Op // err is the function's, for the return below the loop
		if writes, err = LeaseOps(ctx, c, holder, lease.term, termIndex, time.Now()); err != nil {
			return 0, err
		}
		ops := api.TxnOps{{KV: &api.KVTxnOp{Verb: api.KVLock, Key: c.cfg.Prefix + LeaseKey, Value: lockValue, Session: lease.session}}}
		for _, op := range writes {
			ops = append(ops, &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVCAS, Key: c.cfg.Prefix + op.Key, Value: op.Value, Index: op.Index}})
		}
		var pairs []*api.KVPair
		if pairs, err = c.lockOnce(ctx, ops); err == nil {
			if len(pairs) != len(ops) || pairs[1] == nil || pairs[1].ModifyIndex == 0 {
				return 0, errors.New("consul did not return the index of the term")
			}
			return pairs[1].ModifyIndex, nil
		}
		if !errors.Is(err, errLockDelay) && !errors.Is(err, errChainMoved) {
			return 0, err
		}
		if err := pause(ctx, 5*lockDelay); err != nil {
			return 0, err
		}
	}
	return 0, err
}

func (c *Consul) lockOnce(ctx context.Context, ops api.TxnOps) ([]*api.KVPair, error) {
	pairs, failures, err := c.txn(ctx, ops)
	if err != nil {
		return nil, err
	}
	for _, failure := range failures {
		switch {
		case strings.Contains(failure.What, "Permission denied"):
			return nil, fmt.Errorf("%w: %s", ErrDenied, failure.What)
		case strings.Contains(failure.What, "lock delay"):
			return nil, fmt.Errorf("%w: %s", errLockDelay, failure.What)
		case strings.Contains(failure.What, "invalid session"):
			return nil, errors.New("the new session is gone already")
		}
	}
	// The first two are the lock and the Term.
	if slices.ContainsFunc(failures, func(f *api.TxnError) bool { return f.OpIndex < 2 }) {
		return nil, ErrLeaseTaken
	}
	if len(failures) > 0 {
		return nil, errChainMoved
	}
	return pairs, nil
}

// Holder reads the current holder of the lock, and the Term.
func (c *Consul) Holder(ctx context.Context) (string, uint64, error) {
	term, err := c.readTerm(ctx)
	if err != nil {
		return "", 0, err
	}
	lock, err := c.get(ctx, LeaseKey)
	if err != nil {
		return "", term, err
	}
	if lock == nil || lock.Session == "" {
		return "", term, nil
	}
	var record LeaseRecord
	if err := decodeStrict(lock.Value, &record); err != nil {
		return "", term, &RecordError{Key: LeaseKey, Index: lock.ModifyIndex, Err: err}
	}
	// The lock was read after the Term, so it may be of a later one.
	return record.Holder, max(term, record.Term), nil
}

// nextTerm returns the Term of the next holder, and the modify index of the stored Term record, 0
// when there is none.
func (c *Consul) nextTerm(ctx context.Context) (term, index uint64, err error) {
	// A Term seen before the read was sent must be in its answer.
	seen := c.sawTerm(0)
	facts, index, err := ReadTermFacts(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	facts.Seen = seen
	if facts.Stored != nil {
		c.sawTerm(facts.Stored.Term)
	}
	term, err = NextTerm(facts)
	return term, index, err
}

// readTerm returns the Term, 0 before the first leader. It rejects a Term below SeenTerm.
func (c *Consul) readTerm(ctx context.Context) (uint64, error) {
	seen := c.sawTerm(0)
	record, _, err := Read[TermRecord](ctx, c, TermKey)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	if record.Term < seen {
		_, err := NextTerm(TermFacts{Stored: &record, Seen: seen})
		return 0, err
	}
	c.sawTerm(record.Term)
	return record.Term, nil
}

// SeenTerm returns the highest Term that this process has seen.
func (c *Consul) SeenTerm() uint64 { return c.sawTerm(0) }

// sawTerm records the highest Term that this process has seen, and returns it.
func (c *Consul) sawTerm(term uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxTerm = max(c.maxTerm, term)
	return c.maxTerm
}

// DestroyHolderSession frees the lock at once if holder has it, and reports whether it did. A
// supervisor calls it when the coordinator process has died.
func (c *Consul) DestroyHolderSession(ctx context.Context, holder string) (bool, error) {
	return c.endSession(ctx, func(r LeaseRecord) bool { return r.Holder == holder })
}

// EndLease is DestroyHolderSession for the Lease of one Term: a later Lease of the same holder
// stays.
func (c *Consul) EndLease(ctx context.Context, holder string, term uint64) (bool, error) {
	return c.endSession(ctx, func(r LeaseRecord) bool { return r.Holder == holder && r.Term == term })
}

// endSession destroys the session of the lock if meant accepts the record of the lock.
func (c *Consul) endSession(ctx context.Context, meant func(LeaseRecord) bool) (bool, error) {
	lock, err := c.get(ctx, LeaseKey)
	if err != nil || lock == nil || lock.Session == "" {
		return false, err
	}
	var record LeaseRecord
	if err := decodeStrict(lock.Value, &record); err != nil {
		return false, &RecordError{Key: LeaseKey, Index: lock.ModifyIndex, Err: err}
	}
	if !meant(record) {
		return false, nil
	}
	// Sessions are never reused, so this cannot end a session that replaced the lock's session
	// meanwhile.
	return true, c.destroySession(ctx, lock.Session)
}

// loseLeases ends the Leases whose fence failed. So the process learns from its own write that a
// Lease is lost, before a renewal fails.
func (c *Consul) loseLeases(conflict *ConflictError) {
	c.mu.Lock()
	var lost []*consulLease
	for _, lease := range c.leases {
		for _, f := range conflict.Failed {
			if (f.Op.Kind == OpCheckSession && f.Op.Session == lease.session) ||
				(f.Op.Kind == OpCheckIndex && f.Op.Key == TermKey && f.Op.Index == lease.termIndex) {
				lost = append(lost, lease)
				break
			}
		}
	}
	c.mu.Unlock()
	for _, lease := range lost {
		lease.Lose(conflict)
	}
}

func (c *Consul) renewSession(ctx context.Context, session string) error {
	entry, _, err := c.client.Session().Renew(session, (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("renew the session: %w", err)
	}
	if entry == nil {
		return leasing.ErrGone
	}
	return nil
}

func (c *Consul) destroySession(ctx context.Context, session string) error {
	ctx, cancel := c.call(ctx)
	defer cancel()
	_, err := c.client.Session().Destroy(session, (&api.WriteOptions{}).WithContext(ctx))
	if status, ok := errors.AsType[api.StatusError](err); ok && status.Code == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("destroy the session: %w", classed(err))
	}
	return nil
}

// consulLease is a held lock on Consul.
type consulLease struct {
	*leasing.Session
	session   string
	term      uint64
	termIndex uint64
}

var _ Lease = (*consulLease)(nil)

// Term of this holder.
func (l *consulLease) Term() uint64 { return l.term }

// Fence returns the checks of this holder.
func (l *consulLease) Fence() []Op { return FenceOps(l.session, l.termIndex) }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
