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
}

// judge turns probe outcomes into a three-valued judgement. Probes may come
// faster than the interval while the check is not healthy, so that a rejoin is
// seen at once; bad news is still judged on the spec's own time scale: it takes
// the threshold's count and the time that it would take at the interval.
type judge struct {
	healthyAfter, unhealthyAfter int
	interval                     time.Duration

	result    Result
	good, bad int
	badSince  time.Time
}

// add takes one outcome; problem is empty for a success. It reports whether
// anything but the time changed.
func (j *judge) add(problem string, at time.Time) bool {
	before := j.result
	if problem == "" {
		j.good, j.bad = j.good+1, 0
		j.result.Message = ""
		if j.good >= j.healthyAfter {
			j.enter(rollout.Healthy, at)
		}
		return j.result != before
	}
	if j.bad == 0 {
		j.badSince = at
	}
	j.good, j.bad = 0, j.bad+1
	j.result.Message = problem
	due := j.badSince.Add(time.Duration(j.unhealthyAfter-1) * j.interval)
	if j.bad >= j.unhealthyAfter && !at.Before(due) {
		j.enter(rollout.Unhealthy, at)
	}
	return j.result != before
}

func (j *judge) enter(h rollout.Health, at time.Time) {
	if j.result.Health != h {
		j.result.Health, j.result.Since = h, at
	}
}

// pause until the next probe.
func (j *judge) pause() time.Duration {
	// A Slot that is back waits for this: the rollout can go on no sooner.
	const eager = 100 * time.Millisecond
	if j.result.Health == rollout.Healthy && j.bad == 0 {
		return j.interval
	}
	return min(j.interval, eager)
}
