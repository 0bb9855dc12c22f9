package bbr

import (
	"math"
	"time"

	"github.com/apernet/quic-go/congestion"
)

const (
	// floorTrip is the shortest round trip the model believes in, and the least
	// length of a round.
	floorTrip = time.Millisecond
	// tripWindow is how long a round trip holds without being confirmed.
	tripWindow = 5 * time.Second
	// queueSlack and queueGain distinguish a queue from jitter: a round has a queue when its
	// shortest round trip exceeds gain times the shortest, plus the slack.
	queueSlack = 2 * time.Millisecond
	queueGain  = 1.25
	// clearGain and clearSlack select the rounds whose loss counts as random. They bound a
	// round's mean round trip against the least recent such mean.
	clearGain  = 1.0625
	clearSlack = 500 * time.Microsecond
	// maxRandomLoss is the most that is put down to chance.
	maxRandomLoss = 0.10
	// excessLoss is how much above random loss congestion begins.
	excessLoss = 0.02
	// lossMemory is over how many packets random loss is averaged.
	lossMemory = 1000
	// congestedRounds in sequence shorten the memory of the bandwidth to themselves.
	congestedRounds = 3
	// batchRounds is how long the largest batch of acknowledgements is remembered, at least.
	batchRounds = 5
)

// bandwidth is the best rate of this cycle and of the previous one.
type bandwidth struct {
	now, before rate
	bound       rate // the most to believe until more is asked for; zero: no bound
}

func (b *bandwidth) best() rate { return max(b.now, b.before) }
func (b *bandwidth) age()       { b.before, b.now = b.now, 0 }
func (b *bandwidth) ask()       { b.bound = 0 }

func (b *bandwidth) see(r rate) {
	if b.bound > 0 {
		r = min(r, b.bound)
	}
	b.now = max(b.now, r)
}

// shorten forgets all but r, if that is less.
func (b *bandwidth) shorten(r rate) {
	r = min(r, b.best())
	*b = bandwidth{now: r, bound: r}
}

// trip is the round trip without a queue.
type trip struct {
	least     time.Duration // zero: unknown
	confirmed congestion.Time
	fell      bool // by so much that the path is another, and full of the old one's packets
}

// see records a round trip. A round trip close to the least confirms it.
func (t *trip) see(now congestion.Time, d time.Duration) {
	if t.least == 0 || d < t.least {
		t.fell = t.fell || t.least > 0 && queued(t.least, d)
		t.least = d
		t.confirmed = now
		return
	}
	if d <= t.least+max(t.least/16, clearSlack/2) {
		t.confirmed = now
	}
}

// replace forgets the least and begins with d.
func (t *trip) replace(now congestion.Time, d time.Duration) { *t = trip{least: d, confirmed: now} }

// expired reports whether the least was not seen for too long.
func (t *trip) expired(now congestion.Time) bool {
	return t.least > 0 && now.Sub(t.confirmed) > tripWindow
}

// queued reports whether a round trip of d, where least would do, shows a queue.
func queued(d, least time.Duration) bool {
	return float64(d) > queueGain*float64(least)+float64(queueSlack)
}

// clear reports whether d, seen at least once, is about the least.
func (t *trip) clear(d time.Duration) bool {
	return float64(d) <= clearGain*float64(t.least)+float64(min(clearSlack, t.least/4))
}

// batches remembers by how much acknowledgements that come together run ahead of
// the bandwidth: so much more must be in flight to keep the path busy meanwhile.
type batches struct {
	since       congestion.Time
	acked       congestion.ByteCount
	now, before congestion.ByteCount // largest of these rounds, and of those before
	rounds      int
}

func (b *batches) see(now congestion.Time, acked congestion.ByteCount, r rate) {
	expected := r.bytesIn(now.Sub(b.since))
	if b.since.IsZero() || b.acked <= expected {
		b.since, b.acked, expected = now, 0, 0
	}
	b.acked += acked
	b.now = max(b.now, b.acked-expected)
}

func (b *batches) endRound() {
	if b.rounds++; b.rounds >= batchRounds {
		b.before, b.now, b.rounds = b.now, 0, 0
	}
}

func (b *batches) largest() congestion.ByteCount { return max(b.now, b.before) }

// round is the measurement of one round trip of packets.
type round struct {
	end      congestion.ByteCount // ends when a packet is acknowledged that left with so much delivered
	began    congestion.Time
	shortest time.Duration        // round trip; zero: none measured
	trips    time.Duration        // sum of all
	measured int                  // number of them
	before   congestion.ByteCount // delivered in all when it began
	best     rate                 // of samples that were not application-limited
	limited  bool                 // some samples were application-limited
	arrived  int                  // packets that did not probe
	lost     int                  // of the same
	marked   bool                 // the network marked packets (ECN)
}

func (r *round) see(d time.Duration) {
	if r.shortest == 0 || d < r.shortest {
		r.shortest = d
	}
	r.trips += d
	r.measured++
}

// mean is the mean round trip.
func (r *round) mean() time.Duration { return r.trips / time.Duration(max(1, r.measured)) }

// lossRatio is the share of resolved packets that was lost.
func (r *round) lossRatio() float64 {
	if r.lost == 0 {
		return 0
	}
	return float64(r.lost) / float64(r.lost+r.arrived)
}

// crowd is the delivery of congested rounds in sequence.
type crowd struct {
	rounds int
	bytes  congestion.ByteCount
	took   time.Duration
	queued bool // not only loss
}

// randomLoss is the share of packets that is lost without a queue.
type randomLoss float64

// learn takes a round without a queue.
func (l *randomLoss) learn(r *round) {
	weight := min(1, float64(r.lost+r.arrived)/lossMemory)
	*l += randomLoss((r.lossRatio() - float64(*l)) * weight)
	*l = min(*l, maxRandomLoss)
}

// exceeded reports whether more was lost than chance explains: more than
// excessLoss above it, and three standard deviations and three packets on top.
func (l randomLoss) exceeded(lost, arrived int) bool {
	n := float64(lost + arrived)
	return float64(lost) > n*(float64(l)+excessLoss)+3*math.Sqrt(n*float64(l))+3
}
