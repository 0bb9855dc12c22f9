package search

import (
	"context"

	"cadre.dev/overlay/internal/signal"
)

// Nudge asks the Peer, as boot, for a search, soon. control: the Link carries control
// connections.
func (f *Finder) Nudge(boot string, control bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nudgeDue, f.nudgeBoot, f.nudgeControl = true, boot, control
	if !f.nudging {
		f.nudging = true
		f.owner.Launch(f.runNudges)
	}
}

// Nudging tells whether a nudge is due or on its way.
func (f *Finder) Nudging() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nudging
}

// runNudges sends the nudges that are due, one at a time. The Peer may not be at its
// mailbox yet: it begins by itself when it is, so one that is lost costs little.
func (f *Finder) runNudges(ctx context.Context) {
	for {
		f.mu.Lock()
		due, boot, control := f.nudgeDue && ctx.Err() == nil, f.nudgeBoot, f.nudgeControl
		f.nudgeDue, f.nudging = false, due
		within, cancel := context.WithCancel(ctx)
		f.nudged = cancel
		f.mu.Unlock()
		if due {
			f.sendNudge(within, boot, f.urgency(control))
		}
		cancel()
		if !due {
			return
		}
	}
}

func (f *Finder) sendNudge(ctx context.Context, boot string, urgent func() bool) {
	if f.field.nudges.take(ctx, urgent) != nil {
		return
	}
	defer f.field.nudges.give()
	err := f.trySend(ctx, boot, signal.Message{Type: signal.Nudge})
	if err == nil {
		f.nudgeSent(boot)
	} else if ctx.Err() == nil {
		f.log.Debug("nudge not sent", "error", err)
	}
}

// unnudgeLocked takes a nudge back that is due or on its way: the Peer, as boot, does
// what it asks for. Where many Links come up at once nudges wait for their turn, and one
// that comes late would have the Peer search again for what is found.
func (f *Finder) unnudgeLocked(boot string) {
	if f.nudgeBoot != "" && f.nudgeBoot != boot {
		return
	}
	f.nudgeDue = false
	if f.nudged != nil {
		f.nudged()
	}
}

// nudgeSent notes that a nudge is at the Peer's mailbox: who asked for one meanwhile
// asked for this one.
func (f *Finder) nudgeSent(boot string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nudgeBoot == boot {
		f.nudgeDue = false
	}
}
