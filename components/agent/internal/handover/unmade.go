package handover

import (
	"context"
	"errors"
	"sync"
	"time"

	"cadre.dev/agent/internal/pooler"
)

// unmade is a route whose pauser could not be made. run makes the pauser and then delegates to it.
// Until that succeeds, the route's address is closed and run returns the reason.
type unmade struct {
	make func(Route) (pauser, error)

	mu    sync.Mutex
	route Route  // guarded by mu
	made  pauser // guarded by mu; nil: not yet
}

var errUnmade = errors.New("the route is not served")

func (n *unmade) pauser() pauser {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.made
}

func (n *unmade) run(ctx context.Context) error {
	n.mu.Lock()
	if n.made == nil {
		made, err := n.make(n.route)
		if err != nil {
			n.mu.Unlock()
			return err
		}
		n.made = made
	}
	made := n.made
	n.mu.Unlock()
	return made.run(ctx)
}

func (n *unmade) pause(ctx context.Context, limit time.Duration) error {
	if made := n.pauser(); made != nil {
		return made.pause(ctx, limit)
	}
	return errUnmade
}

func (n *unmade) open(ctx context.Context) (int, error) {
	if made := n.pauser(); made != nil {
		return made.open(ctx)
	}
	return 0, nil
}

func (n *unmade) reconnect(ctx context.Context) error {
	if made := n.pauser(); made != nil {
		return made.reconnect(ctx)
	}
	return nil // it has no servers
}

// configure also schedules the next try: the change may remove the cause of the failure.
func (n *unmade) configure(r Route) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.made != nil {
		return n.made.configure(r)
	}
	n.route = r
	return nil
}

func (n *unmade) end() error {
	if made := n.pauser(); made != nil {
		return made.end()
	}
	return nil
}

func (n *unmade) stats(to *Stats) {
	made := n.pauser()
	switch {
	case made != nil:
		made.stats(to)
	case n.now().Pooler != "":
		to.Pooler = &pooler.Stats{} // which is not up
	}
}

func (n *unmade) now() Route {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.route
}
