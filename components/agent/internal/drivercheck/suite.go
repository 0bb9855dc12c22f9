package drivercheck

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/agent/internal/driver"
)

// Config is one run against one member.
type Config struct {
	Driver driver.Driver
	// Wire makes calls below the driver; nil: the driver is no adapter's.
	Wire Wire
	// Self is the member's Slot. Votes, Stops and Set are the settings voters, hand_over = "stop" and set;
	// Set is "" for a driver without settings.
	Self         string
	Votes, Stops bool
	Set          string
	// Transfer, Drain and Change permit the parts that change the workload: a hand-over, a drain, and a
	// change of the set by this name of a Slot that the set does not list.
	Transfer, Drain bool
	Change          string
	// Candidates of the hand-over; empty: the other members that the answer names.
	Candidates []string
}

// Outcomes of a check.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped"
)

// Result is the outcome of one check.
type Result struct {
	Check   string `json:"check"`
	Outcome string `json:"outcome"`
	// Text is the fault of a failed check, the reason of a skipped one, or a fact about a passed one.
	Text string `json:"text,omitempty"`
	// Expected and Fix explain a failure.
	Expected string `json:"expected,omitempty"`
	Fix      string `json:"fix,omitempty"`
}

// limit bounds each check; the driver's own bounds are shorter, except those of a drain. patience is the
// time until a change shows in an answer.
const limit, patience = 2 * time.Minute, 30 * time.Second

// suite is one run.
type suite struct {
	Config

	// first is the first sound view.
	first driver.View
	// peers are the candidates of a hand-over.
	peers []string
}

// check is one promise. run returns a fact for people, or the fault.
type check struct {
	name, expected, fix string
	// skip is why the check does not apply; nil: it always applies.
	skip func(*suite) string
	run  func(ctx context.Context, s *suite) (string, error)
}

// Run makes every check in turn and reports each result as soon as it is there. It ends early with ctx,
// and after a member without a sound first answer: the other checks would only repeat that fault.
func Run(ctx context.Context, cfg Config, report func(Result)) (failed int) {
	s := &suite{Config: cfg}
	for i, c := range slices.Concat(looks(), refusals(), changes(), transfers(), drains()) {
		if ctx.Err() != nil {
			return failed + 1
		}
		if c.skip != nil {
			if why := c.skip(s); why != "" {
				report(Result{Check: c.name, Outcome: Skipped, Text: why})
				continue
			}
		}
		one, cancel := context.WithTimeout(ctx, limit)
		fact, err := c.run(one, s)
		cancel()
		if err == nil {
			report(Result{Check: c.name, Outcome: Passed, Text: fact})
			continue
		}
		failed++
		report(Result{Check: c.name, Outcome: Failed, Text: err.Error(), Expected: c.expected, Fix: c.fix})
		if i == 0 {
			break
		}
	}
	return failed
}

// absent is a Slot's name that the group does not have.
func (s *suite) absent() string { return s.Self[:strings.LastIndexByte(s.Self, '-')+1] + "1999" }

// observe returns a view of which something is known.
func (s *suite) observe(ctx context.Context) (driver.View, error) {
	v, err := s.Driver.Observe(ctx)
	switch {
	case err != nil:
		return v, err
	case v.Liveness == driver.LivenessUnknown && v.Role == driver.RoleUnknown:
		return v, fmt.Errorf("nothing is known of the member: %s", v.Message)
	}
	return v, nil
}

// now observes once: a call that returned has had its effect.
func (s *suite) now(ctx context.Context, what string, ok func(driver.View) bool) error {
	v, err := s.observe(ctx)
	if err == nil && ok(v) {
		return nil
	}
	return fmt.Errorf("%s: gone; the answer after the call: %s", what, text(v, err))
}

// await observes until ok.
func (s *suite) await(ctx context.Context, what string, ok func(driver.View) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := s.observe(ctx)
		if err == nil && ok(v) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s did not come within %s; the last answer: %s", what, patience, text(v, err))
		}
	}
}

func text(v driver.View, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("role %s, leader %q, epoch %d, ready %t, voters %q, learners %q, message %q", v.Role, v.Leader, v.Epoch, v.Ready, v.Voters, v.Learners, v.Message)
}
