package bbr

import (
	"math"
	"time"

	"github.com/apernet/quic-go/congestion"
)

const (
	// quantumTime is how much is sent per wake-up of the sender's timer.
	quantumTime = time.Millisecond
	// burstTime is how much may be made up for after a timer that fired late.
	burstTime = 2 * quantumTime
	// slowBurstTime bounds maxBatch on slow links, where 64 KiB is a long queue.
	slowBurstTime = 4 * quantumTime
	// maxBatch is a full segmentation-offload batch of the kernel.
	maxBatch = 64 << 10
	// minBurstPackets may always leave at once; quic-go's own pacer allows the same.
	minBurstPackets = 10
)

// rate is bytes per second.
type rate float64

// bytesIn is the number of bytes that the rate moves in d.
func (r rate) bytesIn(d time.Duration) congestion.ByteCount {
	return congestion.ByteCount(float64(r) * d.Seconds())
}

// over is the rate of n bytes in d, which is positive.
func over(n congestion.ByteCount, d time.Duration) rate {
	return rate(float64(n) / d.Seconds())
}

// pacer is a token bucket that hands out its tokens in quanta. Once empty, it stays
// closed until it has a quantum. So packets leave in batches that the kernel can segment,
// and the timer fires once per batch.
type pacer struct {
	rate    rate
	packet  congestion.ByteCount
	tokens  float64
	updated congestion.Time
	closed  bool
}

// newPacer starts with a full bucket.
func newPacer(packet congestion.ByteCount) pacer {
	return pacer{packet: packet, tokens: float64(minBurstPackets * packet)}
}

// quantum is the number of bytes that opens a closed bucket.
func (p *pacer) quantum() congestion.ByteCount {
	return max(2*p.packet, min(maxBatch, p.rate.bytesIn(quantumTime)))
}

// capacity is the largest burst, in bytes.
func (p *pacer) capacity() congestion.ByteCount {
	return max(minBurstPackets*p.packet, min(maxBatch, p.rate.bytesIn(slowBurstTime)), p.rate.bytesIn(burstTime))
}

func (p *pacer) fill(now congestion.Time) {
	if p.updated.IsZero() {
		p.updated = now
	}
	if now <= p.updated {
		return
	}
	added := float64(p.rate) * now.Sub(p.updated).Seconds()
	p.tokens = min(p.tokens+added, float64(p.capacity()))
	p.updated = now
}

// setRate changes the rate from now on. Tokens collected so far keep their worth.
func (p *pacer) setRate(now congestion.Time, r rate) {
	p.fill(now)
	p.rate = r
}

// open reports whether a packet may leave.
func (p *pacer) open(now congestion.Time) bool {
	p.fill(now)
	need := p.packet
	if p.closed {
		need = p.quantum()
	}
	// Half a byte of slack: opensAt rounds.
	p.closed = p.tokens+0.5 < float64(need)
	return !p.closed
}

// opensAt is when open will next say yes; zero is at once.
func (p *pacer) opensAt() congestion.Time {
	need := p.packet
	if p.closed {
		need = p.quantum()
	}
	missing := float64(need) - p.tokens
	if missing <= 0 || p.rate <= 0 {
		return 0
	}
	return p.updated.Add(time.Duration(math.Ceil(missing / float64(p.rate) * 1e9)))
}

// sent takes the tokens of a packet. Probes and acknowledgements leave unasked,
// so the bucket may be overdrawn, but not by more than it holds.
func (p *pacer) sent(now congestion.Time, n congestion.ByteCount) {
	p.fill(now)
	p.tokens = max(p.tokens-float64(n), -float64(p.capacity()))
}

// full reports whether nothing was sent for so long that tokens run over.
func (p *pacer) full(now congestion.Time) bool {
	p.fill(now)
	return p.tokens >= float64(p.capacity())
}
