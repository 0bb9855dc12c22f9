package handover

import (
	"context"
	"fmt"
	"time"

	"cadre.dev/agent/internal/connpause"
	"cadre.dev/agent/internal/pooler"
)

// pauser pauses the clients of one route. At most one of pause, open and reconnect runs at a
// time.
type pauser interface {
	// run serves the route's address until ctx ends.
	run(ctx context.Context) error
	// pause returns when clients wait, for limit at most, or have resumed; ctx's end undoes it.
	pause(ctx context.Context, limit time.Duration) error
	// open resumes the clients and returns how many waited. Without a pause it does nothing.
	open(ctx context.Context) (waited int, err error)
	// reconnect replaces existing server connections.
	reconnect(ctx context.Context) error
	// configure applies the settings that may change while the pauser runs.
	configure(r Route) error
	// end is for a route that is gone; run is over.
	end() error
	// stats fills in the pauser's own counters.
	stats(to *Stats)
}

func newPauser(r Route, cfg Config) (pauser, error) {
	if r.Pooler == "" {
		return unpooled{connpause.New(connpause.Config{
			Route: r.Name, Address: r.address().String(), Target: r.behind().String(), Listen: cfg.Listen, Log: cfg.Log,
		})}, nil
	}
	p, err := pooler.New(cfg.pooler(r))
	if err != nil {
		return nil, err
	}
	return pooled{p}, nil
}

// unpooled is a route without a pooler.
type unpooled struct{ *connpause.Pauser }

func (g unpooled) run(ctx context.Context) error { return g.Run(ctx) }

func (g unpooled) pause(_ context.Context, limit time.Duration) error {
	g.Pause(limit)
	return nil
}

func (g unpooled) open(context.Context) (int, error) { return g.Resume(), nil }
func (unpooled) reconnect(context.Context) error     { return nil }
func (unpooled) configure(Route) error               { return nil }
func (unpooled) end() error                          { return nil }

func (g unpooled) stats(to *Stats) {
	counters := g.Counters()
	to.Connections = &counters
}

// pooled is a route with one.
type pooled struct{ *pooler.Pooler }

func (p pooled) run(ctx context.Context) error { return p.Run(ctx) }

func (p pooled) pause(ctx context.Context, limit time.Duration) error { return p.Pause(ctx, limit) }

func (p pooled) open(ctx context.Context) (int, error) { return p.Resume(ctx) }
func (p pooled) reconnect(ctx context.Context) error   { return p.Reconnect(ctx) }
func (p pooled) configure(r Route) error               { return p.SetUsers(r.Users) }
func (p pooled) end() error                            { return p.End() }

func (p pooled) stats(to *Stats) {
	stats := p.Stats()
	to.Pooler = &stats
	if to.Problem == "" {
		to.Problem = stats.Problem
	}
}

// pooler returns the configuration of the Pooler for r.
func (cfg Config) pooler(r Route) pooler.Config {
	return pooler.Config{
		Route: r.Name, Dir: cfg.Dir, Address: r.address(), Target: r.behind(), Users: r.Users,
		Binary: cfg.Binary, UID: cfg.UID, GID: cfg.GID, Log: cfg.Log,
	}
}

// endOthers ends poolers of routes that are gone.
func (cfg Config) endOthers(keep []string) error {
	if err := pooler.EndOthers(cfg.pooler(Route{}), keep); err != nil {
		return fmt.Errorf("end poolers of routes that are gone: %w", err)
	}
	return nil
}
