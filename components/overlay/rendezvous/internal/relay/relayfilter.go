package relay

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pion/stun/v2"
)

// engineNonceLife is how often the engine is asked for a new nonce; it takes
// each for an hour.
const engineNonceLife = 30 * time.Minute

// relayFilter is the socket of one engine: it passes the permitted messages to the engine.
//
// The engine finishes each message of ReadFrom before it calls ReadFrom again; so the
// identity that ReadFrom has proven holds until then. Only that goroutine touches the
// fields marked "loop".
type relayFilter struct {
	net.PacketConn
	relay *Relay

	claim       *claim // loop: of the request that the engine is handling
	key         []byte // loop: that it is signed with
	engineNonce string // loop: the nonce that the engine expects in requests
	nonceAt     time.Time

	mu     sync.Mutex
	allocs map[netip.AddrPort]*allocation // by client
}

func newRelayFilter(r *Relay, conn net.PacketConn) *relayFilter {
	return &relayFilter{PacketConn: conn, relay: r, allocs: map[netip.AddrPort]*allocation{}}
}

// ourselves is the address from which the filter asks the engine for a nonce.
var ourselves net.Addr = &net.UDPAddr{IP: net.IPv4zero}

// ReadFrom implements net.PacketConn for the engine.
func (g *relayFilter) ReadFrom(p []byte) (int, net.Addr, error) {
	g.claim, g.key = nil, nil
	now := g.relay.cfg.Now()
	if g.engineNonce == "" || now.Sub(g.nonceAt) > engineNonceLife {
		ask := stun.MustBuild(stun.TransactionID, stun.NewType(stun.MethodAllocate, stun.ClassRequest))
		g.nonceAt = now
		return copy(p, ask.Raw), ourselves, nil
	}
	for {
		n, addr, err := g.PacketConn.ReadFrom(p)
		if err != nil {
			if _, udp := g.PacketConn.(*net.UDPConn); udp && !errors.Is(err, net.ErrClosed) {
				// One bad read must not end the service for all.
				g.relay.cfg.Meter.Dropped("read error")
				time.Sleep(time.Millisecond)
				continue
			}
			// The engine stops at the first error.
			_ = g.Close()
			g.relay.wg.Done()
			return n, addr, err
		}
		from, ok := addrPort(addr)
		if !ok || n == 0 {
			continue
		}
		if p[0]&0xc0 == 0x40 { // channel data: only of an allocation, and its socket judges
			return n, addr, nil
		}
		if n = g.admit(p, n, from, addr); n > 0 {
			return n, addr, nil
		}
	}
}

// WriteTo implements net.PacketConn for the engine.
func (g *relayFilter) WriteTo(p []byte, addr net.Addr) (int, error) {
	if addr != ourselves {
		return g.PacketConn.WriteTo(p, addr)
	}
	m := stun.Message{Raw: p}
	var nonce stun.Nonce
	if m.Decode() == nil && nonce.GetFrom(&m) == nil {
		g.engineNonce = nonce.String()
	}
	return len(p), nil
}

func (g *relayFilter) of(client netip.AddrPort) *allocation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.allocs[client]
}

func (g *relayFilter) put(a *allocation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.allocs[a.from] = a
}

func (g *relayFilter) drop(a *allocation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.allocs[a.from] == a {
		delete(g.allocs, a.from)
	}
}

func addrPort(a net.Addr) (netip.AddrPort, bool) {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.UDPAddr:
		ap = a.AddrPort()
	case *net.TCPAddr:
		ap = a.AddrPort()
	default:
		return ap, false
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), true
}
