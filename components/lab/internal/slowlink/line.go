package slowlink

import (
	"math/rand/v2"
	"time"
)

// Params is one direction of a link. The zero value is a perfect cable.
type Params struct {
	// Delay is added to every packet; Jitter moves it by up to as much either way,
	// without changing the order.
	Delay  time.Duration `json:"delay,omitempty"`
	Jitter time.Duration `json:"jitter,omitempty"`
	// RateMbps is in 10^6 bits of IP packet per second; 0 has no limit.
	RateMbps int `json:"rate_mbps,omitempty"`
	// Loss and Reorder are fractions of packets: lost packets, and packets that are held
	// back long enough for later ones to pass.
	Loss    float64 `json:"loss,omitempty"`
	Reorder float64 `json:"reorder,omitempty"`
	// QueueBytes is the length of the queue in front of the rate; packets beyond it are
	// dropped. 0 means the bytes of 20 ms or of four delays, but at least 64 KiB.
	QueueBytes int `json:"queue_bytes,omitempty"`
}

const (
	minQueue = 64 << 10
	// maxBurst bounds how much of the link's time one packet may take that is
	// delivered as a whole.
	maxBurst = time.Millisecond
	// maxFlight bounds the bytes that one direction holds, rate or no rate.
	maxFlight = 256 << 20
)

// fate is the outcome of one segment.
type fate int

const (
	// onTime: it arrives after those before it.
	onTime fate = iota
	// held: it arrives later than some that come after it.
	held
	// lost: it was thrown away by the loss setting.
	lost
	// full: it was thrown away because the queue was full.
	full
)

// line is the model of one direction, in nanoseconds of any clock. It does not
// hold packets.
type line struct {
	p     Params
	queue int64
	rng   *rand.Rand

	free int64 // when the link has sent all accepted packets
	last int64 // when the last packet on time arrives
}

func newLine(p Params, seed uint64) *line {
	l := &line{rng: rand.New(rand.NewPCG(seed, 0x6c696e6b))} //nolint:gosec // losses that can be repeated, no secret
	l.set(p)
	return l
}

// set changes the parameters; packets that are underway keep the old ones.
func (l *line) set(p Params) {
	l.p, l.queue = p, int64(p.QueueBytes)
	if l.queue == 0 {
		l.queue = max(int64(p.RateMbps)*125*max(20, 4*p.Delay.Milliseconds()), minQueue)
	}
}

// offer takes a segment of size bytes at now and says when it arrives.
func (l *line) offer(now int64, size int) (fate, int64) {
	if l.p.Loss > 0 && l.rng.Float64() < l.p.Loss {
		return lost, 0
	}
	at := now
	if l.p.RateMbps > 0 {
		waiting := max(0, l.free-now) * int64(l.p.RateMbps) / 8000
		if waiting+int64(size) > l.queue {
			return full, 0
		}
		l.free = max(l.free, now) + l.took(size)
		at = l.free
	}
	at += int64(l.p.Delay)
	if l.p.Jitter > 0 {
		at = max(now, at+l.rng.Int64N(2*int64(l.p.Jitter)+1)-int64(l.p.Jitter))
	}
	if l.p.Reorder > 0 && l.rng.Float64() < l.p.Reorder {
		// Long enough for several packets, short enough for no timer to notice.
		return held, at + int64(time.Millisecond) + l.rng.Int64N(max(1, int64(l.p.Delay)/4)+1)
	}
	l.last = max(l.last, at)
	return onTime, l.last
}

// took is how long the link sends size bytes, in nanoseconds.
func (l *line) took(size int) int64 {
	if l.p.RateMbps == 0 {
		return 0
	}
	return int64(size) * 8000 / int64(l.p.RateMbps)
}
