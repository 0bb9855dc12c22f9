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
	// holeLosses is how many full packets in a row, and holeTime for how long, must
	// have been lost while others arrived: far more than any loss at random.
	holeLosses = 16
	holeTime   = time.Second
	// fullSlack is by how much a full packet may be smaller than the largest one:
	// frames do not always fill a packet to its last byte.
	fullSlack = 32
)

// sizes looks over a congestion controller's shoulder: it counts losses, and tells
// when packets of the size that the path used to carry are lost without exception.
// Smaller ones prove nothing, for a path that takes 1,400 bytes no more may well take
// 1,300. All but lost and hole is of QUIC's own goroutine.
type sizes struct {
	congestion.CongestionControlEx
	lost atomic.Uint64
	hole chan struct{} // has one element when there is a black hole
	tell atomic.Pointer[func()]

	most  congestion.ByteCount // the largest packet that arrived
	run   int                  // full packets lost in a row
	since congestion.Time
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
// told of.
func (s *sizes) OnCongestionEventEx(inFlight congestion.ByteCount, now congestion.Time, acked []congestion.AckedPacketInfo, lost []congestion.LostPacketInfo) {
	s.lost.Add(uint64(len(lost)))
	for _, p := range acked {
		s.most = max(s.most, p.BytesAcked)
		if s.full(p.BytesAcked) {
			s.run = 0
		}
	}
	for _, p := range lost {
		if !s.full(p.BytesLost) {
			continue
		}
		if s.run == 0 {
			s.since = now
		}
		s.run++
	}
	if s.run >= holeLosses && now.Sub(s.since) >= holeTime {
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

// full tells of a packet about as large as the largest that ever arrived: its fate says
// whether the path still carries what it used to. Larger ones are QUIC's tries, which
// may well be lost.
func (s *sizes) full(size congestion.ByteCount) bool {
	return size > packetSize && size <= s.most && size+fullSlack >= s.most
}
