package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"cadre.dev/bench/internal/fleet"
	"cadre.dev/bench/internal/world"
	"cadre.dev/lab/worker"
)

// perGroup is how many Slots a group has.
const perGroup = 3

// grow applies groups until there are at least n Slots, and waits until every agent has its
// Sessions with the coordinators and its desired state.
func (c *cluster) grow(ctx context.Context, n int) (took time.Duration, err error) {
	began := time.Now()
	want := (n + perGroup - 1) / perGroup
	c.say("growing from %d to %d groups of %d", c.groups, want, perGroup)
	o, err := c.operator(0)
	if err != nil {
		return 0, err
	}
	defer o.close()
	from := c.groups
	watched, err := c.watchGrowth(ctx, want*perGroup)
	if err != nil {
		return 0, err
	}
	defer watched()
	if err := world.Each(8, want-from, func(i int) error {
		name := groupName(from + i)
		spec, err := specOf(name, perGroup, "one")
		if err != nil {
			return err
		}
		return o.apply(ctx, name, spec)
	}); err != nil {
		return 0, err
	}
	c.groups = want
	_, err = c.whole(ctx, c.options.GrowLimit)
	return time.Since(began), err
}

// growthProfile is how long each look at the growing leader takes.
const growthProfile = 20

// watchGrowth records the cost of the growth to so many Slots, until its result is called, which
// returns the cost. It takes a profile now and then, where profiles are wanted.
func (c *cluster) watchGrowth(ctx context.Context, to int) (end func(), err error) {
	leader, _, err := c.ready(ctx, time.Minute)
	if err != nil {
		return nil, err
	}
	before, err := c.usage(ctx, leader)
	if err != nil {
		return nil, err
	}
	own, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for n := 1; c.options.Profile != "" && own.Err() == nil; n++ {
			path := filepath.Join(c.options.Profile, fmt.Sprintf("growing-to-%d-%02d", to, n))
			if err := c.coordinators[leader].Call(ctx, "profile", profile{Path: path, Seconds: growthProfile}, nil); err != nil {
				c.say("  not profiled: %v", err)
				return
			}
		}
	})
	return func() {
		if after, err := c.usage(ctx, leader); err == nil {
			c.say("  growing took, in cores: %v", spent(before, after, leader))
		}
		stop()
		watching.Wait() // there is one profile of a process at a time
	}, nil
}

// spent is the use between two moments.
func spent(before, after usage, leader int) (out costs) {
	took := after.at.Sub(before.at).Seconds()
	cores := func(a, b time.Duration) float64 { return (b - a).Seconds() / took }
	out = costs{
		Leader: cores(before.of[leader], after.of[leader]), Consul: cores(before.consul, after.consul), Agents: cores(before.agents, after.agents),
		Busy: (after.busy - before.busy) / max(after.all-before.all, 1), Writes: float64(after.applied-before.applied) / took,
	}
	for n := range replicas {
		if n != leader {
			out.Followers += cores(before.of[n], after.of[n]) / (replicas - 1)
		}
	}
	return out
}

func (c *cluster) slots() int { return c.groups*perGroup + c.large }

// growLarge adds the large group and measures the cluster with it.
func (c *cluster) growLarge(ctx context.Context, r *results) error {
	began := time.Now()
	c.say("growing by one group of %d", c.options.Large)
	o, err := c.operator(0)
	if err != nil {
		return err
	}
	defer o.close()
	spec, err := specOf(largeGroup, c.options.Large, "one")
	if err != nil {
		return err
	}
	watched, err := c.watchGrowth(ctx, c.slots()+c.options.Large)
	if err != nil {
		return err
	}
	defer watched()
	if err := o.apply(ctx, largeGroup, spec); err != nil {
		return err
	}
	c.large = c.options.Large
	if _, err := c.whole(ctx, c.options.GrowLimit); err != nil {
		return err
	}
	r.large.grown = time.Since(began).Seconds()
	c.say("  %d slots after %.1f s", c.slots(), r.large.grown)
	if err := c.settle(ctx); err != nil {
		return err
	}
	if r.large.idle, err = c.idle(ctx); err != nil {
		return err
	}
	r.large.at, err = c.states(ctx)
	return err
}

// counts are of all agents.
type counts struct {
	Admitted, Connected, Ordered, Whole int
	// MostSessions is the most that one member holds or its map asks for.
	MostSessions, MostMap int
	Errors                map[string]int
}

func (c *cluster) states(ctx context.Context) (out counts, err error) {
	out.Errors = map[string]int{}
	for _, p := range c.fleets {
		var all []fleet.State
		if err := p.Call(ctx, "states", fleet.Nothing{}, &all); err != nil {
			return out, err
		}
		for _, s := range all {
			if s.Err != "" {
				out.Errors[s.Err]++
			}
			is := func(yes bool, n *int) {
				if yes {
					*n++
				}
			}
			connected := s.Coordinators == replicas
			is(s.Admitted, &out.Admitted)
			is(connected, &out.Connected)
			is(s.Ordered, &out.Ordered)
			// Members of a small group keep Sessions among themselves.
			alone := c.options.OnlyCoordinators || strings.HasPrefix(s.Slot, largeGroup+"-")
			is(connected && s.Ordered && (alone || s.Members >= perGroup-1), &out.Whole)
			sessions := s.Coordinators + s.Members
			if c.options.OnlyCoordinators {
				sessions = s.Coordinators + s.Map // they are not opened, but asked for
			}
			out.MostSessions, out.MostMap = max(out.MostSessions, sessions), max(out.MostMap, s.Map)
		}
	}
	return out, nil
}

// whole waits until every agent is where it should be.
func (c *cluster) whole(ctx context.Context, within time.Duration) (last counts, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errors.New("not all agents came up in time"))
	defer cancel()
	told := time.Now()
	err = every(ctx, 250*time.Millisecond, func() (bool, error) {
		var err error
		if last, err = c.states(ctx); err != nil {
			return false, err
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			c.say("  of %d: admitted %d, connected %d, with desired state %d, whole %d; platform calls %d", c.slots(), last.Admitted, last.Connected, last.Ordered, last.Whole, c.cloud.Calls())
		}
		return last.Whole >= c.slots(), nil
	})
	if err != nil {
		err = fmt.Errorf("of %d agents admitted %d, connected %d, with desired state %d, whole %d: %w", c.slots(), last.Admitted, last.Connected, last.Ordered, last.Whole, err)
	}
	return last, err
}

// settle waits until Consul's log hardly grows, or for three looks in a row no less than
// before, two minutes at most.
func (c *cluster) settle(ctx context.Context) error {
	const step, looks = 5 * time.Second, 3
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var before raft
	last, still := -1.0, 0
	err := every(ctx, step, func() (bool, error) {
		var now raft
		if err := c.coordinators[0].Call(ctx, "raft", nothing{}, &now); err != nil {
			return false, err
		}
		rate := float64(now.Applied-before.Applied) / step.Seconds()
		if known := before.Applied > 0; known {
			if rate <= 1 || last >= 0 && rate > last*0.8 {
				still++
			} else {
				still = 0
			}
			last = rate
		}
		before = now
		return still == looks, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // it does not settle: the figures show it
	}
	return err
}

// costs are the costs of a span of time.
type costs struct {
	// Leader, Followers, Consul and Agents are cores: of the leader's process, the mean of the
	// others, of the leader's Consul server, of the processes that play agents.
	Leader, Followers, Consul, Agents float64
	// Busy is the share of the machine in use.
	Busy float64
	// Writes a second into Consul's log.
	Writes float64
}

func (c costs) String() string {
	return fmt.Sprintf("leader %.3f, followers %.3f, consul %.3f, agents %.2f; machine %.0f %% busy; %.1f writes/s", c.Leader, c.Followers, c.Consul, c.Agents, c.Busy*100, c.Writes)
}

// idle is the cost of a size without any events.
type idle struct {
	costs
	Slots int
	// Leader's memory, in bytes.
	Memory memory
}

type usage struct {
	at        time.Time
	of        [replicas]time.Duration
	consul    time.Duration
	agents    time.Duration
	busy, all float64
	applied   uint64
}

func (c *cluster) usage(ctx context.Context, leader int) (u usage, err error) {
	u.at = time.Now()
	for n, p := range c.coordinators {
		if u.of[n], err = p.CPU(); err != nil {
			return u, err
		}
	}
	children, err := childrenOf(c.coordinators[leader].PID())
	if err != nil {
		return u, err
	}
	for _, pid := range children {
		used, err := worker.CPUOf(pid)
		if err != nil {
			return u, err
		}
		u.consul += used
	}
	for _, p := range c.fleets {
		used, err := p.CPU()
		if err != nil {
			return u, err
		}
		u.agents += used
	}
	var r raft
	if err := c.coordinators[leader].Call(ctx, "raft", nothing{}, &r); err != nil {
		return u, err
	}
	u.applied = r.Applied
	u.busy, u.all, err = machineTime()
	return u, err
}

// idle measures over the window.
func (c *cluster) idle(ctx context.Context) (out idle, err error) {
	leader, _, err := c.ready(ctx, time.Minute)
	if err != nil {
		return out, err
	}
	before, err := c.usage(ctx, leader)
	if err != nil {
		return out, err
	}
	if c.options.Profile != "" {
		path := filepath.Join(c.options.Profile, fmt.Sprintf("leader-%d", c.slots()))
		err = c.coordinators[leader].Call(ctx, "profile", profile{Path: path, Seconds: int(c.options.Window.Seconds())}, nil)
	} else {
		select {
		case <-time.After(c.options.Window):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return out, err
	}
	after, err := c.usage(ctx, leader)
	if err != nil {
		return out, err
	}
	out = idle{costs: spent(before, after, leader), Slots: c.slots()}
	err = c.coordinators[leader].Call(ctx, "memory", nothing{}, &out.Memory)
	c.say("  idle with %d slots, in cores: %v; leader %.0f MiB, in use %.0f MiB", out.Slots, out.costs, float64(out.Memory.RSS)/(1<<20), float64(out.Memory.Live)/(1<<20))
	return out, err
}

// childrenOf are the processes that pid started.
func childrenOf(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		out = append(out, child)
	}
	return out, nil
}

// machineTime is the busy time and the total time of all CPUs, in ticks.
func machineTime() (busy, all float64, err error) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = file.Close() }()
	line, err := bufio.NewReader(file).ReadString('\n')
	if err != nil {
		return 0, 0, err
	}
	// user nice system idle iowait irq softirq steal
	for i, text := range strings.Fields(line)[1:9] {
		ticks, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, 0, err
		}
		all += ticks
		if i != 3 && i != 4 {
			busy += ticks
		}
	}
	return busy, all, nil
}
