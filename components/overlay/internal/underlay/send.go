package underlay

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
)

// write sends QUIC's data to a virtual address: one datagram, or several of the size that
// the control messages name. Failures on the way stay hidden from the caller: a path's
// failure counts as loss, and must not end the QUIC transport of all Peers.
func (s *Socket) write(b, oob []byte, key virtualKey) error {
	l := s.quic.lookup(key)
	if l == nil {
		s.counts.noPath.Add(1)
		return s.whenClosed()
	}
	if l.resends.on.Load() {
		l.resends.keep(b, segmentSize(oob))
	}
	p := l.out.Load()
	if p == nil {
		s.counts.noPath.Add(1)
		return s.whenClosed()
	}
	err := p.send(b, oob)
	if !l.busy.Load() && l.busy.CompareAndSwap(false, true) {
		l.soon()
	}
	return err
}

func (s *Socket) whenClosed() error {
	select {
	case <-s.done:
		return errClosed
	default:
		return nil
	}
}

// send sends over one path; the error is that of a closed Socket or nil.
func (p *path) send(b, oob []byte) error {
	c := &p.link.s.counts
	size := len(b)
	if len(oob) > 0 {
		if n := segmentSize(oob); n > 0 {
			size = n
		}
	}
	n := uint64(1)
	if size < len(b) {
		n = uint64((len(b) + size - 1) / size)
		c.segmented.Add(n)
	}
	p.sent.Add(n)
	p.bytesOut.Add(uint64(len(b)))
	c.datagramsOut.Add(n)
	c.bytesOut.Add(uint64(len(b)))
	if p.relay != nil {
		return p.relay.send(b, size)
	}
	to := *p.remote.Load()
	if n > 1 && p.whole.Load() {
		return p.sendEach(b, oob, size, to)
	}
	c.syscallsOut.Add(1)
	_, _, err := p.link.s.conn.WriteMsgUDPAddrPort(b, oob, to)
	if err == nil {
		return nil
	}
	if n > 1 && (errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EINVAL)) {
		// EIO: this way out has no checksum offload and never will.
		if errors.Is(err, syscall.EIO) {
			p.whole.Store(true)
		}
		return p.sendEach(b, oob, size, to)
	}
	return p.link.s.lost(err)
}

// sendEach replaces the kernel's segmentation: one send for each datagram.
func (p *path) sendEach(b, oob []byte, size int, to netip.AddrPort) error {
	oob = withoutSegmentSize(oob)
	for len(b) > 0 {
		n := min(size, len(b))
		p.link.s.counts.syscallsOut.Add(1)
		if _, _, err := p.link.s.conn.WriteMsgUDPAddrPort(b[:n], oob, to); err != nil {
			if err := p.link.s.lost(err); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	return nil
}

// lost counts a send that failed. ENETUNREACH, EHOSTUNREACH, EPERM, ECONNREFUSED,
// EMSGSIZE and every other error about one destination count as loss; only the end of the
// socket itself is an error.
func (s *Socket) lost(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return errClosed
	}
	s.counts.sendErrors.Add(1)
	return nil
}

// sendProbe sends a probe over a relay, or to an address.
func (s *Socket) sendProbe(b *[probeSize]byte, via *relay, to netip.AddrPort) {
	s.counts.datagramsOut.Add(1)
	s.counts.bytesOut.Add(probeSize)
	if via != nil {
		_ = via.send(b[:], probeSize)
		return
	}
	s.counts.syscallsOut.Add(1)
	if _, err := s.conn.WriteToUDPAddrPort(b[:], to); err != nil {
		_ = s.lost(err)
	}
}

// resendBuffer keeps the last datagrams while the path in use may be dead. If another path takes
// over, it sends these datagrams again: QUIC would repeat them only after a timeout that
// has doubled several times by then.
type resendBuffer struct {
	on atomic.Bool

	mu   sync.Mutex
	ring [resendLength]*packet
	n    int
}

const resendLength = 16

// enable starts or stops keeping.
func (h *resendBuffer) enable(on bool) {
	if h.on.Load() == on {
		return
	}
	if !on {
		h.stop()
		return
	}
	h.on.Store(true)
}

func (h *resendBuffer) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on.Store(false)
	for i, p := range h.ring {
		if p != nil {
			p.release()
			h.ring[i] = nil
		}
	}
	h.n = 0
}

// keep copies datagrams of size bytes each; 0 means that b is one.
func (h *resendBuffer) keep(b []byte, size int) {
	if size <= 0 {
		size = len(b)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(b) > 0 && h.on.Load() {
		n := min(size, len(b))
		if p := newPacket(b[:n], nil); p != nil {
			slot := &h.ring[h.n%resendLength]
			if *slot != nil {
				(*slot).release()
			}
			*slot = p
			h.n++
		}
		b = b[n:]
	}
}

// resend sends the kept datagrams over p, the oldest first.
func (h *resendBuffer) resend(p *path) {
	if !h.on.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range resendLength {
		if k := h.ring[(h.n+i)%resendLength]; k != nil {
			_ = p.send(k.bytes(), nil)
		}
	}
}
