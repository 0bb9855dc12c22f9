package bbr

import (
	"fmt"
	"testing"
	"time"

	"github.com/apernet/quic-go/congestion"
)

const ms = time.Millisecond

// One flow, 200 Mbps: the buffer is in products of bandwidth and round trip.
func TestOneFlowFillsTheLink(t *testing.T) {
	for _, c := range []struct {
		name         string
		trip         time.Duration
		buffer, loss float64
		late, batch  time.Duration // of timers, of acknowledgements
		share, lost  float64       // least, most beyond random loss
		median       float64       // most, in round trips
	}{
		{"clean", 20 * ms, 2, 0, 0, 0, 0.97, 0.001, 1.2},
		{"1 % random loss", 20 * ms, 2, 0.01, 0, 0, 0.95, 0.002, 1.2},
		{"5 % random loss", 20 * ms, 2, 0.05, 0, 0, 0.90, 0.005, 1.2},
		{"10 % random loss", 20 * ms, 2, 0.10, 0, 0, 0.80, 0.01, 1.2},
		{"deep buffer", 20 * ms, 20, 0, 0, 0, 0.97, 0.001, 1.2},
		{"shallow buffer", 20 * ms, 0.2, 0, 0, 0, 0.95, 0.02, 1.2},
		{"shallow buffer and loss", 20 * ms, 0.2, 0.01, 0, 0, 0.90, 0.02, 1.2},
		{"almost no buffer", 20 * ms, 0.05, 0, 0, 0, 0.90, 0.03, 1.2},
		{"late timers", 20 * ms, 2, 0.01, 3 * ms, 0, 0.95, 0.002, 1.3},
		{"batched acknowledgements", 20 * ms, 2, 0.01, 0, 8 * ms, 0.9, 0.01, 1.8},
		{"long", 100 * ms, 2, 0, 0, 0, 0.97, 0.001, 1.2},
		{"long and loss", 100 * ms, 2, 0.01, 0, 0, 0.95, 0.002, 1.2},
		{"local network", ms, 4, 0, 0, 0, 0.95, 0.01, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSim(200, c.trip, c.buffer, c.loss)
			s.late, s.batch = c.late, c.batch
			f := s.flow()
			s.run(2 * time.Second)
			f.reset()
			const d = 6 * time.Second
			s.run(d)
			share, lost, median := f.share(d), f.lossRatio()-c.loss, f.median()
			t.Logf("share %.3f, lost beyond random %.4f, median round trip %v", share, lost, median)
			if share < c.share {
				t.Errorf("share %.3f, want at least %.2f", share, c.share)
			}
			if lost > c.lost {
				t.Errorf("lost %.4f beyond random loss, want at most %.3f", lost, c.lost)
			}
			if got := float64(median) / float64(c.trip); got > c.median {
				t.Errorf("median round trip %.2f times the shortest, want at most %.1f", got, c.median)
			}
		})
	}
}

// Jitter hides queues; random loss must still not be taken for congestion.
func TestJitter(t *testing.T) {
	for _, c := range []struct {
		jitter time.Duration
		loss   float64
	}{{10 * ms, 0}, {10 * ms, 0.01}, {10 * ms, 0.05}, {20 * ms, 0.03}} {
		t.Run(fmt.Sprintf("%v loss %v", c.jitter, c.loss), func(t *testing.T) {
			t.Parallel()
			s := newSim(200, 20*ms, 2, c.loss)
			s.jitter = c.jitter
			f := s.flow()
			s.run(3 * time.Second)
			f.reset()
			const d = 10 * time.Second
			s.run(d)
			share, median := f.share(d), f.median()
			t.Logf("share %.3f, median round trip %v, random loss %.3f", share, median, f.cc.loss)
			if share < 0.8 {
				t.Errorf("share %.3f", share)
			}
			if median > 40*ms+c.jitter {
				t.Errorf("median round trip %v", median)
			}
		})
	}
}

func TestRampsUp(t *testing.T) {
	for _, c := range []struct {
		trip   time.Duration
		loss   float64
		within time.Duration
	}{{20 * ms, 0, 500 * ms}, {20 * ms, 0.01, 500 * ms}, {100 * ms, 0, 2 * time.Second}, {100 * ms, 0.01, 2 * time.Second}} {
		t.Run(fmt.Sprintf("%v loss %v", c.trip, c.loss), func(t *testing.T) {
			s := newSim(200, c.trip, 2, c.loss)
			f := s.flow()
			got := f.until(0.9, 100*ms, 10*time.Second)
			t.Logf("0.9 of the link after %v", got)
			if got > c.within {
				t.Errorf("0.9 of the link after %v, want %v", got, c.within)
			}
		})
	}
}

func TestTwoFlowsShare(t *testing.T) {
	for _, c := range []struct {
		name                       string
		buffer, loss, lost, median float64
	}{
		{"deep buffer", 20, 0, 0.001, 2},
		{"one product", 1, 0, 0.02, 2},
		{"one product and loss", 1, 0.01, 0.03, 2},
		{"shallow buffer", 0.2, 0, 0.05, 1.3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSim(200, 20*ms, c.buffer, c.loss)
			f := s.flow()
			s.run(2 * time.Second)
			g := s.flow() // comes later
			s.run(4 * time.Second)
			f.reset()
			g.reset()
			const d = 20 * time.Second
			s.run(d)
			a, b, lost, median := f.share(d), g.share(d), f.lossRatio(), f.median()
			t.Logf("shares %.3f %.3f, lost %.4f, median round trip %v", a, b, lost, median)
			if part := a / (a + b); part < 0.3 || part > 0.7 {
				t.Errorf("the first has %.2f of both", part)
			}
			if a+b < 0.9 {
				t.Errorf("both use %.2f of the link", a+b)
			}
			if lost > c.lost {
				t.Errorf("lost %.4f, want at most %.3f", lost, c.lost)
			}
			if got := float64(median) / float64(20*ms); got > c.median {
				t.Errorf("median round trip %.2f times the shortest, want at most %.1f", got, c.median)
			}
		})
	}
}

func TestFollowsTheBandwidth(t *testing.T) {
	s := newSim(200, 20*ms, 8, 0)
	f := s.flow()
	s.run(3 * time.Second)
	s.mbps = 50
	s.run(2 * time.Second)
	f.reset()
	s.run(time.Second)
	if m := f.median(); m > 30*ms {
		t.Errorf("median round trip %v, 2 s after the link narrowed", m)
	}
	if got := f.share(time.Second); got < 0.9 {
		t.Errorf("share %.2f of the narrow link", got)
	}
	s.mbps = 200
	got := f.until(0.9, 200*ms, 10*time.Second)
	t.Logf("0.9 of the wide link after %v", got)
	if got > 5*time.Second {
		t.Errorf("0.9 of the wide link after %v", got)
	}
}

// The underlay moves a connection to a longer path without a word.
func TestFollowsTheRoundTrip(t *testing.T) {
	s := newSim(200, 20*ms, 8, 0.005)
	f := s.flow()
	s.run(3 * time.Second)
	s.trip = 80 * ms
	f.reset()
	got := f.until(0.9, 200*ms, 10*time.Second)
	t.Logf("0.9 of the link on the longer path after %v", got)
	if got > 5*time.Second {
		t.Errorf("0.9 of the link on the longer path after %v", got)
	}
	s.trip = 20 * ms
	s.run(time.Second)
	f.reset()
	s.run(time.Second)
	if m := f.median(); m > 30*ms {
		t.Errorf("median round trip %v on the short path again", m)
	}
}

// Eight seconds without any path: the sender uses its earlier measurements again.
func TestSurvivesSilence(t *testing.T) {
	s := newSim(200, 20*ms, 2, 0)
	f := s.flow()
	s.run(3 * time.Second)
	s.loss = 1
	s.run(8 * time.Second)
	s.loss = 0
	f.reset()
	got := f.until(0.9, 100*ms, 10*time.Second)
	t.Logf("0.9 of the link %v after the path came back", got)
	if got > 2*time.Second {
		t.Errorf("0.9 of the link %v after the path came back", got)
	}
}

func TestApplicationLimitKeepsTheEstimate(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration // the application writes so often
		bytes congestion.ByteCount
	}{
		{"trickle", ms, simPacket},
		{"bursts", 50 * ms, 62_500},
		{"large bursts", 400 * ms, 500_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSim(200, 20*ms, 2, 0.01)
			f := s.flow()
			s.run(2 * time.Second)
			start, began := f.written, s.now
			f.offers = func() congestion.ByteCount {
				return start + congestion.ByteCount(s.now.Sub(began)/c.every)*c.bytes
			}
			const d = 20 * time.Second
			for at := time.Duration(0); at < d; at += c.every {
				s.at(s.now.Add(at), f.send)
			}
			f.reset()
			s.run(d)
			if got := f.share(d); got > 0.06 || got < 0.04 {
				t.Fatalf("share %.3f, want the application's: 0.05", got)
			}
			if mbps := float64(f.cc.bandwidth.best()) * 8 / 1e6; mbps < 150 || mbps > 220 {
				t.Errorf("estimate went to %.0f Mbps", mbps)
			}
			f.offers = nil
			s.at(s.now, f.send)
			got := f.until(0.9, 100*ms, 5*time.Second)
			t.Logf("0.9 of the link %v after the application had more", got)
			if got > time.Second {
				t.Errorf("0.9 of the link %v after the application had more", got)
			}
		})
	}
}

// A connection that only ever trickled is still in startup; the path became
// longer meanwhile.
func TestStartupAfterALongTrickle(t *testing.T) {
	s := newSim(200, 20*ms, 2, 0)
	f := s.flow()
	began := s.now
	f.offers = func() congestion.ByteCount { return congestion.ByteCount(s.now.Sub(began)/(50*ms)) * simPacket }
	for at := time.Duration(0); at < 10*time.Second; at += 50 * ms {
		s.at(s.now.Add(at), f.send)
	}
	s.run(2 * time.Second)
	s.trip = 80 * ms
	s.run(8 * time.Second)
	f.offers = nil
	s.at(s.now, f.send)
	got := f.until(0.9, 100*ms, 10*time.Second)
	t.Logf("0.9 of the link after %v", got)
	if got > 2*time.Second {
		t.Errorf("0.9 of the link after %v", got)
	}
}

// On a fast local path, quic-go's own queue of 256 packets overflows.
func TestFastLocalPath(t *testing.T) {
	const trip = 100 * time.Microsecond
	s := newSim(4000, trip, 7.4, 0)
	s.late = 100 * time.Microsecond
	f := s.flow()
	s.run(500 * ms)
	f.reset()
	s.run(time.Second)
	share, lost := f.share(time.Second), f.lossRatio()
	t.Logf("share %.3f, lost %.4f", share, lost)
	if share < 0.9 {
		t.Errorf("share %.3f of 4 Gbps", share)
	}
	if lost > 0.02 {
		t.Errorf("lost %.4f", lost)
	}
}

// A slow link: bursts must not be a queue of their own.
func TestSlowLink(t *testing.T) {
	s := newSim(5, 40*ms, 4, 0.01)
	f := s.flow()
	s.run(5 * time.Second)
	f.reset()
	s.run(20 * time.Second)
	if got := f.share(20 * time.Second); got < 0.9 {
		t.Errorf("share %.3f", got)
	}
	if m := f.median(); m > 80*ms {
		t.Errorf("median round trip %v", m)
	}
}

func TestMarksCountAsCongestion(t *testing.T) {
	s := New(simPacket)
	s.OnCongestionEvent(1, 0, 0)
	if !s.round.marked {
		t.Error("a mark without loss is not noted")
	}
	s.round.marked = false
	s.OnCongestionEvent(1, simPacket, 0)
	if s.round.marked {
		t.Error("a loss is taken for a mark")
	}
}

func TestWindowBounds(t *testing.T) {
	s := New(simPacket)
	if got := s.GetCongestionWindow(); got != 32*simPacket {
		t.Errorf("initial window %d bytes", got)
	}
	s.cycle.filled, s.cycle.phase = true, cruise
	s.resize(0)
	if got := s.GetCongestionWindow(); got < minWindowPackets*simPacket {
		t.Errorf("window %d bytes, below the floor", got)
	}
	s.bandwidth.see(1e12)
	s.trip.see(1, time.Second)
	s.resize(0)
	if got := s.GetCongestionWindow(); got > maxWindowPackets*simPacket {
		t.Errorf("window %d bytes, above quic-go's limit", got)
	}
}

// However low the estimate fell, on any path, it rises again.
func TestClimbsFromALowEstimate(t *testing.T) {
	for _, c := range []struct {
		jitter time.Duration
		loss   float64
	}{{0, 0}, {0, 0.05}, {10 * ms, 0}, {10 * ms, 0.01}, {10 * ms, 0.05}, {20 * ms, 0.05}} {
		t.Run(fmt.Sprintf("%v loss %v", c.jitter, c.loss), func(t *testing.T) {
			t.Parallel()
			s := newSim(200, 20*ms, 2, c.loss)
			s.jitter = c.jitter
			f := s.flow()
			s.run(2 * time.Second)
			f.offers = func() congestion.ByteCount { return 0 }
			s.run(500 * ms) // no packet in flight gives a sign
			f.offers = nil
			f.cc.bandwidth = bandwidth{now: 3e6 / 8}
			f.cc.enter(s.now, cruise)
			f.cc.resize(0)
			f.cc.pace(s.now)
			s.at(s.now, f.send)
			f.reset()
			got := f.until(0.7, 200*ms, 20*time.Second)
			t.Logf("from 3 to 140 Mbps in %v", got)
			if got > 8*time.Second {
				t.Errorf("from 3 to 140 Mbps in %v", got)
			}
		})
	}
}
