package scale

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"time"

	"cadre.dev/figures"
	"cadre.dev/lab/worker"

	"cadre.dev/bench/internal/fleet"
)

// Options of a run.
type Options struct {
	// Sizes are numbers of agents, growing.
	Sizes []int
	// Window is how long an idle cluster is observed.
	Window time.Duration
	// Fleets is how many processes play agents.
	Fleets int
	// Only measures the parts that match; nil: all. Their names are idle, storm, orders,
	// large, takeovers.
	Only *regexp.Regexp
	// OnlyCoordinators opens no Sessions between members, for any content of their peer maps.
	OnlyCoordinators bool
	// Orders is how many groups roll, one each OrderEvery.
	Orders     int
	OrderEvery time.Duration
	// GrowLimit bounds the growth to each size, StormLimit is after how long an agent that
	// is not whole is lost.
	GrowLimit, StormLimit time.Duration
	// Large is how many agents one more group has, once the sizes were measured; 0: there is none.
	Large int
	// StormAt is the size at which there is one.
	StormAt int
	// Consul is the program.
	Consul string
	// Log takes the processes' output, Progress the steps of the run, the folder Profile the CPU
	// profiles of the leader and its Consul server, growing and idle; empty: none.
	Log      *os.File
	Progress io.Writer
	Profile  string
}

// Roles are the roles of the benchmark's processes.
func Roles() map[string]worker.Role {
	return map[string]worker.Role{coordinatorName: runCoordinator, outsideName: outside, fleet.Name: fleet.Role}
}

func (o Options) wants(part string) bool { return o.Only == nil || o.Only.MatchString(part) }

// Run measures everything. The error lists failures; the other figures are valid.
func Run(ctx context.Context, options Options) (figures.Result, error) {
	r := &results{}
	if !options.wants("large") {
		options.Large = 0
	}
	c, err := newCluster(ctx, options)
	if err == nil {
		err = c.measure(ctx, r)
	}
	return r.report(), errors.Join(err, c.end(), errors.Join(r.failed...))
}

func (c *cluster) measure(ctx context.Context, r *results) error {
	leader, _, err := c.ready(ctx, time.Minute)
	if err != nil {
		return err
	}
	if err := c.coordinators[leader].Call(ctx, "memory", nothing{}, &r.empty); err != nil {
		return err
	}
	c.say("coordinator-%d leads; with no agents its memory is %d MiB", leader, r.empty.RSS>>20)
	grown := true
	for _, size := range c.options.Sizes {
		if err := c.size(ctx, size, r); err != nil {
			// Larger sizes stay unmeasured, and their specs would wait for the open rollouts.
			r.fail("%d agents, and all figures of that size and of larger ones: %w", size, err)
			grown = false
			break
		}
	}
	if c.options.wants("orders") && grown {
		if r.orders, err = c.orders(ctx); err != nil {
			r.fail("spec_to_order_ms_p99_%d: %w", c.options.Sizes[len(c.options.Sizes)-1], err)
			r.orders = nil
		}
		r.ordersAt = c.options.Sizes[len(c.options.Sizes)-1]
	}
	if c.options.wants("large") && grown && c.options.Large > 0 {
		if err := c.growLarge(ctx, r); err != nil {
			r.fail("one group of %d: %w", c.options.Large, err)
		}
	}
	if c.options.wants("takeovers") {
		c.takeovers(ctx, func(name string, seconds float64, err error) {
			if err != nil {
				r.fail("%s: %w", name, err)
				return
			}
			r.takeovers = append(r.takeovers, takeover{name, seconds, c.slots()})
		})
	}
	return ctx.Err()
}

// size grows to one and measures it.
func (c *cluster) size(ctx context.Context, size int, r *results) error {
	took, err := c.grow(ctx, size)
	if err != nil {
		return err
	}
	c.say("  %d slots after %.1f s", c.slots(), took.Seconds())
	if err := c.settle(ctx); err != nil {
		return err
	}
	r.grown = append(r.grown, grown{size, took.Seconds()})
	if c.options.wants("idle") {
		one, err := c.idle(ctx)
		if err != nil {
			return err
		}
		last, err := c.states(ctx)
		if err != nil {
			return err
		}
		r.idles = append(r.idles, sized{size, one, last})
	}
	if c.options.wants("storm") && size == c.options.StormAt {
		s, err := c.storm(ctx)
		if err != nil {
			return err
		}
		r.storms = append(r.storms, s)
		r.stormAt = size
		return c.settle(ctx)
	}
	return nil
}
