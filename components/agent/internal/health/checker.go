package health

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// Checker runs all checks of a configuration. Safe for concurrent use.
type Checker struct {
	commands Commands
	reports  Reports
	log      *slog.Logger
	changes  latestvalue.Value[struct{}]
	// set wakes Run: the checks are others.
	set latestvalue.Value[struct{}]

	mu     sync.Mutex
	checks []*check // guarded by mu; in the spec's order
}

// check is a check of the configuration in force. A changed spec replaces it.
type check struct {
	spec   group.HealthCheck
	result Result // guarded by Checker.mu
}

// Commands runs exec checks in the containers of their services.
type Commands interface {
	Run(ctx context.Context, a group.ExecAction, env []string, limit time.Duration) error
}

// NewChecker has no checks yet.
func NewChecker(commands Commands, reports Reports, log *slog.Logger) *Checker {
	return &Checker{commands: commands, reports: reports, log: log}
}

// SetChecks replaces the checks; when it returns, Results are those of the new checks. A check
// keeps its verdict if a check of the same name asked the same, at any interval. A new or changed
// check is Pending if no previous check counts against the member, so that a healthy member stays
// healthy until the first verdict. The first checks of a process count from the beginning.
func (c *Checker) SetChecks(specs []group.HealthCheck) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UTC()
	old, next := c.checks, make([]*check, len(specs))
	well := old != nil && !slices.ContainsFunc(old, func(o *check) bool { return o.result.Health != rollout.Healthy && !o.result.Pending })
	for i, spec := range specs {
		next[i] = &check{spec, Result{Name: spec.Name, Health: rollout.Unknown, Since: now, Pending: well}}
		at := slices.IndexFunc(old, func(o *check) bool { return o.spec.Name == spec.Name })
		switch {
		case at < 0:
		case reflect.DeepEqual(old[at].spec, spec):
			next[i] = old[at]
		case asksTheSame(old[at].spec, spec):
			next[i].result = old[at].result
		}
	}
	if old != nil && slices.Equal(old, next) {
		return
	}
	c.checks = next
	c.set.Set(struct{}{})
	c.changes.Set(struct{}{})
}

// asksTheSame reports that next differs from old, of the same name, at most in its times and
// thresholds, and gives the workload no less time: with less time a passed check might fail.
func asksTheSame(old, next group.HealthCheck) bool {
	return patience(next) >= patience(old) && reflect.DeepEqual(asked(old), asked(next))
}

// asked is the request of a check, without its times.
func asked(h group.HealthCheck) group.HealthCheck {
	h.CheckIntervalSec, h.TimeoutSec, h.HealthyThreshold, h.UnhealthyThreshold = 0, 0, 0, 0
	if h.TTL != nil {
		h.TTL = &group.TTLCheck{}
	}
	return h
}

// patience is how long a check waits for an answer, or for the workload's next report.
func patience(h group.HealthCheck) time.Duration {
	if h.TTL != nil {
		return seconds(h.TTL.TTLSec, 1)
	}
	return min(seconds(h.TimeoutSec, group.DefaultCheckTimeoutSec), interval(h))
}

// interval is how often a check asks.
func interval(h group.HealthCheck) time.Duration {
	return seconds(h.CheckIntervalSec, group.DefaultCheckIntervalSec)
}

// Results returns the newest judgements in the spec's order.
func (c *Checker) Results() []Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Result
	for _, one := range c.checks {
		out = append(out, one.result)
	}
	return out
}

// Changes wakes the reporter of judgements.
func (c *Checker) Changes() *latestvalue.Value[struct{}] { return &c.changes }

// Run checks until ctx ends: a goroutine for each check, for as long as it is in force.
func (c *Checker) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	running := map[*check]context.CancelFunc{}
	for {
		_, index := c.set.Get()
		now := c.inForce()
		for one, end := range running {
			if !slices.Contains(now, one) {
				end()
				delete(running, one)
			}
		}
		for _, one := range now {
			if running[one] != nil {
				continue
			}
			life, end := context.WithCancel(ctx)
			running[one] = end
			all.Go(func() { c.run(life, one) })
		}
		select {
		case <-c.set.Changed(index):
		case <-ctx.Done():
			for _, end := range running {
				end()
			}
			return nil
		}
	}
}

func (c *Checker) inForce() []*check {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checks
}

func (c *Checker) run(ctx context.Context, one *check) {
	if one.spec.TTL != nil {
		c.runReported(ctx, one)
		return
	}
	c.runAsked(ctx, one)
}

// runAsked judges by requests to the workload.
func (c *Checker) runAsked(ctx context.Context, one *check) {
	spec := one.spec
	j := newJudge(spec, c.resultOf(one))
	timeout := patience(spec)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		probing, cancel := context.WithTimeout(ctx, timeout)
		seen := c.probe(probing, spec, timeout)
		cancel()
		if ctx.Err() != nil {
			return
		}
		before := j.result.Health
		ended := time.Now()
		if j.add(seen, ended.UTC()) {
			c.put(one, j.result)
		}
		if before != j.result.Health {
			c.log.Info("health check changed", "check", spec.Name, "health", j.result.Health, "reason", seen.text)
		}
		timer.Reset(j.pause(ended.Sub(began)))
	}
}

func (c *Checker) resultOf(one *check) Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return one.result
}

// put replaces a result and wakes the reporter. The result of a replaced check is ignored: its
// successor has its own last judgement.
func (c *Checker) put(one *check, r Result) {
	c.mu.Lock()
	one.result = r
	c.mu.Unlock()
	c.changes.Set(struct{}{})
}

func newJudge(spec group.HealthCheck, start Result) *judge {
	j := &judge{
		healthyAfter: spec.HealthyThreshold, unhealthyAfter: spec.UnhealthyThreshold,
		interval: interval(spec), result: start,
	}
	if j.healthyAfter <= 0 {
		j.healthyAfter = 2
	}
	if j.unhealthyAfter <= 0 {
		j.unhealthyAfter = 3
	}
	return j
}

func seconds(n, fallback int) time.Duration {
	if n <= 0 {
		n = fallback
	}
	return time.Duration(n) * time.Second
}
