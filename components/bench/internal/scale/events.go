package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"cadre.dev/bench/internal/fleet"
)

// storm is a restart of all agents at once.
type storm struct {
	Took float64 // seconds
	Lost int
	Told map[string]int
}

// storm ends every Boot at once, as a crash does, and waits until all agents are whole.
func (c *cluster) storm(ctx context.Context) (s storm, err error) {
	c.say("storm: %d agents restart at once", c.slots())
	began := time.Now()
	for _, p := range c.fleets {
		if err := p.Call(ctx, "restart", fleet.Nothing{}, nil); err != nil {
			return s, err
		}
	}
	last, err := c.whole(ctx, c.options.StormLimit)
	s.Took, s.Lost, s.Told = time.Since(began).Seconds(), max(0, c.slots()-last.Whole), map[string]int{}
	if ctx.Err() != nil {
		return s, context.Cause(ctx)
	}
	if err != nil {
		c.say("  %v", err)
	}
	for _, p := range c.fleets {
		var told map[string]int
		if err := p.Call(ctx, "refusals", fleet.Nothing{}, &told); err != nil {
			return s, err
		}
		for code, n := range told {
			s.Told[code] += n
		}
	}
	c.say("  %.1f s, lost %d; asked to retry since the start: %v", s.Took, s.Lost, s.Told)
	return s, nil
}

// orders measures, in ms, from an operator's spec to the first order that a member of the
// group got, for so many groups in random order, some time apart.
func (c *cluster) orders(ctx context.Context) ([]float64, error) {
	n := min(c.options.Orders, c.groups)
	c.say("orders: %d of %d groups roll, one every %v", n, c.groups, c.options.OrderEvery)
	leader, _, err := c.ready(ctx, time.Minute)
	if err != nil {
		return nil, err
	}
	o, err := c.operator(leader)
	if err != nil {
		return nil, err
	}
	defer o.close()
	began, asked := time.Now(), map[string]time.Time{}
	tick := time.NewTicker(c.options.OrderEvery)
	defer tick.Stop()
	for _, i := range rand.Perm(c.groups)[:n] {
		name := groupName(i)
		spec, err := specOf(name, perGroup, "two")
		if err != nil {
			return nil, err
		}
		asked[name] = time.Now()
		if err := o.apply(ctx, name, spec); err != nil {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	firsts := map[string]time.Time{}
	wait, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not every spec led to an order in a minute"))
	defer cancel()
	err = every(wait, 500*time.Millisecond, func() (bool, error) {
		for _, p := range c.fleets {
			var all []fleet.Order
			if err := p.Call(wait, "orders", began, &all); err != nil {
				return false, err
			}
			for _, one := range all {
				if at, ok := firsts[one.Group]; !ok || one.At.Before(at) {
					firsts[one.Group] = one.At
				}
			}
		}
		return len(firsts) >= n, nil
	})
	var out []float64
	for name, at := range firsts {
		if t, ok := asked[name]; ok {
			out = append(out, float64(at.Sub(t).Microseconds())/1e3)
		}
	}
	slices.Sort(out)
	if err != nil {
		return out, fmt.Errorf("%d of %d groups got an order: %w", len(firsts), n, err)
	}
	c.say("  spec to order: half in %.0f ms, 99 %% in %.0f ms, all in %.0f ms", percentile(out, 50), percentile(out, 99), out[len(out)-1])
	return out, nil
}

// percentile of sorted values.
func percentile(sorted []float64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// takeover ends the leader by end and measures until another Term has a leader, according to the
// remaining coordinators.
func (c *cluster) takeover(ctx context.Context, kind string, end func(leader int) error) (float64, error) {
	// Groups that still roll, and agents that return to a lost coordinator, take the whole CPU of a
	// small machine.
	if _, err := c.whole(ctx, c.options.GrowLimit); err != nil {
		return 0, err
	}
	if err := c.settle(ctx); err != nil {
		return 0, err
	}
	leader, term, err := c.ready(ctx, 2*time.Minute)
	if err != nil {
		return 0, err
	}
	c.say("takeover, %s: coordinator-%d leads in term %d", kind, leader, term)
	began, failed := time.Now(), make(chan error, 1)
	go func() { failed <- end(leader) }()
	limit, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("no coordinator led within two minutes"))
	defer cancel()
	var took time.Duration
	err = every(limit, 20*time.Millisecond, func() (bool, error) {
		for n := range replicas {
			if n == leader {
				continue
			}
			if h := c.health(limit, n); h.Leader != "" && h.Term > term {
				took = time.Since(began)
				return true, nil
			}
		}
		return false, nil
	})
	if err = errors.Join(err, <-failed); err != nil {
		return 0, fmt.Errorf("%s: %w", kind, err)
	}
	c.say("  %.2f s", took.Seconds())
	return took.Seconds(), nil
}

// takeovers are the three ends of a leader, by name.
func (c *cluster) takeovers(ctx context.Context, found func(name string, seconds float64, err error)) {
	again := func(n int) error { return c.startCoordinator(ctx, n) }
	took, err := c.takeover(ctx, "a clean stop", func(n int) error { return errors.Join(c.coordinators[n].Stop(), again(n)) })
	found("leader_takeover_clean_s", took, err)
	// The container's runtime starts it again at once.
	took, err = c.takeover(ctx, "the process crashes", func(n int) error { c.coordinators[n].Kill(); return again(n) })
	found("leader_takeover_process_crash_s", took, err)
	took, err = c.takeover(ctx, "the CVM is lost", func(n int) error { return c.lab.Remove(fmt.Sprintf("coordinator-%d", n)) })
	found("leader_takeover_cvm_lost_s", took, err)
}
