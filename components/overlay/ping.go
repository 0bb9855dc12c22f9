package overlay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrUnknownPeer reports a Peer that the map does not name.
	ErrUnknownPeer = errors.New("peer is not in the map")
	// ErrNoSession reports a Link that has no Session in use.
	ErrNoSession = errors.New("no session with the peer")
)

const (
	// MaxPings bounds the round trips of one [Node.Ping].
	MaxPings = 50
	// pingEvery is the pause between two round trips.
	pingEvery = 200 * time.Millisecond
	// pingWait is how long an answer may take before it counts as lost.
	pingWait = 2 * time.Second
)

// PingSample is one round trip.
type PingSample struct {
	// RTT is 0 when Err is not nil.
	RTT time.Duration
	// Path and Carrier are those of the Session that carried it.
	Path    PathKind
	Carrier string
	// Err is why there was no answer.
	Err error
}

// PingResult is what a [Node.Ping] measured, in the order of time.
type PingResult struct {
	Peer    ID
	Samples []PingSample
}

// Ping measures count round trips to a Peer, 200 ms apart, each over the Session
// that is in use when it begins, past bulk data that waits there. A round trip
// without an answer within 2 s, or whose Session ends, is a sample with an error.
// An error of Ping itself, [ErrUnknownPeer] or [ErrNoSession] among others, means
// that nothing was measured. When ctx ends, what was measured so far is the result.
func (n *Node) Ping(ctx context.Context, id ID, count int) (PingResult, error) {
	if count < 1 || count > MaxPings {
		return PingResult{}, fmt.Errorf("ping %s: %d round trips: want 1 to %d", id, count, MaxPings)
	}
	l, err := n.link(id)
	if err != nil {
		return PingResult{}, fmt.Errorf("ping %s: %w", id, err)
	}
	l.awaitSession(ctx)
	res := PingResult{Peer: id}
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		sample := l.ping(ctx)
		if len(res.Samples) == 0 && sample.Err != nil && (errors.Is(sample.Err, ErrNoSession) || ctx.Err() != nil) {
			return PingResult{}, fmt.Errorf("ping %s: %w", id, sample.Err)
		}
		if ctx.Err() != nil && sample.Err != nil {
			return res, nil // the last one was cut short
		}
		res.Samples = append(res.Samples, sample)
		if len(res.Samples) == count {
			return res, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return res, nil
		}
	}
}

// ping measures one round trip.
func (l *peerLink) ping(ctx context.Context) PingSample {
	s, path, err := l.used()
	if err != nil {
		return PingSample{Path: PathNone, Err: err}
	}
	if ctx.Err() != nil {
		// The answer may come as soon as it is asked for.
		return PingSample{Path: path, Carrier: s.path.carrier, Err: context.Cause(ctx)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pingWait, errNoAnswer)
	defer cancel()
	rtt, err := s.Ping(ctx)
	return PingSample{RTT: rtt, Path: path, Carrier: s.path.carrier, Err: err}
}

// errNoAnswer ends a round trip that takes too long.
var errNoAnswer = fmt.Errorf("no answer within %v", pingWait)

// link finds the Link to a Peer of the map.
func (n *Node) link(id ID) (*peerLink, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.links[id]; l != nil {
		return l, nil
	}
	return nil, ErrUnknownPeer
}

// used gives the Session in use and how it travels.
func (l *peerLink) used() (live, PathKind, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number, class := l.state.InUse()
	s, ok := l.sessions[number]
	if ok {
		return s, pathKind(class), nil
	}
	err := fmt.Errorf("%w: it is %s", ErrNoSession, l.state.Phase())
	if l.lastErr != nil {
		err = fmt.Errorf("%w: %s", err, l.lastErr.Error())
	}
	return live{}, PathNone, err
}
