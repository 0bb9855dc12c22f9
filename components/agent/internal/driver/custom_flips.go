package driver

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// mostFlips changes of role, leader, epoch, liveness or readiness within flipWindow are an election
	// or two. With more of them an adapter's answers mean nothing, and each would be a report.
	mostFlips  = 20
	flipWindow = 10 * time.Second
)

// flips counts the changes of an adapter's answers. The zero value has seen none. Safe for concurrent
// use.
type flips struct {
	mu   sync.Mutex
	last View        // guarded by mu
	at   []time.Time // guarded by mu; of the changes within flipWindow
}

// note takes one answer at now, and returns why the answers mean nothing; "": they are credible.
func (f *flips) note(v View, now time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = slices.DeleteFunc(f.at, func(at time.Time) bool { return now.Sub(at) >= flipWindow })
	l := f.last
	if f.last = v; (v.Role != l.Role || v.Leader != l.Leader || v.Epoch != l.Epoch || v.Liveness != l.Liveness || v.Ready != l.Ready) && len(f.at) <= mostFlips {
		f.at = append(f.at, now)
	}
	if len(f.at) <= mostFlips {
		return ""
	}
	return fmt.Sprintf("the adapter changes its answer more than %d times in %s: role, leader, epoch, liveness or ready", mostFlips, flipWindow)
}
