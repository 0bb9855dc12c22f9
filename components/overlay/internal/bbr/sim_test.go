package bbr

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apernet/quic-go/congestion"
)

// The simulator: senders, one bottleneck with a queue, receivers, in virtual
// time. A sender calls its controller in the order quic-go does.

const simPacket congestion.ByteCount = 1250

type simEvent struct {
	at    congestion.Time
	order int
	do    func()
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// sim is the world. Its fields may be changed between runs: the path changes.
type sim struct {
	now     congestion.Time
	queue   simQueue
	order   int
	rand    *rand.Rand
	mbps    float64
	trip    time.Duration        // round trip without queue
	buffer  congestion.ByteCount // of the bottleneck
	loss    float64              // random, before the bottleneck
	late    time.Duration        // timers fire up to so much late
	jitter  time.Duration        // the path is up to so much longer, another length each 5 ms
	extra   time.Duration        // of it now
	extraAt congestion.Time
	last    congestion.Time // arrival of the last packet: none overtakes
	batch   time.Duration   // the receiver acknowledges at multiples of it only
	busy    congestion.Time // when the bottleneck has sent all it holds
	flows   []*simFlow
}

func newSim(mbps float64, trip time.Duration, bufferProducts, loss float64) *sim {
	s := &sim{now: congestion.Time(time.Hour), rand: rand.New(rand.NewPCG(1, 2)), mbps: mbps, trip: trip, loss: loss}
	s.buffer = congestion.ByteCount(bufferProducts * mbps * 1e6 / 8 * trip.Seconds())
	return s
}

func (s *sim) at(t congestion.Time, do func()) {
	s.order++
	heap.Push(&s.queue, simEvent{max(t, s.now), s.order, do})
}

// run goes on for d of virtual time.
func (s *sim) run(d time.Duration) {
	end := s.now.Add(d)
	for len(s.queue) > 0 && s.queue[0].at <= end {
		e := heap.Pop(&s.queue).(simEvent)
		s.now = e.at
		e.do()
	}
	s.now = end
}

func (s *sim) rate() float64 { return s.mbps * 1e6 / 8 }

// carry takes a packet to the far side, or loses it.
func (s *sim) carry(n congestion.ByteCount, arrive func()) (dropped bool) {
	if s.rand.Float64() < s.loss {
		return true
	}
	waiting := max(0, s.busy.Sub(s.now))
	if congestion.ByteCount(waiting.Seconds()*s.rate())+n > max(s.buffer, 2*n) {
		return true
	}
	s.busy = max(s.busy, s.now).Add(time.Duration(float64(n) / s.rate() * 1e9))
	if s.jitter > 0 && s.now.Sub(s.extraAt) > 5*time.Millisecond {
		s.extra, s.extraAt = time.Duration(s.rand.Int64N(int64(s.jitter))), s.now
	}
	s.last = max(s.last, s.busy.Add(s.trip/2+s.extra))
	s.at(s.last, arrive)
	return false
}

type simPacketState struct {
	n  congestion.PacketNumber
	at congestion.Time
}

// simFlow is a sender and its receiver.
type simFlow struct {
	sim       *sim
	cc        *Sender
	offers    func() congestion.ByteCount // the bytes that the application has written so far; nil: always more
	written   congestion.ByteCount
	next      congestion.PacketNumber
	out       []simPacketState // in flight, by number
	inFlight  congestion.ByteCount
	stats     simStats
	wake      congestion.Time // pacing timer
	lossTimer int

	pending  []congestion.PacketNumber // received, not acknowledged
	expected congestion.PacketNumber

	received   congestion.ByteCount
	sent, lost int
	trips      []time.Duration
}

func (s *sim) flow() *simFlow {
	cc := New(simPacket)
	cc.random = func(n int) int { return s.rand.IntN(n) }
	f := &simFlow{sim: s, cc: cc}
	cc.SetRTTStatsProvider(&f.stats)
	f.stats.UpdateRTT(s.trip, 0)
	s.flows = append(s.flows, f)
	s.at(s.now, f.send)
	return f
}

func (f *simFlow) hasData() bool { return f.offers == nil || f.written < f.offers() }

// send is the connection's run loop after waking up.
func (f *simFlow) send() {
	for f.cc.CanSend(f.inFlight) {
		if !f.cc.HasPacingBudget(f.sim.now) {
			at := max(f.cc.TimeUntilSend(f.inFlight), f.sim.now+1)
			if f.wake <= f.sim.now || at < f.wake {
				if f.sim.late > 0 {
					at = at.Add(time.Duration(f.sim.rand.Int64N(int64(f.sim.late))))
				}
				f.wake = at
				f.sim.at(at, f.send)
			}
			return
		}
		if !f.hasData() {
			return
		}
		f.emit()
	}
}

func (f *simFlow) emit() {
	n := f.next
	f.next++
	f.sent++
	f.written += simPacket
	f.inFlight += simPacket
	f.out = append(f.out, simPacketState{n, f.sim.now})
	f.cc.OnPacketSent(f.sim.now, f.inFlight, n, simPacket, true)
	if f.sim.carry(simPacket, func() { f.arrive(n) }) {
		f.lost++
	}
	f.armLoss()
}

// arrive is the receiver: it acknowledges every second packet, gaps at once,
// and a single packet after 5 ms.
func (f *simFlow) arrive(n congestion.PacketNumber) {
	f.received += simPacket
	f.pending = append(f.pending, n)
	gap := n != f.expected
	f.expected = n + 1
	if f.sim.batch > 0 {
		if len(f.pending) == 1 {
			next := f.sim.now - f.sim.now%congestion.Time(f.sim.batch) + congestion.Time(f.sim.batch)
			f.sim.at(next, f.acknowledge)
		}
		return
	}
	if len(f.pending) >= 2 || gap {
		f.acknowledge()
		return
	}
	f.sim.at(f.sim.now.Add(5*time.Millisecond), func() {
		if len(f.pending) > 0 && f.pending[0] == n {
			f.acknowledge()
		}
	})
}

func (f *simFlow) acknowledge() {
	batch := f.pending
	f.pending = nil
	f.sim.at(f.sim.now.Add(f.sim.trip/2), func() { f.acked(batch) })
}

func (f *simFlow) acked(batch []congestion.PacketNumber) {
	now, prior := f.sim.now, f.inFlight
	largest := batch[len(batch)-1]
	var got []congestion.AckedPacketInfo
	end := 0
	var kept []simPacketState
	for ; end < len(f.out) && f.out[end].n <= largest; end++ {
		p := f.out[end]
		if !slices.Contains(batch, p.n) {
			kept = append(kept, p)
			continue
		}
		if p.n == largest {
			f.stats.UpdateRTT(now.Sub(p.at), 0)
			f.trips = append(f.trips, now.Sub(p.at))
			f.cc.MaybeExitSlowStart()
		}
		f.cc.OnPacketAcked(p.n, simPacket, prior, now)
		got = append(got, congestion.AckedPacketInfo{PacketNumber: p.n, BytesAcked: simPacket})
		f.inFlight -= simPacket
	}
	f.out = f.out[end-len(kept):]
	copy(f.out, kept)
	lost := f.detect(largest)
	if len(got)+len(lost) > 0 {
		f.cc.OnCongestionEventEx(prior, now, got, lost)
	}
	f.armLoss()
	f.send()
}

// detect declares packets lost that are three behind or older than 9/8 round trips.
func (f *simFlow) detect(largest congestion.PacketNumber) (lost []congestion.LostPacketInfo) {
	old := f.sim.now.Add(-f.stats.Slowest() * 9 / 8)
	k := 0
	for k < len(f.out) && f.out[k].n < largest && (f.out[k].n <= largest-3 || f.out[k].at <= old) {
		lost = append(lost, congestion.LostPacketInfo{PacketNumber: f.out[k].n, BytesLost: simPacket})
		f.cc.OnCongestionEvent(f.out[k].n, simPacket, f.inFlight)
		f.inFlight -= simPacket
		k++
	}
	f.out = f.out[k:]
	f.written -= congestion.ByteCount(k) * simPacket // to be sent again
	return lost
}

// armLoss sets the probe timeout. After silence, the oldest packet is dropped without a
// call to the controller, and another is sent past it, as quic-go does.
func (f *simFlow) armLoss() {
	f.lossTimer++
	id := f.lossTimer
	f.sim.at(f.sim.now.Add(2*f.stats.Slowest()+25*time.Millisecond), func() {
		if id != f.lossTimer || len(f.out) == 0 {
			return
		}
		f.out = f.out[1:]
		f.inFlight -= simPacket
		f.written -= simPacket
		f.emit()
	})
}

// share is the delivery since the last call, as a share of the link over d.
func (f *simFlow) share(d time.Duration) float64 {
	n := f.received
	f.received = 0
	return float64(n) / (f.sim.rate() * d.Seconds())
}

// median is the median round trip since the last call.
func (f *simFlow) median() time.Duration {
	t := f.trips
	f.trips = nil
	if len(t) == 0 {
		return 0
	}
	slices.Sort(t)
	return t[len(t)/2]
}

// lossRatio is the share of packets lost since the last call.
func (f *simFlow) lossRatio() float64 {
	r := float64(f.lost) / float64(max(1, f.sent))
	f.lost, f.sent = 0, 0
	return r
}

// simStats is quic-go's estimator.
type simStats struct{ least, latest, smoothed, deviation time.Duration }

func (s *simStats) MinRTT() time.Duration         { return s.least }
func (s *simStats) LatestRTT() time.Duration      { return s.latest }
func (s *simStats) SmoothedRTT() time.Duration    { return s.smoothed }
func (s *simStats) MeanDeviation() time.Duration  { return s.deviation }
func (s *simStats) MaxAckDelay() time.Duration    { return 25 * time.Millisecond }
func (s *simStats) PTO(bool) time.Duration        { return s.smoothed + 4*s.deviation }
func (s *simStats) SetMaxAckDelay(time.Duration)  {}
func (s *simStats) SetInitialRTT(t time.Duration) { s.smoothed = t }
func (s *simStats) Slowest() time.Duration        { return max(s.latest, s.smoothed) }
func (s *simStats) UpdateRTT(d, _ time.Duration) {
	s.latest = d
	if s.least == 0 || d < s.least {
		s.least = d
	}
	if s.smoothed == 0 {
		s.smoothed, s.deviation = d, d/2
		return
	}
	s.deviation = (3*s.deviation + (s.smoothed - d).Abs()) / 4
	s.smoothed = (7*s.smoothed + d) / 8
}

// reset begins a measurement.
func (f *simFlow) reset() {
	f.received, f.sent, f.lost, f.trips = 0, 0, 0, nil
}

// until runs in steps until a step's share is reached, and says how long it took.
func (f *simFlow) until(share float64, step, most time.Duration) time.Duration {
	for took := step; took <= most; took += step {
		f.sim.run(step)
		if f.share(step) >= share {
			return took
		}
	}
	return most + step
}
