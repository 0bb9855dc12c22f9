package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

var (
	errCut  = errors.New("no answer")
	errDead = errors.New("the process is dead")
)

// storeLink is one process's connection to the store. Requests are lost while the connection is
// cut, and have no effect once the process is dead.
type storeLink struct {
	*storetest.Memory

	w *World
	p *process
}

var _ store.Store = storeLink{}

// reach waits while the connection is cut. It returns an error when ctx or the process ends.
func (l storeLink) reach(ctx context.Context) error {
	return l.w.reach(ctx, l.p, toStore)
}

func (l storeLink) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := l.reach(ctx); err != nil {
		return store.Entry{}, err
	}
	return l.Memory.Get(ctx, key)
}

func (l storeLink) List(ctx context.Context, prefix string) ([]store.Entry, uint64, error) {
	if err := l.reach(ctx); err != nil {
		return nil, 0, err
	}
	return l.Memory.List(ctx, prefix)
}

func (l storeLink) Together(ctx context.Context, what ...string) ([]store.Entry, error) {
	if err := l.reach(ctx); err != nil {
		return nil, err
	}
	return l.Memory.Together(ctx, what...)
}

// Watch reports a change also after a cut.
func (l storeLink) Watch(ctx context.Context, prefix string, index uint64) (uint64, error) {
	next, err := l.Memory.Watch(ctx, prefix, index)
	if err := l.reach(ctx); err != nil {
		return index, err
	}
	return next, err
}

// Commit may be lost, or its answer may be lost.
func (l storeLink) Commit(ctx context.Context, ops ...store.Op) error {
	if err := l.reach(ctx); err != nil {
		return fmt.Errorf("commit: %w: %w", store.ErrUnknown, err)
	}
	odds, r := l.w.odds("commit " + l.p.slot)
	chance := r.Float64()
	if chance < odds.LostWrite {
		l.w.count()
		return fmt.Errorf("commit: %w: lost", store.ErrUnknown)
	}
	err := l.Memory.Commit(ctx, ops...)
	if err == nil {
		if l.p.stepped("a transaction"); l.p.dead() {
			return errDead
		}
	}
	if chance < odds.LostWrite+odds.LostAck {
		l.w.count()
		return fmt.Errorf("commit: %w: the answer is lost", store.ErrUnknown)
	}
	return err
}

// Acquire returns a Lease that dies with the process, without a release.
func (l storeLink) Acquire(ctx context.Context, holder string) (store.Lease, error) {
	if err := l.reach(ctx); err != nil {
		return nil, err
	}
	lease, err := l.Memory.Acquire(ctx, holder)
	if err != nil {
		return nil, err
	}
	// The store announces its transactions under its own lock, so it is never called under the
	// world's lock.
	l.w.mu.Lock()
	l.p.lease = lease
	l.w.mu.Unlock()
	if l.w.isCut(l.p, toStore) {
		l.PauseRenewalsOf(holder, true)
	}
	if l.p.dead() {
		loseLease(lease)
	}
	return mortal{lease, l.p}, nil
}

// DestroyHolderSession is as in store.Consul.
func (l storeLink) DestroyHolderSession(ctx context.Context, holder string) (bool, error) {
	if err := l.reach(ctx); err != nil {
		return false, err
	}
	return l.Memory.DestroyHolderSession(ctx, holder)
}

func (l storeLink) Holder(ctx context.Context) (string, uint64, error) {
	if err := l.reach(ctx); err != nil {
		return "", 0, err
	}
	return l.Memory.Holder(ctx)
}

// mortal is a Lease that a dead process cannot release.
type mortal struct {
	store.Lease

	p *process
}

func (m mortal) Release(ctx context.Context) error {
	if m.p.dead() {
		return errDead
	}
	return m.Lease.Release(ctx)
}

// loseLease ends the lease for its dead process; the store keeps the session for its TTL.
func loseLease(lease store.Lease) {
	if held, ok := lease.(interface{ Lose(error) }); ok {
		held.Lose(errDead)
	}
}

// patience is the time limit of a request over a broken connection.
const patience = 10 * time.Second
