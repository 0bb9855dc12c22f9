package agent

import (
	"context"
	"time"

	"cadre.dev/agent/internal/parent"
)

// lookLimit is how long a look at the workload may take before this process counts as hanging: far
// more than the driver's own limits, so that only a stuck look reaches it.
const lookLimit = time.Minute

// runBeat reports to the parent that this process makes progress, while it does. A process that
// hangs sends no reports to coordinators either, and without another worker its whole CVM would be
// restarted. A process that waits for its disk does not count as hanging: the parts without a disk,
// such as the overlay, continue, and another worker would wait for the same disk.
func (a *Agent) runBeat(ctx context.Context) error {
	every := time.NewTicker(parent.BeatEvery)
	defer every.Stop()
	found := make(chan bool, 1)
	look := func() { found <- a.getsOn() } // never waited for: it stays where a lock is never released
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

// getsOn reports whether the parts answer. It takes every lock that a report takes. While one of
// them is never released, getsOn does not return, which counts as false.
func (a *Agent) getsOn() bool {
	_ = a.builder.Build()
	_, _ = a.hub.Sessions().Get()
	_ = a.hub.Term()
	if took := a.member.Looking(); took > lookLimit {
		a.cfg.Log.Error("an observation of the workload hangs", "since", took.String())
		return false
	}
	return true
}
