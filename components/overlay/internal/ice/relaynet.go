package ice

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pion/stun/v2"
	"github.com/pion/transport/v3"
	"github.com/pion/transport/v3/stdnet"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/segment"
)

// relayNet is the network an agent sees: it reaches relays and nothing else.
// With pion's own network, closing an agent waits for a relay that does not
// answer as long as the kernel's connect does; here it ends at once.
type relayNet struct {
	transport.Net                 // the methods an agent does not use
	ctx           context.Context //nolint:containedctx // the agent's methods have none
	policy        policy
	tls           map[string]*tls.Config // by host:port of turns servers

	mu    sync.Mutex
	wires map[wire]bool
	ended bool
}

// wire is a relay's own connection.
type wire interface {
	// giveUp ends a connection without an allocated relay, so that a waiter for its
	// answer gets one.
	giveUp()
}

var sharedNet = sync.OnceValues(stdnet.NewNet)

// newRelayNet makes the network for the relays at uris. ctx ends dialing.
func newRelayNet(ctx context.Context, uris []*stun.URI, roots *x509.CertPool, pol policy) (*relayNet, error) {
	std, err := sharedNet()
	if err != nil {
		return nil, fmt.Errorf("make network: %w", err)
	}
	n := &relayNet{Net: std, ctx: ctx, policy: pol, tls: make(map[string]*tls.Config), wires: make(map[wire]bool)}
	for _, u := range uris {
		if u.Scheme == stun.SchemeTypeTURNS {
			n.tls[fmt.Sprintf("%s:%d", u.Host, u.Port)] = &tls.Config{
				ServerName: u.Host, RootCAs: roots, MinVersion: tls.VersionTLS13, NextProtos: []string{identity.ALPNRelay},
			}
		}
	}
	return n, nil
}

// end gives up every relay that is not allocated and refuses new ones.
func (n *relayNet) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	for w := range n.wires {
		w.giveUp()
	}
}

func (n *relayNet) add(w wire) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wires[w] = true
	if n.ended {
		w.giveUp()
	}
}

func (n *relayNet) remove(w wire) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.wires, w)
}

// Interfaces lists none: host candidates come from the Mux.
func (*relayNet) Interfaces() ([]*transport.Interface, error) { return nil, nil }

func (n *relayNet) ResolveUDPAddr(_, address string) (*net.UDPAddr, error) {
	a, err := resolve(n.ctx, address, "ip4", n.policy)
	if err != nil {
		return nil, fmt.Errorf("find relay: %w", err)
	}
	return net.UDPAddrFromAddrPort(a), nil
}

// ListenPacket opens the socket towards a relay over UDP.
func (n *relayNet) ListenPacket(network, address string) (net.PacketConn, error) {
	var lc net.ListenConfig
	c, err := lc.ListenPacket(n.ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &packetWire{PacketConn: c, net: n}
	n.add(w)
	return w, nil
}

// dial opens the connection towards a relay over TCP or TLS.
func (n *relayNet) dial(_, address string) (net.Conn, error) {
	to, err := resolve(n.ctx, address, "ip4", n.policy)
	if err != nil {
		return nil, fmt.Errorf("find relay: %w", err)
	}
	d := net.Dialer{Control: segment.Small}
	c, err := d.DialContext(n.ctx, "tcp4", to.String())
	if err != nil {
		return nil, fmt.Errorf("dial relay: %w", err)
	}
	if conf := n.tls[address]; conf != nil {
		t := tls.Client(c, conf)
		if err := t.HandshakeContext(n.ctx); err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("greet relay: %w", err)
		}
		c = t
	}
	w := &streamWire{Conn: c, net: n}
	n.add(w)
	return w, nil
}

// grantWait is the time for which giving up waits for a likely answer: the answer to a
// question with credentials, which a silent server never gets. The relay would otherwise
// stay allocated until it expires.
const grantWait = 250 * time.Millisecond

// farewell remembers the last question to a relay, so that giving up can answer
// it: the TURN client would otherwise wait for its next repetition.
type farewell struct {
	mu        sync.Mutex
	question  transactionID
	asked     bool
	granting  bool // asked with credentials
	allocated bool
	givenUp   bool
	late      *time.Timer
}

func (f *farewell) wrote(b []byte) {
	if !stun.IsMessage(b) || class(b) != stun.ClassRequest {
		return
	}
	m := &stun.Message{Raw: bytes.Clone(b)}
	granting := m.Decode() == nil && m.Type.Method == stun.MethodAllocate && m.Contains(stun.AttrUsername)
	f.mu.Lock()
	defer f.mu.Unlock()
	copy(f.question[:], b[8:])
	f.asked, f.granting = true, granting
}

var allocateSuccess = stun.NewType(stun.MethodAllocate, stun.ClassSuccessResponse)

func (f *farewell) read(b []byte) {
	if stun.IsMessage(b) && uint16(b[0])<<8|uint16(b[1]) == allocateSuccess.Value() {
		f.mu.Lock()
		f.allocated = true
		f.mu.Unlock()
	}
}

// begin has end called if there is something to give up: now or a little later.
func (f *farewell) begin(end func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.allocated || f.givenUp {
		return
	}
	f.givenUp = true
	wait := time.Duration(0)
	if f.granting {
		wait = grantWait
	}
	f.late = time.AfterFunc(wait, func() { _ = end() })
}

// ended forgets a call of end that is not needed any more.
func (f *farewell) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.late != nil {
		f.late.Stop()
	}
}

// answer fills b with a refusal of the last question, once.
func (f *farewell) answer(b []byte) (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.givenUp || !f.asked {
		return 0, false
	}
	f.asked = false
	m, err := stun.Build(stun.NewTransactionIDSetter(f.question),
		stun.NewType(stun.MethodAllocate, stun.ClassErrorResponse), stun.CodeServerError)
	if err != nil || len(m.Raw) > len(b) {
		return 0, false
	}
	return copy(b, m.Raw), true
}

type packetWire struct {
	net.PacketConn
	farewell
	net *relayNet
}

func (w *packetWire) giveUp() { w.begin(w.PacketConn.Close) }

func (w *packetWire) WriteTo(b []byte, to net.Addr) (int, error) {
	w.wrote(b)
	return w.PacketConn.WriteTo(b, to)
}

func (w *packetWire) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := w.PacketConn.ReadFrom(b)
	if err == nil {
		w.read(b[:n])
		return n, from, nil
	}
	if n, ok := w.answer(b); ok {
		return n, net.UDPAddrFromAddrPort(netip.AddrPort{}), nil
	}
	return n, from, err
}

func (w *packetWire) Close() error {
	w.net.remove(w)
	w.ended()
	return w.PacketConn.Close()
}

// A relay reached by a streamWire ends with it, so giving up never loses one.
type streamWire struct {
	net.Conn
	farewell
	net  *relayNet
	rest []byte // of a farewell, for the reader
}

func (w *streamWire) giveUp() { w.begin(w.Conn.Close) }

func (w *streamWire) Write(b []byte) (int, error) {
	w.wrote(b)
	return w.Conn.Write(b)
}

func (w *streamWire) Read(b []byte) (int, error) {
	if len(w.rest) > 0 {
		n := copy(b, w.rest)
		w.rest = bytes.Clone(w.rest[n:])
		return n, nil
	}
	n, err := w.Conn.Read(b)
	if err == nil || n > 0 {
		w.read(b[:n])
		return n, err
	}
	whole := make([]byte, maxSTUN)
	if size, ok := w.answer(whole); ok {
		n = copy(b, whole[:size])
		w.rest = whole[n:size]
		return n, nil
	}
	return 0, err
}

func (w *streamWire) Close() error {
	w.net.remove(w)
	w.ended()
	return w.Conn.Close()
}
