package ice

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pion/stun/v2"

	"cadre.dev/overlay/internal/stunaddr"
)

// portQueue bounds the checks that wait for an agent. Checks wait longest while the Peer
// knows our credentials and this side lacks the Peer's.
const portQueue = 64

// port is one search's share of the socket. It passes only authentic messages.
type port struct {
	// constant after newPort
	mux    *Mux
	ufrag  string
	pwd    stun.MessageIntegrity
	policy policy
	known  *ledger
	valid  func() // called when another address became valid; must not block
	v4, v6 face
	done   chan struct{}

	mu        sync.Mutex
	remotePwd stun.MessageIntegrity // nil before the Peer's is known
	waiting   []transactionID       // oldest first
	waitSince []time.Time
	closed    bool
}

type packet struct {
	data []byte
	from *net.UDPAddr
}

// face is a port in one address family, a PacketConn to the agent: it keeps
// candidates of the families apart.
type face struct {
	*port
	queue chan packet
}

var _ net.PacketConn = face{}

func newPort(m *Mux, ufrag, pwd string, pol policy, known *ledger, valid func()) *port {
	p := &port{
		mux: m, ufrag: ufrag, pwd: stun.NewShortTermIntegrity(pwd), policy: pol, known: known, valid: valid,
		done: make(chan struct{}),
	}
	p.v4 = face{port: p, queue: make(chan packet, portQueue)}
	p.v6 = face{port: p, queue: make(chan packet, portQueue)}
	return p
}

func (p *port) setRemotePwd(pwd string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remotePwd = stun.NewShortTermIntegrity(pwd)
}

// request takes a check of the Peer. m is the caller's scratch space.
func (p *port) request(m *stun.Message, from netip.AddrPort) {
	if p.policy.check(from.Addr()) != nil {
		p.mux.stats.forbidden.Add(1)
		return
	}
	if p.pwd.Check(m) != nil {
		p.mux.stats.forged.Add(1)
		return
	}
	if !p.known.heardFrom(from, senderKind(m)) {
		p.mux.stats.overflow.Add(1)
		return
	}
	p.pass(m.Raw, from)
}

// senderKind distinguishes a relay's address from another one by the priority in the
// Peer's check, which has a first byte of 0 for relays. Checks may come before the
// candidate that names the address.
func senderKind(m *stun.Message) string {
	if b, err := m.Get(stun.AttrPriority); err == nil && len(b) == 4 && b[0] == 0 {
		return typeRelay
	}
	return typePrflx
}

// response takes the answer to a check of ours. m is the caller's scratch space.
func (p *port) response(m *stun.Message, q *pendingCheck, now time.Time) {
	p.mu.Lock()
	key := p.remotePwd
	p.mu.Unlock()
	if key == nil || key.Check(m) != nil {
		p.mux.stats.forged.Add(1)
		return
	}
	p.mux.forget(m.TransactionID)
	if m.Type.Class == stun.ClassSuccessResponse {
		seen, _ := stunaddr.Read(m, stun.AttrXORMappedAddress)
		if p.known.answered(q.to, now.Sub(q.sent), seen) {
			p.valid()
		}
	}
	p.pass(m.Raw, q.to)
}

func (p *port) pass(raw []byte, from netip.AddrPort) {
	f := p.v6
	if from.Addr().Is4() {
		f = p.v4
	}
	select {
	case f.queue <- packet{data: append([]byte(nil), raw...), from: net.UDPAddrFromAddrPort(from)}:
	default:
		p.mux.stats.overflow.Add(1)
	}
}

// ReadFrom waits for one message, until Close.
func (f face) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case <-f.done:
		return 0, nil, io.EOF
	default:
	}
	select {
	case pkt := <-f.queue:
		if len(b) < len(pkt.data) {
			return 0, nil, io.ErrShortBuffer
		}
		return copy(b, pkt.data), pkt.from, nil
	case <-f.done:
		return 0, nil, io.EOF
	}
}

// WriteTo sends one STUN message. A check held back counts as sent: to its
// sender it is a lost one.
func (p *port) WriteTo(b []byte, to net.Addr) (int, error) {
	udp, ok := to.(*net.UDPAddr)
	if !ok || !stun.IsMessage(b) {
		return 0, net.InvalidAddrError("only checks may be sent, over udp")
	}
	addr := plain(udp.AddrPort())
	if class(b) == stun.ClassRequest {
		now := time.Now()
		if !p.known.mayCheck(addr, now) {
			p.mux.stats.paced.Add(1)
			return len(b), nil
		}
		if !p.await(b, addr, now) {
			return 0, io.ErrClosedPipe
		}
	}
	return p.mux.conn.WriteTo(b, net.UDPAddrFromAddrPort(addr))
}

// await notes a check that is about to leave. It is false after Close.
func (p *port) await(b []byte, to netip.AddrPort, now time.Time) bool {
	var id transactionID
	copy(id[:], b[8:])
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	old := 0
	for old < len(p.waiting) && (len(p.waiting)-old >= maxPending || now.Sub(p.waitSince[old]) > pendingFor) {
		old++
	}
	if old > 0 {
		p.mux.forget(p.waiting[:old]...)
		p.waiting = append(p.waiting[:0], p.waiting[old:]...)
		p.waitSince = append(p.waitSince[:0], p.waitSince[old:]...)
	}
	p.waiting = append(p.waiting, id)
	p.waitSince = append(p.waitSince, now)
	p.mux.expect(id, &pendingCheck{to: to, sent: now, port: p})
	return true
}

// class reads the class of a STUN message from its type.
func class(b []byte) stun.MessageClass {
	var t stun.MessageType
	t.ReadValue(uint16(b[0])<<8 | uint16(b[1]))
	return t.Class
}

// Close ends ReadFrom. The port answers nothing from here on.
func (p *port) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	waiting := p.waiting
	p.waiting, p.waitSince = nil, nil
	p.mu.Unlock()
	close(p.done)
	p.mux.remove(p, waiting)
	return nil
}

func (p *port) LocalAddr() net.Addr { return p.mux.conn.LocalAddr() }

// Deadlines mean nothing here: Close ends a read.
func (*port) SetDeadline(time.Time) error      { return nil }
func (*port) SetReadDeadline(time.Time) error  { return nil }
func (*port) SetWriteDeadline(time.Time) error { return nil }
