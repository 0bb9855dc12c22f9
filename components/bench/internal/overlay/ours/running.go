package ours

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"cadre.dev/overlay"
)

// running is a node at work.
type running struct {
	node    *overlay.Node
	address string // where it listens
	stop    context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	ended   error // why Run returned; guarded by mu
}

// poll is the interval for a condition without a signal.
const poll = time.Millisecond

// run starts a node and returns once it listens. onControl may be nil.
func run(ctx context.Context, n Node, onControl func(context.Context, overlay.Peer, overlay.ControlConns)) (*running, error) {
	level := slog.LevelWarn
	if n.Debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	config, err := build(n, log.With("self", n.ID))
	if err != nil {
		return nil, err
	}
	config.OnControl = onControl
	creds, err := credentials(n)
	if err != nil {
		return nil, err
	}
	known, err := peers(n.Peers)
	if err != nil {
		return nil, err
	}
	node, err := overlay.New(config)
	if err != nil {
		return nil, err
	}
	node.SetCredentials(creds)
	node.SetPeers(known)
	ctx, cancel := context.WithCancel(ctx)
	r := &running{node: node, stop: cancel}
	r.wg.Go(func() {
		err := node.Run(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = err
		cancel()
	})
	err = until(ctx, func() bool { return node.ListenAddr() != nil })
	if err != nil {
		r.close()
		r.mu.Lock()
		defer r.mu.Unlock()
		return nil, fmt.Errorf("start node: %w", orElse(r.ended, err))
	}
	r.address = node.ListenAddr().String()
	return r, nil
}

func orElse(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func (r *running) close() {
	r.stop()
	r.wg.Wait()
}

// sessions describes every Link.
func (r *running) sessions() []Session {
	var all []Session
	for _, s := range r.node.Sessions() {
		one := Session{Peer: s.Peer.String(), Up: s.State == overlay.SessionUp, State: string(s.State), Error: s.LastError}
		if one.Up {
			one.Over = over(s)
		}
		all = append(all, one)
	}
	return all
}

// await waits until every Peer has a Session over one of the carriers; none
// given means any.
func (r *running) await(ctx context.Context, carriers []Carrier) error {
	var last []Session
	err := until(ctx, func() bool {
		last = r.sessions()
		for _, s := range last {
			if !s.Up || !allowed(s.Over, carriers) {
				return false
			}
		}
		return true
	})
	if err != nil {
		for _, s := range last {
			if !s.Up || !allowed(s.Over, carriers) {
				return fmt.Errorf("no session with %s (state %s, over %q, last error %q): %w", s.Peer, s.State, s.Over, s.Error, err)
			}
		}
	}
	return err
}

func allowed(c Carrier, carriers []Carrier) bool {
	for _, a := range carriers {
		if c == a {
			return true
		}
	}
	return len(carriers) == 0
}

// until polls cond until it holds or ctx ends.
func until(ctx context.Context, cond func() bool) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
