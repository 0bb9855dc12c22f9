package bbr

import (
	"math/rand/v2"
	"time"

	quic "github.com/apernet/quic-go"
	"github.com/apernet/quic-go/congestion"
)

const (
	// InitialDatagramSize is the overlay's QUIC packet size before discovery of
	// the path's maximum; quic.Config.InitialPacketSize must not be smaller.
	InitialDatagramSize congestion.ByteCount = 1200

	initialWindowPackets = 32
	minWindowPackets     = 4
	maxWindowPackets     = congestion.MaxCongestionWindowPackets
	// unknownTrip paces the first window when no round trip was measured yet.
	unknownTrip = 100 * time.Millisecond
)

// Sender is the congestion controller of one connection. Use [New].
type Sender struct {
	stats   congestion.RTTStatsProvider // nil until quic-go sets it
	packet  congestion.ByteCount
	pacer   pacer
	flight  flight
	window  congestion.ByteCount
	random  func(n int) int
	fresh   bool // stats hold a round trip measured by the acknowledgement being handled
	offered congestion.Time
	unused  bool // the offer to send was not used

	bandwidth bandwidth
	trip      trip
	quiet     trip // of means of rounds
	batches   batches
	loss      randomLoss
	round     round
	crowd     crowd
	ceiling   congestion.ByteCount // of the window, while a buffer overflows; zero: none
	shortened int                  // times memory was shortened since a round without congestion

	cycle cycle
}

var _ congestion.CongestionControlEx = (*Sender)(nil)

// New makes a controller in startup. The size is that of the connection's first
// packets, in bytes; quic-go reports larger ones later.
func New(initialMaxDatagramSize congestion.ByteCount) *Sender {
	return &Sender{
		packet: initialMaxDatagramSize,
		pacer:  newPacer(initialMaxDatagramSize),
		flight: newFlight(),
		window: initialWindowPackets * initialMaxDatagramSize,
		random: rand.IntN, // keeps flows apart, keeps no secret
		cycle:  cycle{phase: startup},
	}
}

// Install gives a connection a controller of its own. Call it once, as early as
// the connection is known; packets in flight by then are counted when they are
// acknowledged.
func Install(c *quic.Conn) {
	c.SetCongestionControl(New(InitialDatagramSize))
}

// SetRTTStatsProvider is called once, before all others.
func (s *Sender) SetRTTStatsProvider(p congestion.RTTStatsProvider) { s.stats = p }

// SetMaxDatagramSize is called when a larger packet was found to pass.
func (s *Sender) SetMaxDatagramSize(n congestion.ByteCount) {
	s.packet, s.pacer.packet = n, n
}

// TimeUntilSend is when the next batch may leave; zero is at once.
func (s *Sender) TimeUntilSend(congestion.ByteCount) congestion.Time { return s.pacer.opensAt() }

// HasPacingBudget reports whether a packet may leave now, the window permitting.
// quic-go asks before each packet and whenever it wakes up, with data or without.
func (s *Sender) HasPacingBudget(now congestion.Time) bool {
	if !s.offered.IsZero() && now > s.offered {
		s.unused = true
	}
	if s.pacer.rate == 0 {
		s.pace(now)
	}
	open := s.pacer.open(now)
	s.offered = 0
	if open {
		s.offered = now
	}
	return open
}

// CanSend reports whether the window has room.
func (s *Sender) CanSend(inFlight congestion.ByteCount) bool { return inFlight < s.window }

// OnPacketSent records a packet; bytesInFlight includes it.
func (s *Sender) OnPacketSent(now congestion.Time, bytesInFlight congestion.ByteCount, n congestion.PacketNumber, bytes congestion.ByteCount, isRetransmittable bool) {
	if !isRetransmittable {
		return
	}
	before := bytesInFlight - bytes
	if s.unused && s.ranDry(now, before) {
		s.flight.ranDry(before)
	}
	s.offered, s.unused = 0, false
	s.pacer.sent(now, bytes)
	s.flight.sent(now, n, bytes, before, s.cycle.phase == up, 4*s.roundTrip())
}

// ranDry reports whether it is for want of data that no more is in flight.
func (s *Sender) ranDry(now congestion.Time, inFlight congestion.ByteCount) bool {
	return inFlight+s.packet < s.window && s.pacer.full(now)
}

// roundTrip is the usual one, queue included.
func (s *Sender) roundTrip() time.Duration {
	if s.stats != nil {
		if d := s.stats.SmoothedRTT(); d > 0 {
			return d
		}
	}
	return unknownTrip
}

// MaybeExitSlowStart is called when stats have taken a new round trip, just
// before the acknowledgement that brought it is reported.
func (s *Sender) MaybeExitSlowStart() { s.fresh = true }

// OnPacketAcked does nothing: see OnCongestionEventEx.
func (s *Sender) OnPacketAcked(congestion.PacketNumber, congestion.ByteCount, congestion.ByteCount, congestion.Time) {
}

// OnCongestionEvent is called per lost packet, which OnCongestionEventEx handles,
// and without lost bytes when the network marked packets.
func (s *Sender) OnCongestionEvent(_ congestion.PacketNumber, lost, _ congestion.ByteCount) {
	if lost == 0 {
		s.round.marked = true
	}
}

// OnRetransmissionTimeout does nothing: losses report the same.
func (s *Sender) OnRetransmissionTimeout(bool) {}

// InSlowStart reports whether the bandwidth is still looked for.
func (s *Sender) InSlowStart() bool { return s.cycle.phase == startup }

// InRecovery is always false: there is no such phase.
func (s *Sender) InRecovery() bool { return false }

// GetCongestionWindow is the most that may be in flight, in bytes.
func (s *Sender) GetCongestionWindow() congestion.ByteCount { return s.window }

// OnCongestionEventEx takes the packets that one acknowledgement (or the loss timer)
// resolved; priorInFlight is the amount in flight before.
func (s *Sender) OnCongestionEventEx(priorInFlight congestion.ByteCount, now congestion.Time, acked []congestion.AckedPacketInfo, lost []congestion.LostPacketInfo) {
	if !s.offered.IsZero() && now > s.offered && s.ranDry(now, priorInFlight) {
		s.flight.ranDry(priorInFlight)
	}
	inFlight := priorInFlight
	for _, p := range lost {
		inFlight -= p.BytesLost
		if r, ok := s.flight.take(p.PacketNumber); ok {
			if r.probing {
				s.cycle.lost++
			} else {
				s.round.lost++
			}
		}
	}
	got := s.flight.acked(now, acked, func(r record) {
		if r.probing {
			s.cycle.arrived++
		} else {
			s.round.arrived++
		}
	})
	inFlight = max(0, inFlight-got.acked)
	if got.acked > 0 {
		s.measure(now, &got)
	}
	s.advance(now, inFlight, &got)
	s.resize(got.acked)
	s.pace(now)
	s.fresh = false
}

// measure feeds a sample to the model.
func (s *Sender) measure(now congestion.Time, got *sample) {
	if d := got.roundTrip; d > 0 {
		// The stack's figure leaves out how long the far side waited.
		if s.fresh && s.stats != nil && s.stats.LatestRTT() > 0 {
			d = min(d, s.stats.LatestRTT())
			got.roundTrip = d
		}
		s.trip.see(now, d)
		s.cycle.seeTrip(d)
		s.round.see(d)
	}
	if !got.appLimited || got.rate > s.bandwidth.best() {
		s.bandwidth.see(got.rate)
	}
	if got.appLimited {
		s.round.limited = true
	} else {
		s.round.best = max(s.round.best, got.rate)
	}
	s.batches.see(now, got.acked, s.bandwidth.best())
}

// product is the amount in flight that fills the path without a queue.
func (s *Sender) product() congestion.ByteCount {
	return s.bandwidth.best().bytesIn(max(s.trip.least, floorTrip))
}

// drained reports whether no more is in flight than fills the path, or than must
// always be allowed.
func (s *Sender) drained(inFlight congestion.ByteCount) bool {
	return inFlight <= max(s.product(), minWindowPackets*s.packet)
}

// lower lowers the ceiling of the window after a round that overflowed a buffer, at most
// to the amount that fills the path, jitter included, and two batches.
func (s *Sender) lower(r *round) {
	jittery := min(r.mean(), s.trip.least*3/2)
	least := s.bandwidth.best().bytesIn(max(s.trip.least, jittery)) + 2*s.pacer.quantum()
	s.ceiling = max(least, s.window*7/8)
	s.cycle.overflowed = true
}

// raise the ceiling after a cycle without such a round, until it no longer matters.
func (s *Sender) raise() {
	if s.ceiling > 0 && !s.cycle.overflowed {
		s.ceiling += s.ceiling / 8
	}
	if s.ceiling > 4*s.product()+maxBatch {
		s.ceiling = 0
	}
	s.cycle.overflowed = false
}

// resize sets the window after so many bytes were acknowledged.
func (s *Sender) resize(acked congestion.ByteCount) {
	g := s.cycle.phase.gains()
	room := min(s.batches.largest(), max(s.product()/2, maxBatch))
	target := congestion.ByteCount(g.window*float64(s.product())) + room + 3*s.pacer.quantum()
	switch {
	case s.cycle.filled:
		s.window = target
	case s.window < target || s.flight.delivered < initialWindowPackets*s.packet:
		s.window += acked
	}
	if s.ceiling > 0 {
		s.window = min(s.window, s.ceiling)
	}
	if s.cycle.phase == probeTrip {
		s.window = min(s.window, s.product()/2)
	}
	s.window = min(max(s.window, minWindowPackets*s.packet), maxWindowPackets*s.packet)
}

// pace sets the rate. Startup never slows down; before the first sample the
// window is spread over a round trip.
func (s *Sender) pace(now congestion.Time) {
	g := s.cycle.phase.gains()
	r := rate(g.pacing) * s.bandwidth.best()
	if !s.cycle.filled {
		r = max(r, s.pacer.rate, rate(g.pacing)*over(initialWindowPackets*s.packet, max(s.roundTrip(), floorTrip)))
	}
	s.pacer.setRate(now, max(r, over(minWindowPackets*s.packet, time.Second)))
}
