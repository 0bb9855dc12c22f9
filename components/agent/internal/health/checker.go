package health

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"cadre.dev/agent/internal/latest"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// Checker runs all checks of a configuration. Safe for concurrent use.
type Checker struct {
	commands Commands
	told     Told
	log      *slog.Logger
	specs    latest.Value[[]group.HealthCheck]
	changes  latest.Value[struct{}]

	mu      sync.Mutex
	results []Result // guarded by mu; in the spec's order
}

// Commands runs exec checks in the containers of their services.
type Commands interface {
	Run(ctx context.Context, a group.ExecAction, env []string, limit time.Duration) error
}

// NewChecker has no checks yet.
func NewChecker(commands Commands, told Told, log *slog.Logger) *Checker {
	return &Checker{commands: commands, told: told, log: log}
}

// SetChecks replaces the checks; judgements begin anew unless nothing changed.
func (c *Checker) SetChecks(specs []group.HealthCheck) {
	if old, _ := c.specs.Get(); !reflect.DeepEqual(old, specs) {
		c.specs.Set(specs)
	}
}

// Results returns the newest judgements in the spec's order.
func (c *Checker) Results() []Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Result(nil), c.results...)
}

// Changes wakes whoever reports judgements.
func (c *Checker) Changes() *latest.Value[struct{}] { return &c.changes }

// Run checks until ctx ends.
func (c *Checker) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		specs, index := c.specs.Get()
		c.runChecks(ctx, specs, index)
	}
	return nil
}

// runChecks runs one goroutine per check until the configuration changes.
func (c *Checker) runChecks(ctx context.Context, specs []group.HealthCheck, index uint64) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	start := make([]Result, len(specs))
	now := time.Now().UTC()
	for i, spec := range specs {
		start[i] = Result{Name: spec.Name, Health: rollout.Unknown, Since: now}
	}
	c.mu.Lock()
	c.results = start
	c.mu.Unlock()
	c.changes.Set(struct{}{})
	for i, spec := range specs {
		if spec.TTL != nil {
			wg.Go(func() { c.runTold(ctx, i, spec, start[i]) })
			continue
		}
		wg.Go(func() { c.runOne(ctx, i, spec, start[i]) })
	}
	select {
	case <-c.specs.Changed(index):
	case <-ctx.Done():
	}
	cancel()
	wg.Wait()
}

func (c *Checker) runOne(ctx context.Context, at int, spec group.HealthCheck, start Result) {
	j := newJudge(spec, start)
	timeout := min(seconds(spec.TimeoutSec, 5), j.interval)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		probing, cancel := context.WithTimeout(ctx, timeout)
		seen := c.probe(probing, spec, timeout)
		cancel()
		if ctx.Err() != nil {
			return
		}
		before := j.result.Health
		if j.add(seen, time.Now().UTC()) {
			c.set(at, j.result)
		}
		if before != j.result.Health {
			c.log.Info("health check changed", "check", spec.Name, "health", j.result.Health, "reason", seen.text)
		}
		timer.Reset(j.pause())
	}
}

// set replaces a result and wakes whoever reports it.
func (c *Checker) set(at int, r Result) {
	c.mu.Lock()
	c.results[at] = r
	c.mu.Unlock()
	c.changes.Set(struct{}{})
}

func newJudge(spec group.HealthCheck, start Result) *judge {
	j := &judge{
		healthyAfter: spec.HealthyThreshold, unhealthyAfter: spec.UnhealthyThreshold,
		interval: seconds(spec.CheckIntervalSec, 10), result: start,
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
