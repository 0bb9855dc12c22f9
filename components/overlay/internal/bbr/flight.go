package bbr

import (
	"time"

	"github.com/apernet/quic-go/congestion"
)

const (
	// minRecords is the ring of an idle connection: a node has many of those.
	minRecords = 8
	// spareRecords is the ring that is kept between bursts.
	spareRecords = 256
	// maxRecords is above quic-go's limit of packets in flight (40,000).
	maxRecords = 1 << 16
	// staleRecord is the least age at which an unresolved record may be overwritten
	// instead of enlarging the ring.
	staleRecord = 100 * time.Millisecond
)

// record describes a packet in flight by the state of delivery when it left.
type record struct {
	number      congestion.PacketNumber
	live        bool
	probing     bool // left while asking for more bandwidth
	appLimited  bool
	bytes       congestion.ByteCount
	sentAt      congestion.Time
	flightStart congestion.Time      // start of the flight with the measured delivery
	delivered   congestion.ByteCount // delivered in all when it left
	deliveredAt congestion.Time
}

// sample is the measurement of one acknowledgement. Its rate is zero without a
// measurement.
type sample struct {
	rate       rate
	appLimited bool
	roundTrip  time.Duration        // of the newest packet acknowledged; zero when unknown
	sentWith   congestion.ByteCount // delivered in all when that packet left
	acked      congestion.ByteCount
}

// flight measures the rate of delivery (draft-cheng-iccrg-delivery-rate-estimation): the
// bytes delivered between a packet's sending and its acknowledgement, over the longer of
// the time to send them and the time to acknowledge them.
type flight struct {
	records      []record // ring by packet number; length is a power of two
	largest      congestion.PacketNumber
	live         int
	delivered    congestion.ByteCount
	deliveredAt  congestion.Time
	start        congestion.Time
	limitedUntil congestion.ByteCount // not zero: samples of packets that leave before more than this was delivered are application-limited
}

func newFlight() flight {
	return flight{records: make([]record, minRecords), largest: -1}
}

func (f *flight) slot(n congestion.PacketNumber) *record {
	return &f.records[int(n)&(len(f.records)-1)]
}

// sent records a packet. before is the amount in flight without it; stale is the age at
// which an unresolved record may be overwritten.
func (f *flight) sent(now congestion.Time, n congestion.PacketNumber, bytes, before congestion.ByteCount, probing bool, stale time.Duration) {
	if n <= f.largest {
		return // another packet number space: counted when acknowledged, not sampled
	}
	f.largest = n
	if before <= 0 {
		f.start, f.deliveredAt = now, now
	}
	if f.live == 0 && len(f.records) > spareRecords {
		f.records = make([]record, minRecords)
	}
	r := f.slot(n)
	for r.live && len(f.records) < maxRecords && now.Sub(r.sentAt) < max(stale, staleRecord) {
		f.grow()
		r = f.slot(n)
	}
	if !r.live {
		f.live++
	}
	*r = record{
		number: n, live: true, probing: probing, bytes: bytes,
		appLimited: f.limitedUntil > 0,
		sentAt:     now, flightStart: f.start, delivered: f.delivered, deliveredAt: f.deliveredAt,
	}
}

func (f *flight) grow() {
	old := f.records
	f.records = make([]record, 2*len(old))
	for _, r := range old {
		if r.live {
			*f.slot(r.number) = r
		}
	}
}

// take gives the record of a packet and forgets it.
func (f *flight) take(n congestion.PacketNumber) (record, bool) {
	r := f.slot(n)
	if !r.live || r.number != n {
		return record{}, false
	}
	r.live = false
	f.live--
	return *r, true
}

// acked counts the delivered bytes and measures their rate. each sees every record.
func (f *flight) acked(now congestion.Time, packets []congestion.AckedPacketInfo, each func(record)) sample {
	var s sample
	var newest record
	for _, p := range packets {
		s.acked += p.BytesAcked
		r, ok := f.take(p.PacketNumber)
		if !ok {
			continue
		}
		each(r)
		if !newest.live || r.number > newest.number {
			newest = r
			newest.live = true
		}
	}
	if s.acked == 0 {
		return s
	}
	f.delivered += s.acked
	f.deliveredAt = now
	if f.delivered > f.limitedUntil {
		f.limitedUntil = 0
	}
	if !newest.live {
		return s
	}
	f.start = newest.sentAt
	s.sentWith = newest.delivered
	s.appLimited = newest.appLimited
	s.roundTrip = now.Sub(newest.sentAt)
	span := max(newest.sentAt.Sub(newest.flightStart), now.Sub(newest.deliveredAt))
	if span > 0 {
		s.rate = over(f.delivered-newest.delivered, span)
	}
	return s
}

// ranDry records that the application has nothing to send: the packets in flight, and the
// packets that leave until these are delivered, say nothing about the path's limit.
func (f *flight) ranDry(inFlight congestion.ByteCount) {
	f.limitedUntil = max(f.delivered+inFlight, 1)
}
