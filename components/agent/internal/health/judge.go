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
	// Informative: it is told, and the member's health does not go by it.
	Informative bool
	// Pending: it came while the Boot ran and the member was well, and has no verdict yet. The
	// member's health does not go by it, and what brought it is not proven.
	Pending bool
}

// outcome of one probe. The zero value passes.
type outcome struct {
	kind verdict
	// text says why it does not pass, and nothing else.
	text string
}

type verdict int

const (
	passes verdict = iota
	fails
	// unsure: whoever was asked does not know.
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

// add takes one outcome. It reports whether anything but the time changed. Failures make it
// unhealthy. What cannot be told ends health in the same time, and does not make well or ill:
// what was unhealthy stays so until it passes.
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

// pause until the next probe, after one that took some time.
func (j *judge) pause(took time.Duration) time.Duration {
	const (
		// A Slot that is back waits for this: the rollout can go on no sooner.
		eager = 100 * time.Millisecond
		// rests is how much longer than a probe that did not pass is waited: a command that works
		// for a second would else run all the time, beside a workload that is ill already.
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
