package underlay

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	quic "github.com/apernet/quic-go"
	"golang.org/x/net/ipv4"
)

// quicConn is the Socket as quic-go sees it. quic-go uses its fast path for a
// quic.OOBCapablePacketConn, learns from SyscallConn whether the kernel segments, and
// reads through ReadBatch if the method exists. Without ReadBatch, quic-go would take the
// file descriptor and read past this package.
type quicConn struct {
	s      *Socket
	local  *net.UDPAddr
	last   atomic.Pointer[Link] // the last one sent to
	closed atomic.Bool
}

var (
	_ quic.OOBCapablePacketConn = (*quicConn)(nil)
	_ interface {
		ReadBatch(ms []ipv4.Message, flags int) (int, error)
		SetWriteBuffer(bytes int) error
	} = (*quicConn)(nil)
)

func newQUICConn(s *Socket) *quicConn {
	// QUIC lives in the world of virtual addresses. Given an unspecified local address,
	// QUIC would require the destination address of each datagram.
	local, _ := newVirtual()
	local.Port = s.local.Port
	return &quicConn{s: s, local: local}
}

// lookup finds a Link by its virtual address.
func (q *quicConn) lookup(key virtualKey) *Link {
	if l := q.last.Load(); l != nil && l.key == key {
		return l
	}
	l := (*q.s.virtuals.Load())[key]
	if l != nil {
		q.last.Store(l)
	}
	return l
}

// ReadBatch fills each message with one datagram.
func (q *quicConn) ReadBatch(ms []ipv4.Message, _ int) (int, error) {
	if err := q.check(); err != nil {
		return 0, err
	}
	n, err := q.s.receiver.read(len(ms), func(i int, d inbound) bool {
		m := &ms[i]
		b := m.Buffers[0]
		if len(d.data) > len(b) {
			return false
		}
		m.N, m.NN, m.Flags = copy(b, d.data), 0, 0
		m.Addr = d.link.virtual
		if int(d.ecn) < len(ecnControl) {
			if c := ecnControl[d.ecn]; len(c) <= len(m.OOB) {
				m.NN = copy(m.OOB, c)
			}
		}
		return true
	})
	return n, q.closing(err)
}

// ReadMsgUDP reads one datagram.
func (q *quicConn) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	var m [1]ipv4.Message
	m[0].Buffers, m[0].OOB = [][]byte{b}, oob
	if _, err = q.ReadBatch(m[:], 0); err != nil {
		return 0, 0, 0, nil, err
	}
	return m[0].N, m[0].NN, 0, m[0].Addr.(*net.UDPAddr), nil
}

// ReadFrom reads one datagram.
func (q *quicConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, _, _, addr, err := q.ReadMsgUDP(b, nil)
	if err != nil {
		return 0, nil, err
	}
	return n, addr, nil
}

// WriteMsgUDP sends to a virtual address, with the control messages unchanged.
func (q *quicConn) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	if err := q.s.write(b, oob, keyOf(addr)); err != nil {
		return 0, 0, err
	}
	return len(b), len(oob), nil
}

// WriteTo sends one datagram to a virtual address.
func (q *quicConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	to, ok := addr.(*net.UDPAddr)
	if !ok {
		return 0, fmt.Errorf("send to %s: %w", addr.Network(), os.ErrInvalid)
	}
	n, _, err := q.WriteMsgUDP(b, nil, to)
	return n, err
}

// LocalAddr is a virtual address with the socket's port.
func (q *quicConn) LocalAddr() net.Addr { return q.local }

// SyscallConn is the real socket's; quic-go sets options through it.
func (q *quicConn) SyscallConn() (syscall.RawConn, error) { return q.s.raw, nil }

// SetReadBuffer does nothing: Open has requested the largest buffer.
func (q *quicConn) SetReadBuffer(int) error { return nil }

// SetWriteBuffer does nothing: Open has requested the largest buffer.
func (q *quicConn) SetWriteBuffer(int) error { return nil }

// SetDeadline is SetReadDeadline: writes do not wait for a Peer.
func (q *quicConn) SetDeadline(t time.Time) error { return q.SetReadDeadline(t) }

// SetReadDeadline bounds reading QUIC and leaves STUN and probes alone.
func (q *quicConn) SetReadDeadline(t time.Time) error {
	q.s.receiver.deadline.set(t)
	return nil
}

// SetWriteDeadline does nothing.
func (q *quicConn) SetWriteDeadline(time.Time) error { return nil }

// Close ends reading; the Socket lives on.
func (q *quicConn) Close() error {
	if q.closed.CompareAndSwap(false, true) {
		q.s.receiver.deadline.set(time.Unix(1, 0))
	}
	return nil
}

func (q *quicConn) check() error {
	if q.closed.Load() {
		return errClosed
	}
	return nil
}

// closing returns errClosed in place of the deadline error that Close causes.
func (q *quicConn) closing(err error) error {
	if err != nil && q.closed.Load() {
		return errClosed
	}
	return err
}
