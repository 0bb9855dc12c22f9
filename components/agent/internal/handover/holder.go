package handover

import (
	"context"
	"fmt"
	"time"

	"cadre.dev/agent/internal/connpause"
	"cadre.dev/agent/internal/pooler"
)

// holder has the clients of one route wait. At most one of hold, open and reconnect is under
// way.
type holder interface {
	// run serves the route's address until ctx ends.
	run(ctx context.Context) error
	// hold returns when clients wait, for limit at most, or go on again; ctx's end undoes it.
	hold(ctx context.Context, limit time.Duration) error
	// open lets clients go on, and says how many waited. Without a hold it does nothing.
	open(ctx context.Context) (waited int, err error)
	// reconnect has servers that stand replaced.
	reconnect(ctx context.Context) error
	// configure applies the settings that may change while the holder runs.
	configure(r Route) error
	// end is for a route that is gone; run is over.
	end() error
	// stats fills in the holder's own counters.
	stats(to *Stats)
}

func newHolder(r Route, cfg Config) (holder, error) {
	if r.Pooler == "" {
		return gated{connpause.New(connpause.Config{
			Route: r.Name, Address: r.address().String(), Target: r.behind().String(), Listen: cfg.Listen, Log: cfg.Log,
		})}, nil
	}
	p, err := pooler.New(cfg.pooler(r))
	if err != nil {
		return nil, err
	}
	return pooled{p}, nil
}

// gated is a route without a pooler.
type gated struct{ *connpause.Gate }

func (g gated) run(ctx context.Context) error { return g.Run(ctx) }

func (g gated) hold(_ context.Context, limit time.Duration) error {
	g.Hold(limit)
	return nil
}

func (g gated) open(context.Context) (int, error) { return g.Release(), nil }
func (gated) reconnect(context.Context) error     { return nil }
func (gated) configure(Route) error               { return nil }
func (gated) end() error                          { return nil }

func (g gated) stats(to *Stats) {
	counters := g.Counters()
	to.Gate = &counters
}

// pooled is a route with one.
type pooled struct{ *pooler.Pooler }

func (p pooled) run(ctx context.Context) error { return p.Run(ctx) }

func (p pooled) hold(ctx context.Context, limit time.Duration) error { return p.Pause(ctx, limit) }

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
