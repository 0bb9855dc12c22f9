package underlay

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// received is one buffer from the kernel: one datagram, or several of one size
// (the last may be shorter) that the kernel coalesced.
type received struct {
	data    []byte
	segment int // size of a datagram
	from    netip.AddrPort
	ecn     byte // ecnUnknown when the kernel did not report the bits
}

const ecnUnknown = 0xff

// inbound is one datagram for QUIC.
type inbound struct {
	data []byte
	link *Link
	ecn  byte
	// owned, when not nil, is released after data was copied.
	owned *packet
}

// receiver takes datagrams off the socket and sorts them. The holder of mu reads: the
// reader of QUIC, or standIn while there is no reader.
type receiver struct {
	s       *Socket
	gro     bool
	kernel  kernelReader
	waiting atomic.Bool // a reader of QUIC exists
	resume  chan struct{}

	mu     sync.Mutex
	batch  []received // from the kernel, not sorted yet
	sorted []byte     // rest of batch[0], not sorted yet
	now    time.Duration
	errors int  // in a row
	lift   bool // the deadline has passed
	// lastFrom and lastPath remember one look-up in lastTable.
	lastFrom  netip.AddrPort
	lastTable *map[netip.AddrPort]*path
	lastPath  *path

	// Datagrams that came over relays. Their goroutines have no way to wake a
	// reader that sits in the kernel but to let its deadline pass.
	kicked   atomic.Bool
	queue    chan relayed
	deadline deadline
}

// relayed is a datagram of a relayed path.
type relayed struct {
	packet *packet
	path   *path
}

const relayQueue = 1024

func newReceiver(s *Socket) *receiver {
	r := &receiver{s: s, resume: make(chan struct{}, 1), queue: make(chan relayed, relayQueue)}
	r.deadline.fire = r.interrupt
	r.gro = enableReceive(s.raw, s.log)
	r.kernel = newKernelReader(s.conn, s.raw, r.gro, &s.counts)
	return r
}

// interrupt makes a reader come out of the kernel.
func (r *receiver) interrupt() { _ = r.s.conn.SetReadDeadline(time.Unix(1, 0)) }

// inject hands in a datagram of a relayed path, without waiting.
func (r *receiver) inject(p *path, b []byte) {
	if !p.accepted.Load() {
		r.s.counts.unvalidated.Add(1)
		return
	}
	pkt := newPacket(b, nil)
	if pkt == nil {
		r.s.counts.oversized.Add(1)
		return
	}
	select {
	case r.queue <- relayed{packet: pkt, path: p}:
	default:
		pkt.release()
		r.s.counts.queueFull.Add(1)
		return
	}
	// Order matters, see fill: the queue first, then the mark, then the kick.
	if r.kicked.CompareAndSwap(false, true) {
		r.interrupt()
	}
}

// standIn reads the socket while QUIC has no reader.
func (r *receiver) standIn() {
	for {
		if r.waiting.Load() {
			select {
			case <-r.resume:
			case <-r.s.done:
				return
			}
			continue
		}
		r.mu.Lock()
		err := r.fill(func() bool { return r.waiting.Load() })
		for err == nil {
			d, ok := r.next()
			if !ok {
				break
			}
			d.release()
			r.s.counts.unread.Add(1)
		}
		r.mu.Unlock()
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// take becomes the reader of QUIC, until leave.
func (r *receiver) take() {
	if r.waiting.CompareAndSwap(false, true) {
		r.interrupt()
	}
}

// leave lets standIn read again.
func (r *receiver) leave() {
	if r.waiting.CompareAndSwap(true, false) {
		select {
		case r.resume <- struct{}{}:
		default:
		}
	}
}

// read calls deliver with each of up to n datagrams for QUIC, and waits for the first. It
// returns the number of datagrams delivered.
func (r *receiver) read(n int, deliver func(i int, d inbound) bool) (int, error) {
	r.take()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		count := 0
		for count < n {
			d, ok := r.next()
			if !ok {
				break
			}
			if deliver(count, d) {
				count++
			} else {
				r.s.counts.oversized.Add(1)
			}
			d.release()
		}
		if count > 0 {
			return count, nil
		}
		if err := r.fill(r.deadline.passed); err != nil {
			r.leave()
			return 0, err
		}
	}
}

// next gives the next datagram for QUIC and deals with all others on the way.
func (r *receiver) next() (inbound, bool) {
	c := &r.s.counts
	if len(r.queue) > 0 {
		q := <-r.queue
		return inbound{data: q.packet.bytes(), link: q.path.link, ecn: ecnUnknown, owned: q.packet}, true
	}
	for len(r.batch) > 0 {
		b := &r.batch[0]
		if len(r.sorted) == 0 {
			r.sorted = b.data
			c.bytesIn.Add(uint64(len(b.data)))
			if k := (len(b.data) + b.segment - 1) / b.segment; k > 1 {
				c.coalesced.Add(uint64(k))
				c.datagramsIn.Add(uint64(k))
			} else {
				c.datagramsIn.Add(1)
			}
		}
		d := r.sorted[:min(b.segment, len(r.sorted))]
		r.sorted = r.sorted[len(d):]
		from, ecn := b.from, b.ecn
		if len(r.sorted) == 0 {
			r.batch = r.batch[1:]
		}
		switch classify(d) {
		case classQUIC:
			p := r.validated(from)
			if p == nil {
				c.unvalidated.Add(1)
				continue
			}
			p.received.Add(1)
			p.bytesIn.Add(uint64(len(d)))
			return inbound{data: d, link: p.link, ecn: ecn}, true
		case classSTUN:
			r.s.pushSTUN(d, from)
		case classProbe:
			r.s.probed(d, from, nil, r.now)
		case classOther:
			c.unknown.Add(1)
		}
	}
	return inbound{}, false
}

// validated returns the path with the validated address from, nil without one.
func (r *receiver) validated(from netip.AddrPort) *path {
	table := r.s.sources.Load()
	if table == r.lastTable && from == r.lastFrom {
		return r.lastPath
	}
	p := (*table)[from]
	r.lastTable, r.lastFrom, r.lastPath = table, from, p
	return p
}

// fill waits for datagrams from the kernel or from a relay. It returns
// [os.ErrDeadlineExceeded] when stop returns true, and [net.ErrClosed] at the end.
func (r *receiver) fill(stop func() bool) error {
	for {
		// Order matters. A caller that wants attention first records why, then lets the
		// deadline pass. Here the deadline is lifted first, and the records are read
		// after that. An unlucky order costs one more round at worst. A deadline that has
		// not been met yet need not be lifted, which spares every read the trouble.
		if r.lift {
			r.lift = false
			_ = r.s.conn.SetReadDeadline(time.Time{})
		}
		r.kicked.Store(false)
		if stop() {
			return os.ErrDeadlineExceeded
		}
		if len(r.queue) > 0 {
			return nil
		}
		batch, err := r.kernel.read()
		switch {
		case err == nil:
			r.errors = 0
			r.batch, r.now = batch, r.s.now()
			return nil
		case errors.Is(err, net.ErrClosed):
			return errClosed
		case errors.Is(err, os.ErrDeadlineExceeded):
			r.lift = true
		default:
			// An error of an earlier datagram on its way says nothing about the socket. A
			// socket that only ever fails is reported instead of being spun on.
			r.s.counts.receiveProblem.Add(1)
			if r.errors++; r.errors > 100 {
				return err
			}
		}
	}
}

func (d *inbound) release() {
	if d.owned != nil {
		d.owned.release()
		d.owned = nil
	}
}

// deadline is a read deadline. Its zero value is none.
type deadline struct {
	fire func() // called when it passes; constant

	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
	over  atomic.Bool
}

func (d *deadline) passed() bool { return d.over.Load() }

// set has fire called at t, at once when t is past; the zero time is never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = t
	d.over.Store(false)
	switch wait := time.Until(t); {
	case t.IsZero():
	case wait <= 0:
		d.over.Store(true)
		d.fire()
	default:
		d.timer = time.AfterFunc(wait, func() { d.expire(t) })
	}
}

// expire makes the deadline t pass, unless another one was set meanwhile.
func (d *deadline) expire(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.Equal(t) {
		d.over.Store(true)
		d.fire()
	}
}
