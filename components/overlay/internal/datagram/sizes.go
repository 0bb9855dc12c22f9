package datagram

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/apernet/quic-go/congestion"
)

// errBlackHole ends a Session after its large packets cease to arrive. QUIC raises the
// size of its packets when a path is good for it and never lowers the size again; the
// next connection measures the path again.
var errBlackHole = errors.New("large packets are lost: the path's MTU has shrunk")

const (
	// holeLosses is how many large packets in a row, and holeTime for how long, must
	// have been lost while others arrived: far more than any loss at random.
	holeLosses = 16
	holeTime   = time.Second
	// holeStale is the time after a loss, after which the next loss restarts the count.
	holeStale = 5 * time.Second
)

// sizes observes the congestion controller's events. It counts losses, and reports when
// packets of formerly good sizes are lost without exception. Smaller packets that arrive
// prove nothing: a path that has ceased to carry 1,400 bytes may still carry 1,300. Only
// QUIC's own goroutine uses the fields, except lost, hole and notify.
type sizes struct {
	congestion.CongestionControlEx
	lost   atomic.Uint64
	hole   chan struct{} // has one element when there is a black hole
	notify atomic.Pointer[func()]

	most congestion.ByteCount // the largest packet that arrived
	// run counts large packets lost in a row, none of which was smaller than least, from
	// since on, the last at last.
	run         int
	least       congestion.ByteCount
	since, last congestion.Time
}

func watchSizes(c congestion.CongestionControlEx) *sizes {
	return &sizes{CongestionControlEx: c, hole: make(chan struct{}, 1)}
}

// watch calls notify, which must return at once, when there is a black hole or was one; it
// may do so twice.
func (s *sizes) watch(notify func()) {
	s.notify.Store(&notify)
	if len(s.hole) == 1 {
		notify()
	}
}

// OnCongestionEventEx receives every packet's fate. QUIC reports all losses of a dead
// path at once when the path returns. So the measured time runs from the first reported
// loss to a later one.
func (s *sizes) OnCongestionEventEx(inFlight congestion.ByteCount, now congestion.Time, acked []congestion.AckedPacketInfo, lost []congestion.LostPacketInfo) {
	s.lost.Add(uint64(len(lost)))
	for _, p := range acked {
		s.most = max(s.most, p.BytesAcked)
		if p.BytesAcked >= s.least {
			s.run = 0
		}
	}
	if s.missed(now, lost) && s.run >= holeLosses && now.Sub(s.since) >= holeTime {
		select {
		case s.hole <- struct{}{}:
			if notify := s.notify.Load(); notify != nil {
				(*notify)()
			}
		default:
		}
	}
	s.CongestionControlEx.OnCongestionEventEx(inFlight, now, acked, lost)
}

// missed counts the losses among the sizes that used to arrive, and reports whether there
// was one. A larger packet is QUIC's probe, and its loss is normal.
func (s *sizes) missed(now congestion.Time, lost []congestion.LostPacketInfo) bool {
	if now.Sub(s.last) > holeStale {
		s.run = 0
	}
	counted := false
	for _, p := range lost {
		if p.BytesLost <= packetSize || p.BytesLost > s.most {
			continue
		}
		if s.run == 0 {
			s.since, s.least = now, p.BytesLost
		}
		s.run++
		s.least, s.last, counted = min(s.least, p.BytesLost), now, true
	}
	return counted
}
