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

// Nudging reports whether a nudge is due or on its way.
func (f *Finder) Nudging() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nudging
}

// runNudges sends the nudges that are due, one at a time. The Peer may not be at its
// mailbox yet. A lost nudge costs little, because the Peer starts a search automatically
// when it gets there.
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

// unnudgeLocked withdraws a nudge that is due or on its way, because the Peer, as boot,
// has begun the search. Where many Links come up at once, nudges wait for their turn. A
// late nudge would make the Peer repeat a finished search.
func (f *Finder) unnudgeLocked(boot string) {
	if f.nudgeBoot != "" && f.nudgeBoot != boot {
		return
	}
	f.nudgeDue = false
	if f.nudged != nil {
		f.nudged()
	}
}

// nudgeSent records that a nudge is at the Peer's mailbox. Requests for a nudge since the
// sending began are served by this nudge.
func (f *Finder) nudgeSent(boot string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nudgeBoot == boot {
		f.nudgeDue = false
	}
}
