package world

import (
	"context"
	"math/rand/v2"
	"time"

	"cadre.dev/simulator/plan"
)

// other is the kind of the other end of a coordinator's connection.
type other string

const (
	toStore    other = "store"
	toPlatform other = "platform"
	toMembers  other = "members"
)

// cut is one broken connection of a coordinator. The number of breaks counts, since faults overlap.
type cut struct {
	coordinator string
	to          other
}

// sever breaks a connection for d, or until all faults end.
func (w *World) sever(ctx context.Context, c cut, d time.Duration) {
	w.mu.Lock()
	w.cuts[c]++
	w.relinkLocked()
	w.mu.Unlock()
	if c.to == toStore {
		w.store.PauseRenewalsOf(c.coordinator, true)
	}
	w.wait(ctx, d)
	w.mu.Lock()
	w.cuts[c]--
	whole := w.cuts[c] == 0
	w.relinkLocked()
	w.mu.Unlock()
	if c.to == toStore && whole {
		w.store.PauseRenewalsOf(c.coordinator, false)
	}
}

func (w *World) isCut(p *process, to other) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts[cut{p.slot, to}] > 0
}

// reach waits while p's connection is cut. It returns an error when ctx or the process ends, or
// after the time limit of a connection.
func (w *World) reach(ctx context.Context, p *process, to other) error {
	for left := patience; w.isCut(p, to); left -= lookAgain {
		switch {
		case p.dead():
			return errDead
		case left <= 0:
			return errCut
		case !pause(ctx, lookAgain):
			return ctx.Err()
		}
	}
	if p.dead() {
		return errDead
	}
	return ctx.Err()
}

// lookAgain paces a wait for a change without a notification.
const lookAgain = 250 * time.Millisecond

// odds are the present odds, with the random source of this decision of its kind.
func (w *World) odds(kind string) (plan.Odds, *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.oddsLocked(kind)
}

func (w *World) oddsLocked(kind string) (plan.Odds, *rand.Rand) {
	w.draws[kind]++
	r := plan.Source(w.plan.Seed, kind, w.draws[kind])
	if w.healed {
		return plan.Odds{}, r
	}
	return w.plan.Odds, r
}

// drawLocked draws a duration below most, of a kind that may happen often.
func (w *World) drawLocked(kind string, most time.Duration) time.Duration {
	w.draws[kind]++
	return time.Duration(plan.Source(w.plan.Seed, kind, w.draws[kind]).Int64N(int64(most)))
}

// count counts an injected fault.
func (w *World) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults++
}

// wait lets d pass, or less where all faults end before.
func (w *World) wait(ctx context.Context, d time.Duration) {
	if left := w.plan.HealAt - time.Since(w.began); left < d {
		d = left
	}
	pause(ctx, d)
}

// pause reports false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
