// The searcher decides when a search of a Link may run: one at a time, spaced, and when the
// node has a place for it (turns.go). search.go has the course of a search.

package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/signal"
)

// followWait is how long a search that the Peer began may wait for a place here. The
// Peer gives up after searchLimit, and some of that is needed to find anything.
const followWait = searchLimit / 2

// errNoTurn: the Peer's search was not followed, for want of a place.
var errNoTurn = errors.New("too many searches at once for another")

// wanted is a search that is to run.
type wanted struct {
	link.Find
	inbox chan signal.Message // the Peer's messages in the search
	since time.Time
	// control: the Link carries control connections.
	control bool
}

// Want ends the running search and then runs this one. control: the Link carries control
// connections.
func (f *Finder) Want(e link.Find, control bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopLocked()
	f.epoch, f.inbox, f.undelivered = e.Epoch, make(chan signal.Message, inboxLen), true
	f.next = &wanted{Find: e, inbox: f.inbox, since: time.Now(), control: control}
	if !e.Controlling {
		f.unnudgeLocked(e.Boot)
	}
	if !f.searching {
		f.searching = true
		f.owner.Launch(f.runSearches)
	}
}

// Pending is the epoch of the search wanted last, and whether it has not been taken up yet.
func (f *Finder) Pending() (epoch uint64, pending bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.epoch, f.next != nil
}

// runSearches runs searches until none is wanted. There is one such goroutine of a Link
// at most.
func (f *Finder) runSearches(ctx context.Context) {
	for {
		ctx, w, done := f.nextSearch(ctx)
		if w == nil {
			return
		}
		err := f.search(ctx, *w)
		if err != nil && ctx.Err() == nil {
			f.log.Info("search for paths ended", "search", w.Epoch, "error", err)
		}
		done()
		f.searchEnded(*w, lossOnly(err))
	}
}

// nextSearch takes the search that is wanted, nil for none. Its context ends with done,
// or when it is not wanted any more.
func (f *Finder) nextSearch(ctx context.Context) (context.Context, *wanted, context.CancelFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.next
	if w == nil {
		f.searching = false
		return ctx, nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	f.next, f.stop = nil, cancel
	return ctx, w, cancel
}

func (f *Finder) searchEnded(w wanted, lossOnly bool) {
	f.mu.Lock()
	if f.inbox == w.inbox {
		f.inbox = nil // an idle Link holds none
	}
	f.mu.Unlock()
	f.owner.Ended(w.Epoch, lossOnly)
}

// offerTaken notes that the Peer will hear of a search.
func (f *Finder) offerTaken(epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch == epoch {
		f.undelivered = false
	}
}

// awaitTurn waits until w may run, and returns the function to call at its end. The wait
// for the Link's own spacing comes first, since it takes long and costs other Links
// nothing. The wait for a place among the node's searches comes last.
func (f *Finder) awaitTurn(ctx context.Context, w wanted) (over func(), err error) {
	f.mu.Lock()
	gap := f.gap.wait(w, time.Now(), jitter())
	f.mu.Unlock()
	if err := pause(ctx, gap); err != nil {
		return nil, err
	}
	urgent := f.urgency(w.control)
	turn := f.field.begins
	if w.Controlling {
		if err := f.field.awaitServer(ctx, searchLimit); err != nil {
			return nil, err
		}
		err = turn.take(ctx, urgent)
	} else {
		turn = f.field.follows
		within, cancel := context.WithDeadlineCause(ctx, w.since.Add(followWait), errNoTurn)
		defer cancel()
		err = turn.take(within, urgent)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for a turn: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gap = f.gap.begin(w, time.Now())
	f.begun++
	return func() { f.giveTurn(turn) }, nil
}

// urgency reports whether the Link goes before others: it carries control connections, or
// apps wait for it.
func (f *Finder) urgency(control bool) func() bool {
	return func() bool { return control || f.owner.Waiting() }
}

// giveTurn ends a search that had a turn.
func (f *Finder) giveTurn(turn *turns) {
	turn.give()
	direct := f.owner.Best().Direct()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gap = f.gap.end(direct)
}

// pause waits for d, or fails because ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
