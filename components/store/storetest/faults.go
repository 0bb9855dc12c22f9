package storetest

import (
	"context"
	"errors"
	"sync"

	"cadre.dev/store"
)

// Fault is an injected fault of one Commit.
type Fault string

const (
	// None lets it succeed.
	None Fault = ""
	// UnknownApplied applies it and loses the answer.
	UnknownApplied Fault = "unknown-applied"
	// UnknownLost does not apply it, and returns ErrUnknown.
	UnknownLost Fault = "unknown-lost"
	// Refused certainly does not apply it, for another reason than a check.
	Refused Fault = "refused"
)

var errInjected = errors.New("injected fault")

type faults struct {
	mu sync.Mutex
	// queue is for the next commits, before hook.
	queue []Fault
	hook  func(ops []store.Op) Fault
	reads error
}

func (f *faults) next(ops []store.Op) Fault {
	f.mu.Lock()
	if len(f.queue) > 0 {
		fault := f.queue[0]
		f.queue = f.queue[1:]
		f.mu.Unlock()
		return fault
	}
	hook := f.hook
	f.mu.Unlock()
	if hook == nil {
		return None
	}
	return hook(ops)
}

// FailCommits sets the faults of the next commits, one each.
func (m *Memory) FailCommits(next ...Fault) {
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	m.faults.queue = append(m.faults.queue, next...)
}

// OnCommit calls hook before each commit; nil removes it. The hook may change the store, e.g.
// expire the session between a leader's decision and its write.
func (m *Memory) OnCommit(hook func(ops []store.Op) Fault) {
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	m.faults.hook = hook
}

// FailReads makes everything except Commit return err until a call with nil. Renewals fail as well,
// so a holder loses its Lease in time.
func (m *Memory) FailReads(err error) {
	m.faults.mu.Lock()
	m.faults.reads = err
	m.faults.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wakeLocked()
}

func (m *Memory) beforeRead(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	return m.faults.reads
}
