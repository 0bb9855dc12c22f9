package datagram

import (
	"testing"
	"time"

	"cadre.dev/overlay/internal/bbr"
	"github.com/apernet/quic-go/congestion"
)

func TestBlackHoleIsNoticed(t *testing.T) {
	const full, medium, less, small = packetSize + 240, packetSize + 90, packetSize + 60, packetSize / 4
	type fate struct {
		after time.Duration
		acked congestion.ByteCount // 0 for none
		lost  int
		size  congestion.ByteCount // of the lost packets
	}
	repeat := func(n int, f ...fate) []fate {
		var all []fate
		for range n {
			all = append(all, f...)
		}
		return all
	}
	works := fate{0, full, 0, 0}
	for name, c := range map[string]struct {
		fates []fate
		hole  bool
	}{
		"large ones are lost, small ones arrive":      {append([]fate{works}, repeat(10, fate{200 * time.Millisecond, small, 4, full})...), true},
		"somewhat smaller ones arrive":                {append([]fate{works}, repeat(10, fate{200 * time.Millisecond, less, 4, full})...), true},
		"medium ones are lost, somewhat smaller come": {append([]fate{works}, repeat(10, fate{200 * time.Millisecond, less, 4, medium})...), true},
		"tries that nothing as large came before":     {append([]fate{{0, less, 0, 0}}, repeat(10, fate{200 * time.Millisecond, small, 4, full})...), false},
		"an outage that is over":                      {[]fate{works, {3 * time.Second, small, 200, full}, {20 * time.Millisecond, full, 0, 0}}, false},
		"an outage before silence":                    {[]fate{works, {3 * time.Second, small, 200, full}, {2 * time.Second, small, 0, 0}, {time.Hour, small, 1, full}}, false},
		"loss at random":                              {append([]fate{works}, repeat(50, fate{50 * time.Millisecond, small, 8, full}, fate{50 * time.Millisecond, full, 8, full})...), false},
		"small ones are lost":                         {append([]fate{works}, repeat(50, fate{100 * time.Millisecond, small, 8, small})...), false},
		"few losses":                                  {append([]fate{works}, repeat(3, fate{time.Second, small, 2, full})...), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := watchSizes(bbr.New(bbr.InitialDatagramSize))
			var now congestion.Time
			lost := 0
			for i, f := range c.fates {
				now = now.Add(f.after)
				var acked []congestion.AckedPacketInfo
				if f.acked > 0 {
					acked = append(acked, congestion.AckedPacketInfo{PacketNumber: congestion.PacketNumber(i), BytesAcked: f.acked, ReceivedTime: now})
				}
				var gone []congestion.LostPacketInfo
				for range f.lost {
					gone = append(gone, congestion.LostPacketInfo{BytesLost: f.size})
				}
				lost += f.lost
				s.OnCongestionEventEx(0, now, acked, gone)
			}
			if got := len(s.hole) == 1; got != c.hole {
				t.Errorf("black hole %v, want %v", got, c.hole)
			}
			if got := s.lost.Load(); got != uint64(lost) {
				t.Errorf("%d losses counted, want %d", got, lost)
			}
		})
	}
}
