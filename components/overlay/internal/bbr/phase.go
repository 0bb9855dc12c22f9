package bbr

import (
	"time"

	"github.com/apernet/quic-go/congestion"
)

// phase is the sender's present activity. Each has its gains: multiples of the bandwidth
// for the pace, of bandwidth times round trip for the window.
type phase string

const (
	// startup doubles the rate each round until that no longer helps.
	startup phase = "startup"
	// drain empties the queue that startup left.
	drain phase = "drain"
	// cruise sends at the bandwidth.
	cruise phase = "cruise"
	// up sends more for one round trip.
	up phase = "up"
	// hold waits one round for the result of up.
	hold phase = "hold"
	// down empties the queue that up left.
	down phase = "down"
	// probeTrip keeps so little in flight that the round trip shows without a queue.
	probeTrip phase = "probe round trip"
)

type gains struct{ pacing, window float64 }

func (p phase) gains() gains {
	switch p {
	case startup:
		return gains{2.77, 2} // 4 ln 2: the least that doubles the delivered rate each round
	case drain:
		return gains{1 / 2.77, 2}
	case up:
		return gains{1.25, 2.25}
	case down:
		return gains{0.75, 2}
	default:
		return gains{1, 2}
	}
}

const (
	// fullGrowth is the growth per round that startup requires to go on, for fullRounds.
	fullGrowth = 1.25
	fullRounds = 3
	// lossyStartup packets lost in a round, and more than excessLoss, end startup
	// in the first round that does not grow.
	lossyStartup = 6
	// upGrowth is the growth after which up is repeated at once.
	upGrowth = 1.1
	// shortestUp is for paths too short to see one round trip of it.
	shortestUp = 2 * time.Millisecond
	// restRounds, and as many again at random at most, pass between two ups; so
	// do restTime and as much again on short paths. Chance keeps flows apart.
	restRounds = 5
	restTime   = 30 * time.Millisecond
	// maxCaution is how often the rest is doubled after ups that only overfilled a
	// short buffer; longestRest bounds it.
	maxCaution  = 3
	longestRest = 2 * time.Second
	// probeTripTime is long enough for flows that share a queue to do it together.
	probeTripTime = 200 * time.Millisecond
	// probeTripPause is the least time before a doubted round trip is measured again.
	probeTripPause = tripWindow
	// patience is how often memory is shortened before the round trip is doubted.
	patience = 2
)

// cycle is where the sender is among its phases.
type cycle struct {
	phase  phase
	filled bool // startup is over
	since  congestion.Time
	rounds int // ended in this phase

	best  rate // startup: best so far; up: when it began
	stuck int  // startup: rounds without growth

	lost    int // of the packets that left in up
	arrived int // of the same

	mark     congestion.ByteCount // hold: over when a packet is acknowledged that left with so much delivered
	unproven bool                 // every round of this cycle was application-limited

	upAt       congestion.Time // when up last ended
	upRounds   int             // rounds since
	restRounds int             // least of them until the next
	restTime   time.Duration   // and least time
	overflowed bool            // a round since lost more than chance explains
	caution    int             // ups in sequence that overfilled a buffer

	least   time.Duration // probeTrip: shortest seen
	settled congestion.Time
	probed  congestion.Time // when the last probeTrip ended
}

func (c *cycle) seeTrip(d time.Duration) {
	if c.phase == probeTrip && (c.least == 0 || d < c.least) {
		c.least = d
	}
}

// enter starts a phase.
func (s *Sender) enter(now congestion.Time, p phase) {
	c := &s.cycle
	c.phase, c.since, c.rounds = p, now, 0
	switch p {
	case up:
		c.best = s.bandwidth.best()
		c.lost, c.arrived = 0, 0
		s.bandwidth.ask()
	case hold:
		c.mark = s.flight.delivered
	case probeTrip:
		c.least, c.settled = 0, 0
	default:
	}
}

// advance ends the round if it is over and moves to the next phase if it is time.
func (s *Sender) advance(now congestion.Time, inFlight congestion.ByteCount, got *sample) {
	c := &s.cycle
	if got.roundTrip > 0 && s.roundOver(now, got.sentWith) {
		s.endRound(now)
		c.rounds++
		c.upRounds++
	}
	if c.phase != probeTrip && got.roundTrip > 0 && s.doubtful(now) {
		// An application that sends little has drained the path already.
		if !c.filled || inFlight < s.product()/2 {
			s.renewTrip(now, got.roundTrip)
		} else {
			s.enter(now, probeTrip)
		}
	}
	switch c.phase {
	case startup:
		if c.filled {
			s.enter(now, drain)
			s.rest(now)
		}
	case drain:
		if s.drained(inFlight) {
			s.enter(now, cruise)
		}
	case cruise:
		if (c.upRounds >= c.restRounds || now.Sub(c.upAt) >= longestRest) && now.Sub(c.upAt) >= c.restTime {
			s.enter(now, up)
		}
	case up:
		if now.Sub(c.since) >= max(s.trip.least, shortestUp) {
			s.enter(now, hold)
		}
	case hold:
		if got.roundTrip > 0 && (got.sentWith >= c.mark || now.Sub(c.since) >= 2*s.trip.least) && now.Sub(c.since) >= floorTrip {
			s.judge(now)
		}
	case down:
		if s.drained(inFlight) || c.rounds >= congestedRounds {
			s.enter(now, cruise)
		}
	case probeTrip:
		s.watchTrip(now, inFlight)
	}
}

// judge ends hold: up again if it brought something, else down.
func (s *Sender) judge(now congestion.Time) {
	c := &s.cycle
	lossy := s.loss.exceeded(c.lost, c.arrived)
	if s.bandwidth.best() >= upGrowth*c.best && !c.unproven && !lossy && !queued(s.round.shortest, s.trip.least) {
		s.enter(now, up)
		return
	}
	if !c.unproven {
		s.bandwidth.age()
	}
	c.caution = min(c.caution+1, maxCaution)
	if !lossy {
		c.caution = 0
	}
	s.enter(now, down)
	s.rest(now)
}

// rest begins a cycle: no up for a while.
func (s *Sender) rest(now congestion.Time) {
	c := &s.cycle
	c.unproven = true
	s.raise()
	c.upAt, c.upRounds = now, 0
	c.restRounds = (restRounds + s.random(restRounds)) << c.caution
	c.restTime = restTime + time.Duration(s.random(int(restTime)))
}

// roundOver reports whether a round ends: with the acknowledgement of a packet
// that left after it began, but not before floorTrip. A queue that grows makes
// such rounds long; twice the round trip without a queue is long enough.
func (s *Sender) roundOver(now congestion.Time, sentWith congestion.ByteCount) bool {
	d := now.Sub(s.round.began)
	return d >= floorTrip && (sentWith >= s.round.end || d >= 2*s.trip.least)
}

// doubtful reports whether the round trip must be measured again: it was not confirmed
// for long, it fell to that of another path, or its queue does not go away.
func (s *Sender) doubtful(now congestion.Time) bool {
	return s.trip.expired(now) || s.trip.fell && s.cycle.filled ||
		s.shortened >= patience && now.Sub(s.cycle.probed) >= probeTripPause
}

// watchTrip ends probeTrip when little was in flight for long enough.
func (s *Sender) watchTrip(now congestion.Time, inFlight congestion.ByteCount) {
	c := &s.cycle
	if c.settled.IsZero() {
		if inFlight <= s.window {
			c.settled, c.rounds = now, 0
		}
		return
	}
	if now.Sub(c.settled) < probeTripTime || c.rounds == 0 {
		return
	}
	if c.least > 0 {
		s.renewTrip(now, c.least)
	}
	c.probed = now
	s.enter(now, cruise)
}

// renewTrip forgets the round trip for one measured with little in flight.
func (s *Sender) renewTrip(now congestion.Time, d time.Duration) {
	s.trip.replace(now, d)
	s.shortened, s.crowd = 0, crowd{}
}

// endRound draws the conclusions of a round and begins the next.
func (s *Sender) endRound(now congestion.Time) {
	r := s.round
	s.round = round{end: s.flight.delivered, before: s.flight.delivered, began: now}
	s.batches.endRound()
	if !s.cycle.filled {
		s.checkFull(&r)
		return
	}
	if !r.limited && r.best > 0 {
		s.cycle.unproven = false
	}
	if s.quiet.expired(now) {
		s.quiet.replace(now, r.mean())
	}
	s.quiet.see(now, r.mean())
	if s.quiet.clear(r.mean()) {
		s.loss.learn(&r)
	}
	overflowed := s.loss.exceeded(r.lost, r.arrived)
	if overflowed {
		s.lower(&r)
	}
	s.judgeRound(now, &r, overflowed)
}

// judgeRound counts congested rounds in the phases that send at the bandwidth. After
// three in sequence it limits the bandwidth to their delivery.
func (s *Sender) judgeRound(now congestion.Time, r *round, overflowed bool) {
	if s.cycle.phase != cruise && s.cycle.phase != hold {
		return
	}
	full := queued(r.shortest, s.trip.least)
	if r.limited || !full && !overflowed && !r.marked {
		s.shortened, s.crowd = 0, crowd{}
		return
	}
	s.crowd.rounds++
	s.crowd.queued = s.crowd.queued || full
	s.crowd.bytes += s.flight.delivered - r.before
	s.crowd.took += now.Sub(r.began)
	if s.crowd.rounds < congestedRounds {
		return
	}
	got := s.crowd
	s.crowd = crowd{}
	switch {
	case got.queued && s.shortened >= patience:
		// It did not help: the round trip must be measured again first.
		s.enter(now, down)
		return
	case got.queued:
		s.shortened++
	case s.bandwidth.bound > 0:
		return // loss alone shortens once per cycle: were it random, it would do so forever
	}
	s.bandwidth.shorten(over(got.bytes, got.took))
	s.enter(now, down)
}

// checkFull ends startup after three rounds without growth, or one with loss.
func (s *Sender) checkFull(r *round) {
	c := &s.cycle
	if r.best == 0 {
		return // application-limited: says nothing
	}
	if b := s.bandwidth.best(); b >= fullGrowth*c.best {
		c.best, c.stuck = b, 0
		return
	}
	c.stuck++
	lossy := r.lost >= lossyStartup && r.lossRatio() > excessLoss
	c.filled = c.stuck >= fullRounds || lossy
}
