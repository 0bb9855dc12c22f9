package bbr

import (
	"testing"
	"time"

	"github.com/apernet/quic-go/congestion"
)

const epoch = congestion.Time(time.Hour)

// drainPacer sends while it may and says how much went.
func drainPacer(p *pacer, now congestion.Time) (n congestion.ByteCount) {
	for p.open(now) {
		p.sent(now, simPacket)
		n += simPacket
	}
	return n
}

func TestPacerKeepsTheRate(t *testing.T) {
	for _, r := range []rate{1e5, 1e6, 25e6, 250e6, 1e9} {
		p := newPacer(simPacket)
		p.setRate(epoch, r)
		drainPacer(&p, epoch)
		now, total, wakeUps := epoch, congestion.ByteCount(0), 0
		for now.Sub(epoch) < time.Second {
			at := p.opensAt()
			if at <= now {
				t.Fatalf("rate %.0f: closed, but opens at once", r)
			}
			now = at
			n := drainPacer(&p, now)
			if n == 0 {
				t.Fatalf("rate %.0f: closed at the time it promised to open", r)
			}
			total += n
			wakeUps++
		}
		got := float64(total) / now.Sub(epoch).Seconds()
		if got < 0.99*float64(r) || got > 1.01*float64(r)+float64(2*simPacket) {
			t.Errorf("rate %.0f: sent %.0f a second", r, got)
		}
		// A wake-up moves a quantum: no more than a thousand a second below 64 KiB a millisecond.
		if most := max(1010, int(1.02*float64(r)/maxBatch)); wakeUps > most {
			t.Errorf("rate %.0f: %d wake-ups a second, want at most %d", r, wakeUps, most)
		}
	}
}

func TestPacerBursts(t *testing.T) {
	for _, c := range []struct {
		rate rate
		want congestion.ByteCount
	}{
		{1e5, minBurstPackets * simPacket},      // slow: not a long queue
		{25e6, maxBatch},                        // 200 Mbps: a batch of the kernel's
		{250e6, rate(250e6).bytesIn(burstTime)}, // 2 Gbps: the bytes that a late timer missed
	} {
		p := newPacer(simPacket)
		p.setRate(epoch, c.rate)
		drainPacer(&p, epoch)
		later := epoch.Add(time.Minute)
		if !p.full(later) {
			t.Errorf("rate %.0f: not full after a minute", c.rate)
		}
		if got := drainPacer(&p, later); got < c.want-simPacket || got > c.want {
			t.Errorf("rate %.0f: burst of %d bytes, want %d", c.rate, got, c.want)
		}
	}
}

func TestPacerOverdraft(t *testing.T) {
	p := newPacer(simPacket)
	p.setRate(epoch, 25e6)
	for range 10_000 { // probes and the like leave unasked
		p.sent(epoch, simPacket)
	}
	if p.open(epoch) {
		t.Error("open after an overdraft")
	}
	if wait := p.opensAt().Sub(epoch); wait > 10*time.Millisecond {
		t.Errorf("closed for %v after an overdraft", wait)
	}
	if p.open(epoch.Add(-time.Second)) {
		t.Error("open in the past")
	}
}
