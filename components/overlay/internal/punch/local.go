package punch

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Config says how a host can be reached.
type Config struct {
	// Reflectors are STUN servers over TCP as host:port, the best first. The
	// first three are asked.
	Reflectors []string
	// Advertise are addresses at which the session listener is known to be
	// reachable.
	Advertise []netip.AddrPort
	// ListenPort is the port of the session listener when it is reachable at
	// the mapped address, else 0.
	ListenPort uint16
	// Hosts offers the addresses of the host's own interfaces too. Peers behind
	// the same translator need them; other Peers learn them (OVL-18).
	Hosts bool
	// Log may be nil.
	Log *slog.Logger
	// Allow replaces the filter of addresses, for tests that use loopback. It returns nil
	// for a permitted address; private permits addresses of private networks.
	Allow func(addr netip.Addr, private bool) error
}

// Local is this host's end of one search: a port and the facts about it. All methods may
// be called concurrently.
type Local struct {
	// constant after Gather
	log        *slog.Logger
	allow      func(netip.Addr, bool) error
	port       int
	listeners  []*net.TCPListener
	reflectors []net.Conn // kept open: they keep the translator's mappings
	candidates []Candidate
	oneWay     time.Duration
	network    network

	mu     sync.Mutex
	cancel context.CancelCauseFunc // ends the running Connect; guarded by mu
	closed bool                    // guarded by mu
	wg     sync.WaitGroup          // the running Connect
}

// Gather takes a port and learns how others see it. It returns when every reflector has
// answered, or shortly after the first has. Silent reflectors are no error as long as
// there is a candidate to offer. ctx bounds only Gather; the result must be closed.
func Gather(ctx context.Context, c Config) (*Local, error) {
	l := &Local{log: c.Log, allow: c.Allow}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.allow == nil {
		l.allow = allowedCandidate
	}
	if err := l.bind(ctx); err != nil {
		l.Close()
		return nil, fmt.Errorf("take a port: %w", err)
	}
	views, err := l.reflect(ctx, c.Reflectors)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else {
		l.place(views)
		l.offer(c, views)
		if len(l.candidates) > 0 {
			return l, nil
		}
	}
	l.Close()
	if err == nil {
		err = ErrNoCandidates
	}
	return nil, fmt.Errorf("gather: %w", err)
}

// Candidates are the candidates for the Peer, at most MaxCandidates.
func (l *Local) Candidates() []Candidate { return append([]Candidate(nil), l.candidates...) }

// OneWay is half the least round trip to a reflector, 0 when none answered. Connect takes
// the sum of both sides' values.
func (l *Local) OneWay() time.Duration { return l.oneWay }

// Connect makes one connection with the Peer that offered remote, and returns it when
// both ends are agreed, or the connection is to the Peer's listener. The controlling side
// decides; exactly one of the two must be it. oneWay estimates the one-way delay between
// the two hosts; the sum of both sides' OneWay is a fair estimate and errs on the safe
// side.
//
// The controlling side sends its first SYN oneWay and a margin after the call. This
// timing is right when both call at about the same time. A controlling side that calls
// after the other's begin gives 0. If its own message makes the other begin, it adds the
// time of that message. A wrong estimate costs no connection; [CheckRTT] repairs its
// effect.
//
// Connect takes at most connectTime; one can run at a time. Errors wrap ErrNoConnection,
// ErrNoCandidates, ErrCandidateForbidden, ErrBusy, ErrClosed or the cause of ctx's end.
// The connection outlives ctx and l.
func (l *Local) Connect(ctx context.Context, remote []Candidate, controlling bool, oneWay time.Duration) (*Conn, error) {
	targets, err := l.network.usable(remote, l.allow, l.log)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := l.begin(cancel); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer l.end()
	begin := time.Now()
	r := newRace(l, targets, newTiming(controlling, oneWay))
	conn, err := r.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to %d candidates: %w", len(targets), err)
	}
	l.log.Debug("direct tcp connection made", "path", string(conn.kind), "how", string(conn.how),
		"remote", conn.Remote(), "took", time.Since(begin))
	return conn, nil
}

func (l *Local) begin(cancel context.CancelCauseFunc) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return ErrClosed
	case l.cancel != nil:
		return ErrBusy
	}
	l.cancel = cancel
	l.wg.Add(1)
	return nil
}

func (l *Local) end() {
	l.mu.Lock()
	l.cancel = nil
	l.mu.Unlock()
	l.wg.Done()
}

// Close ends a running Connect, waits for it and releases the port. Returned connections
// stay open. It may be called more than once.
func (l *Local) Close() error {
	l.mu.Lock()
	l.closed = true
	if l.cancel != nil {
		l.cancel(ErrClosed)
	}
	l.mu.Unlock()
	l.wg.Wait()
	for _, ln := range l.listeners {
		ln.Close()
	}
	for _, c := range l.reflectors {
		c.Close()
	}
	return nil
}
