package contest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"cadre.dev/bench/internal/agents"
	"cadre.dev/bench/internal/world"
	"cadre.dev/coordinator/coordinatortest"
)

const (
	// loaded admissions are made parallel at once, then single ones one by one.
	loaded, parallel, singles = 400, 16, 150
	// renewing Boots renew renewals times each, after warm renewals that are not counted:
	// from then on each renewal revokes the oldest of the pairs that a Boot may keep.
	renewing, warm, renewals = 200, 4, 12
	// pace, from an answer to the next renewal of the same Slot, is just above the least
	// time between two that a coordinator allows.
	pace = 505 * time.Millisecond
)

// first admits every Slot's first Boot ever, which makes ACL policies too.
func (l *lab) first(ctx context.Context, r *results) (err error) {
	c, err := l.start(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	l.say("the first admission of each")
	r.first, err = l.admitAll(ctx, c, l.agents)
	return err
}

// admitAll restarts all and admits them, parallel at once.
func (l *lab) admitAll(ctx context.Context, c *coordinators, all []*agents.Agent) (used, error) {
	for _, a := range all {
		if err := a.Restart(); err != nil {
			return used{}, err
		}
	}
	return l.during(c, func() error {
		return world.Each(parallel, len(all), func(i int) error {
			judge := l.judge
			if i > 0 {
				judge = nil
			}
			return all[i].Admit(ctx, c.addresses[0], judge)
		})
	})
}

// oneCoordinator measures admissions and renewals at a coordinator of its own process.
func (l *lab) oneCoordinator(ctx context.Context, r *results) (err error) {
	c, err := l.start(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	order := slices.Clone(l.agents)
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	many := order[:min(loaded, len(order)/2)]
	rest := order[len(many):min(len(order), len(many)+singles)]
	under, err := l.admitAll(ctx, c, many)
	if err != nil {
		return err
	}
	r.under, r.underCount = append(r.under, under), len(many)
	l.say("  %d admissions at %d/s, %.1f ms of CPU each", len(many), int(float64(len(many))/under.wall.Seconds()), ms(under.ours)/float64(len(many)))

	var each []float64
	var total used
	for _, a := range rest {
		if err := a.Restart(); err != nil {
			return err
		}
		one, err := l.during(c, func() error { return a.Admit(ctx, c.addresses[0], nil) })
		if err != nil {
			return err
		}
		each = append(each, ms(one.ours))
		total.ours, total.consul, total.wall = total.ours+one.ours, total.consul+one.consul, total.wall+one.wall
	}
	slices.Sort(each)
	r.single, r.singleTotal, r.singleCount = append(r.single, each), append(r.singleTotal, total), len(each)
	l.say("  one by one: %.1f ms of CPU at the median", percentile(each, 50))
	// Those were admitted last: their leases live still.
	return l.renewals(ctx, c, r, append(slices.Clone(rest), many[max(0, len(many)-renewing+len(rest)):]...))
}

// renewals measures them over real control sessions.
func (l *lab) renewals(ctx context.Context, c *coordinators, r *results, all []*agents.Agent) error {
	all = all[:min(renewing, len(all))]
	sessions := make([]*agents.Session, len(all))
	defer func() {
		var closing sync.WaitGroup
		for _, s := range sessions {
			if s != nil {
				closing.Go(s.Close)
			}
		}
		closing.Wait()
	}()
	for i, a := range all {
		var err error
		if sessions[i], err = a.Open(ctx, c.addresses[0]); err != nil {
			return err
		}
	}
	limit, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the control sessions did not come up"))
	defer cancel()
	if err := c.Call(limit, "await", coordinatortest.Await{Sessions: len(sessions)}, nil); err != nil {
		return err
	}
	// Each waits for its turn again once it is through; parallel at once ask.
	answered := make([]time.Time, len(sessions))
	own := make([]sync.Mutex, len(sessions))
	round := func(times int) error {
		return world.Each(parallel, times*len(sessions), func(n int) error {
			i := n % len(sessions)
			own[i].Lock()
			defer own[i].Unlock()
			defer func() { answered[i] = time.Now() }()
			select {
			case <-time.After(time.Until(answered[i].Add(pace))):
				return sessions[i].Renew(ctx)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	if err := round(warm); err != nil {
		return fmt.Errorf("renewals that are not counted: %w", err)
	}
	spent, err := l.during(c, func() error { return round(renewals) })
	if err != nil {
		return err
	}
	r.renewals, r.renewalCount = append(r.renewals, spent), renewals*len(sessions)
	l.say("  %d renewals at %d/s, %.2f ms of CPU each", r.renewalCount, int(float64(r.renewalCount)/spent.wall.Seconds()), ms(spent.ours)/float64(r.renewalCount))
	return nil
}

// percentile of sorted values.
func percentile(sorted []float64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
