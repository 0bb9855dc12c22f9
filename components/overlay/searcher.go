// The searcher decides when a search of a Link may run: one at a time, spaced, and when
// the node has a place for it (turns.go). What a search does is in search.go.

package overlay

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
	inbox chan signal.Message // what the Peer says in it
	since time.Time
	// control: the Link carries control connections.
	control bool
}

// wantLocked has a search run instead of the one before, which ends first.
func (l *peerLink) wantLocked(e link.Find) {
	l.stopFindLocked()
	f := &l.finder
	f.epoch, f.inbox, f.unsaid = e.Epoch, make(chan signal.Message, inboxLen), true
	f.next = &wanted{Find: e, inbox: f.inbox, since: time.Now(), control: l.node.controls(l.peer)}
	if !e.Controlling {
		l.unnudgeLocked(e.Boot)
	}
	if !f.searching {
		f.searching = true
		l.node.launch(&l.wg, l.runSearches)
	}
}

// runSearches runs searches until none is wanted. There is one such goroutine of a Link
// at most.
func (l *peerLink) runSearches(ctx context.Context) {
	for {
		ctx, w, done := l.nextSearch(ctx)
		if w == nil {
			return
		}
		err := l.search(ctx, *w)
		if err != nil && ctx.Err() == nil {
			l.log.Info("search for paths ended", "search", w.Epoch, "error", err)
		}
		done()
		l.searchEnded(*w, unlucky(err))
	}
}

// nextSearch takes the search that is wanted, nil for none. Its context ends with done,
// or when it is not wanted any more.
func (l *peerLink) nextSearch(ctx context.Context) (context.Context, *wanted, context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.finder
	w := f.next
	if w == nil {
		f.searching = false
		return ctx, nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	f.next, f.stop = nil, cancel
	return ctx, w, cancel
}

func (l *peerLink) searchEnded(w wanted, unlucky bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.finder
	if f.inbox == w.inbox {
		f.inbox = nil // an idle Link holds none
	}
	l.stepLocked(link.FindEnded{Epoch: w.Epoch, Jitter: jitter(), Unlucky: unlucky})
}

// offerTaken notes that the Peer will hear of a search.
func (l *peerLink) offerTaken(epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finder.epoch == epoch {
		l.finder.unsaid = false
	}
}

// hoped tells the machine that a rendezvous is back, unless the search that runs waits
// for just that.
func (l *peerLink) hoped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if running, _ := l.state.Finding(); !running || !l.finder.unsaid {
		l.stepLocked(link.Hoped{Jitter: jitter()})
	}
}

// awaitTurn waits until w may run, and gives what it has to call when it is over.
// First for what takes long and costs others nothing, last for a place among them.
func (l *peerLink) awaitTurn(ctx context.Context, w wanted) (over func(), err error) {
	l.mu.Lock()
	gap := l.finder.gap.wait(w, time.Now(), jitter())
	l.mu.Unlock()
	if err := pause(ctx, gap); err != nil {
		return nil, err
	}
	urgent := l.urgency(w.control)
	turn := l.node.begins
	if w.Controlling {
		if err := l.node.paths.awaitServer(ctx, searchLimit); err != nil {
			return nil, err
		}
		err = turn.take(ctx, urgent)
	} else {
		turn = l.node.follows
		within, cancel := context.WithDeadlineCause(ctx, w.since.Add(followWait), errNoTurn)
		defer cancel()
		err = turn.take(within, urgent)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for a turn: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finder.gap = l.finder.gap.begin(w, time.Now())
	l.finder.begun++
	return func() { l.giveTurn(turn) }, nil
}

// urgency tells whether the Link goes before others: it carries control connections, or
// apps wait for it.
func (l *peerLink) urgency(control bool) func() bool {
	return func() bool { return control || l.forward.Waiting() > 0 }
}

// giveTurn ends a search that had a turn.
func (l *peerLink) giveTurn(turn *turns) {
	turn.give()
	l.mu.Lock()
	defer l.mu.Unlock()
	_, best := l.state.InUse()
	l.finder.gap = l.finder.gap.end(best.Direct())
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

// errNoServer: without a rendezvous there is neither a mailbox nor anybody to tell our
// addresses.
var errNoServer = errors.New("no rendezvous server answers")

// awaitServer waits until a rendezvous answers, or fails after limit.
func (p *paths) awaitServer(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNoServer)
	defer cancel()
	for {
		changed := p.box.Changed()
		if p.connected() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
