package control

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cadre.dev/agent/internal/durable"
)

const (
	termName = "term.json"
	// stateEvery paces writes for a state that grew while nothing else changed.
	stateEvery = 10 * time.Second
)

// termKeeper remembers the progress of the coordinators across reboots: the highest Term, and the
// highest state of their records. After a failed write the values stay in memory, and so in force
// until this process ends. If a full disk blocked orders, the agent could never receive the order
// that frees the disk. Safe for concurrent use.
type termKeeper struct {
	disk *durable.Disk
	log  *slog.Logger

	mu      sync.Mutex
	obeyed  mark      // guarded by mu; of desired state that was taken
	seen    uint64    // guarded by mu; highest Term of any message
	kept    mark      // guarded by mu; given to the disk last
	keptAt  time.Time // guarded by mu
	refused mark      // guarded by mu; refused last, so that each Term is logged once
}

// mark is the progress of the records. Neither field ever falls: a leader of a higher Term with a
// lower state started from a backup, and agents report the higher state to it.
type mark struct {
	Term  uint64 `json:"term"`
	State uint64 `json:"state,omitempty"`
}

// below reports that m is of records older than other. State 0 does not count: it is of a
// coordinator of an earlier version.
func (m mark) below(other mark) bool {
	return m.Term < other.Term || m.State != 0 && m.State < other.State
}

func openTerm(disk *durable.Disk, log *slog.Logger) (*termKeeper, error) {
	k := &termKeeper{disk: disk, log: log}
	if _, err := disk.Read(termName, 4096, &k.obeyed); err != nil {
		return nil, fmt.Errorf("last term: %w", err)
	}
	k.seen, k.kept = k.obeyed.Term, k.obeyed
	return k, nil
}

// obey reports whether the desired state of records at m may be obeyed, and first remembers a
// higher mark.
func (k *termKeeper) obey(m mark) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.below(k.obeyed) {
		if k.refused.Term != m.Term {
			k.log.Warn("desired state of older records is not obeyed", "term", m.Term, "state", m.State, "seen_term", k.obeyed.Term, "seen_state", k.obeyed.State)
		}
		k.refused = m
		return false
	}
	k.refused = mark{}
	m.State = max(m.State, k.obeyed.State)
	k.obeyed, k.seen = m, max(k.seen, m.Term)
	if now := time.Now(); k.kept.Term != m.Term || k.kept.State != m.State && now.Sub(k.keptAt) >= stateEvery {
		// A failed write is reported as a fault, and repeated later.
		_ = k.disk.Put(termName, m)
		k.kept, k.keptAt = m, now
	}
	return true
}

// note remembers a Term of another message; false when it is an old leader's.
func (k *termKeeper) note(term uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if term < k.seen {
		return false
	}
	k.seen = term
	return true
}

// highest are the highest Term of any message, and the highest state of desired state.
func (k *termKeeper) highest() (term, state uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen, k.obeyed.State
}
