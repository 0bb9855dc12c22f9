package datagram

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/apernet/quic-go/congestion"
)

// errBlackHole ends a Session whose large packets do not arrive any more. QUIC
// raises the size of its packets when a path is good for it and never takes that
// back; the next connection finds out anew what passes.
var errBlackHole = errors.New("packets that used to pass do so no more: the path's MTU has shrunk")

const (
	// holeLosses is how many large packets in a row, and holeTime for how long, must
	// have been lost while others arrived: far more than any loss at random.
	holeLosses = 16
	holeTime   = time.Second
	// holeStale is how long after a loss the next one begins to count anew.
	holeStale = 5 * time.Second
)

// sizes looks over a congestion controller's shoulder: it counts losses, and tells
// when packets of sizes that the path used to carry are lost without exception.
// Smaller ones that arrive prove nothing, for a path that takes 1,400 bytes no more may
// well take 1,300. All but lost, hole and tell is of QUIC's own goroutine.
type sizes struct {
	congestion.CongestionControlEx
	lost atomic.Uint64
	hole chan struct{} // has one element when there is a black hole
	tell atomic.Pointer[func()]

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

// watch calls tell, which must not wait, when there is a black hole or was one; it may
// do so twice.
func (s *sizes) watch(tell func()) {
	s.tell.Store(&tell)
	if len(s.hole) == 1 {
		tell()
	}
}

// OnCongestionEventEx hears of every packet's fate. A path that was dead has its
// losses told at once when it returns: so the time counts from the first that is
// told of to a later one.
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
			if tell := s.tell.Load(); tell != nil {
				(*tell)()
			}
		default:
		}
	}
	s.CongestionControlEx.OnCongestionEventEx(inFlight, now, acked, lost)
}

// missed counts what was lost of the sizes that used to arrive, and reports whether
// there was something. What is larger is a try of QUIC's, which may well be lost.
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
