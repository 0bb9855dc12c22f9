package bbr

import (
	"math"
	"testing"
	"time"

	"github.com/apernet/quic-go/congestion"
)

func ackOf(numbers ...congestion.PacketNumber) (a []congestion.AckedPacketInfo) {
	for _, n := range numbers {
		a = append(a, congestion.AckedPacketInfo{PacketNumber: n, BytesAcked: simPacket})
	}
	return a
}

func ignore(record) {}

// steady sends a packet each millisecond and acknowledges it 20 ms later.
func steady(f *flight, from, to int) (last sample) {
	for k := from; k < to; k++ {
		now := epoch.Add(time.Duration(k) * time.Millisecond)
		if k >= from+20 {
			last = f.acked(now, ackOf(congestion.PacketNumber(k-20)), ignore)
		}
		f.sent(now, congestion.PacketNumber(k), simPacket, congestion.ByteCount(min(k-from, 20))*simPacket, false, time.Second)
	}
	return last
}

func TestFlightMeasuresTheRate(t *testing.T) {
	f := newFlight()
	got := steady(&f, 0, 100)
	want := float64(simPacket) * 1000
	if math.Abs(float64(got.rate)-want) > 0.06*want {
		t.Errorf("rate %.0f, want %.0f", got.rate, want)
	}
	if got.roundTrip != 20*time.Millisecond {
		t.Errorf("round trip %v", got.roundTrip)
	}
	if got.appLimited {
		t.Error("application-limited, but it was not")
	}
}

// Acknowledgements that were held back and come at once are no bandwidth.
func TestFlightIgnoresCompressedAcknowledgements(t *testing.T) {
	f := newFlight()
	steady(&f, 0, 100)
	now := epoch.Add(140 * time.Millisecond)
	var best rate
	for n := congestion.PacketNumber(80); n < 100; n++ {
		best = max(best, f.acked(now.Add(time.Duration(n)), ackOf(n), ignore).rate)
	}
	if most := 1.1 * float64(simPacket) * 1000; float64(best) > most {
		t.Errorf("rate %.0f, but no more than %.0f was sent", best, most)
	}
}

func TestFlightApplicationLimit(t *testing.T) {
	f := newFlight()
	f.sent(epoch, 0, simPacket, 0, false, 0)
	f.ranDry(simPacket)
	f.sent(epoch.Add(1), 1, simPacket, simPacket, false, 0)
	if f.acked(epoch.Add(ms), ackOf(0), ignore).appLimited {
		t.Error("the packet before the limit is limited")
	}
	if !f.acked(epoch.Add(ms+1), ackOf(1), ignore).appLimited {
		t.Error("the packet after the limit is not limited")
	}
	f.sent(epoch.Add(2*ms), 2, simPacket, 0, false, 0)
	if f.acked(epoch.Add(3*ms), ackOf(2), ignore).appLimited {
		t.Error("limited after all of it was delivered")
	}
}

// quic-go numbers packets per encryption level: numbers repeat, and packets sent
// before the controller was installed are acknowledged to it.
func TestFlightOfUnknownPackets(t *testing.T) {
	f := newFlight()
	f.sent(epoch, 5, simPacket, 0, false, 0)
	f.sent(epoch, 3, simPacket, simPacket, false, 0)
	got := f.acked(epoch.Add(ms), ackOf(3, 4), ignore)
	if got.acked != 2*simPacket || got.rate != 0 || got.roundTrip != 0 {
		t.Errorf("sample %+v of packets without record", got)
	}
	if got := f.acked(epoch.Add(ms), ackOf(5, 5), ignore); got.roundTrip != ms {
		t.Errorf("round trip %v", got.roundTrip)
	}
	if f.live != 0 {
		t.Errorf("%d records live", f.live)
	}
}

func TestFlightMemory(t *testing.T) {
	f := newFlight()
	for n := range congestion.PacketNumber(20_000) {
		f.sent(epoch.Add(time.Duration(n)), n, simPacket, congestion.ByteCount(n)*simPacket, false, time.Second)
	}
	if f.live != 20_000 || len(f.records) != 1<<15 {
		t.Errorf("%d records in a ring of %d", f.live, len(f.records))
	}
	for n := range congestion.PacketNumber(20_000) {
		if _, ok := f.take(n); !ok {
			t.Fatalf("packet %d forgotten", n)
		}
	}
	f.sent(epoch.Add(time.Second), 20_000, simPacket, 0, false, 0)
	if len(f.records) != minRecords {
		t.Errorf("an idle connection keeps a ring of %d", len(f.records))
	}
	// The records of a probe timeout are overwritten, and not kept permanently.
	for n := range congestion.PacketNumber(1_000_000) {
		now := epoch.Add(time.Second + time.Duration(n)*time.Millisecond)
		f.sent(now, 20_001+n, simPacket, 0, false, 0)
	}
	if len(f.records) > 16*minRecords {
		t.Errorf("a ring of %d for unresolved records", len(f.records))
	}
}
