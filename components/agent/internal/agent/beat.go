package agent

import (
	"context"
	"time"

	"cadre.dev/agent/internal/parent"
)

// lookLimit is how long a look at the workload may take before this process counts as hanging:
// far more than the driver is given, so that only one that hears nobody reaches it.
const lookLimit = time.Minute

// runBeat tells the parent that this process gets on, for as long as it does: a process that hangs
// is silent to coordinators too, and without another worker costs its whole CVM a restart. One that
// waits for its disk does not hang: what needs none of that, as the overlay, goes on, and
// another worker would wait for the same disk.
func (a *Agent) runBeat(ctx context.Context) error {
	every := time.NewTicker(parent.BeatEvery)
	defer every.Stop()
	found := make(chan bool, 1)
	look := func() { found <- a.getsOn() } // never waited for: where a lock is held for ever it stays
	go look()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		on := a.disk.Writing()
		select {
		case well := <-found:
			on = on || well
			go look()
		default: // it is under way
		}
		if !on {
			continue
		}
		if a.cfg.Parent.Beat() != nil {
			return nil // the parent ends whom it does not hear, or has ended
		}
	}
}

// getsOn reports whether the parts answer. It takes every lock that a report takes, and does not
// return while one of them is held for ever, which says no as well.
func (a *Agent) getsOn() bool {
	_ = a.builder.Build()
	_, _ = a.hub.Sessions().Get()
	_ = a.hub.Term()
	if took := a.member.Looking(); took > lookLimit {
		a.cfg.Log.Error("a look at the workload does not end", "since", took.String())
		return false
	}
	return true
}
