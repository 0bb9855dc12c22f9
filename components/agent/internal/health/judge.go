package health

import (
	"time"

	"cadre.dev/core/rollout"
)

// Result is the newest judgement of one check.
type Result struct {
	Name    string
	Health  rollout.Health
	Message string
	// Since is when Health was entered.
	Since time.Time
	// Informative: reported only; the member's health does not depend on it.
	Informative bool
	// Pending: the check was added while the member was healthy, and has no verdict yet. The
	// member's health does not depend on it, and the change that added it is not proved yet.
	Pending bool
}

// outcome of one probe. The zero value passes.
type outcome struct {
	kind verdict
	// text is the reason of a failure, and nothing else.
	text string
}

type verdict int

const (
	passes verdict = iota
	fails
	// unsure: the probe got no usable verdict.
	unsure
)

func failing(text string) outcome { return outcome{fails, text} }

// row is how many outcomes came one after the other, and since when.
type row struct {
	count int
	since time.Time
}

func (r *row) add(at time.Time) {
	if r.count == 0 {
		r.since = at
	}
	r.count++
}

// judge turns probe outcomes into a three-valued judgement. Probes may come
// faster than the interval while the check is not healthy, so that a rejoin is
// seen at once; bad news is still judged on the spec's own time scale: it takes
// the threshold's count and the time that it would take at the interval.
type judge struct {
	healthyAfter, unhealthyAfter int
	interval                     time.Duration

	result Result
	good   int
	// failed are failures without anything between, missed all that did not pass.
	failed, missed row
}

// add takes one outcome. It reports whether any field except the time changed. Failures make the
// check unhealthy. Unknown outcomes end health after the same time, and change nothing else: an
// unhealthy check stays unhealthy until it passes.
func (j *judge) add(o outcome, at time.Time) bool {
	before := j.result
	j.result.Message = o.text
	if o.kind == passes {
		j.good, j.failed, j.missed = j.good+1, row{}, row{}
		if j.good >= j.healthyAfter {
			j.enter(rollout.Healthy, at)
		}
		return j.result != before
	}
	j.good = 0
	j.missed.add(at)
	if o.kind == fails {
		j.failed.add(at)
	} else {
		j.failed = row{}
	}
	switch {
	case j.lasts(j.failed, at):
		j.enter(rollout.Unhealthy, at)
	case j.lasts(j.missed, at) && j.result.Health == rollout.Healthy:
		j.enter(rollout.Unknown, at)
	}
	return j.result != before
}

// lasts: r is as long as it takes at the spec's interval and threshold.
func (j *judge) lasts(r row, at time.Time) bool {
	return r.count >= j.unhealthyAfter && !at.Before(r.since.Add(time.Duration(j.unhealthyAfter-1)*j.interval))
}

func (j *judge) enter(h rollout.Health, at time.Time) {
	j.result.enter(h, at)
}

// enter is a verdict, unless h is Unknown.
func (r *Result) enter(h rollout.Health, at time.Time) {
	if r.Health != h {
		r.Health, r.Since = h, at
	}
	r.Pending = r.Pending && h == rollout.Unknown
}

// pause returns the time until the next probe, after a probe that took took.
func (j *judge) pause(took time.Duration) time.Duration {
	const (
		// A returned Slot waits for this: the rollout cannot continue earlier.
		eager = 100 * time.Millisecond
		// rests is the factor of the pause after a slow failed probe: otherwise a command that runs
		// for a second would run all the time, next to a workload that is unhealthy already.
		rests = 9
	)
	if j.missed.count == 0 {
		if j.result.Health == rollout.Healthy {
			return j.interval
		}
		return min(j.interval, eager)
	}
	most := j.interval
	if j.result.Health != rollout.Unhealthy {
		most -= took // its verdict comes when it would at the interval
	}
	return max(eager, min(most, rests*took))
}
