package punch

import "time"

const (
	// maxOneWay bounds the wait that the far side can cause.
	maxOneWay = time.Second
	// minMargin covers the delay that scheduling adds to the one-way delay.
	minMargin = 5 * time.Millisecond
	// refusedTries and refusedTime bound how often and how long a refused
	// candidate is tried.
	refusedTries = 96
	refusedTime  = 3 * time.Second
	// minGap is the least time between a refusal and the next SYN.
	minGap = time.Millisecond
)

// timing decides when SYNs are sent. It is a value without a clock.
type timing struct {
	controlling bool
	oneWay      time.Duration
}

func newTiming(controlling bool, oneWay time.Duration) timing {
	return timing{controlling: controlling, oneWay: min(max(oneWay, 0), maxOneWay)}
}

// first is how long after the start of Connect a candidate is first dialled.
// Only where a translator may be in between does the order matter.
func (t timing) first(k Kind) time.Duration {
	if !t.controlling || k != Mapped {
		return 0
	}
	return t.oneWay + max(minMargin, t.oneWay/8)
}

// again returns how long after its tries-th refusal a candidate is dialled again, or
// false for no further dial. since is the time since its first SYN; jitter in [0,1) keeps
// the two sides from missing each other in step.
//
// The shorter the wait, the likelier a SYN is under way when the far side's arrives. The
// wait grows with the time spent, so that a far side that begins late is covered without
// an endless rate of SYNs.
func (t timing) again(tries int, since time.Duration, jitter float64) (time.Duration, bool) {
	if tries >= refusedTries || since >= refusedTime {
		return 0, false
	}
	gap := max(minGap, since/16)
	return gap/2 + time.Duration(jitter*float64(gap)), true
}

// listenGrace is how long the controlled side, connected to the Peer's ordinary
// listener, waits for a pick before it settles for that connection.
func (t timing) listenGrace() time.Duration { return 6*t.oneWay + 200*time.Millisecond }
