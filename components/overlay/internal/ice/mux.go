package ice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/stun/v2"

	"cadre.dev/overlay/internal/stunaddr"
)

const (
	// maxSTUN bounds a STUN message we look at; RFC 8489 keeps them below 576.
	maxSTUN = 1280
	// maxPending bounds the unanswered checks of one search.
	maxPending = 512
	// pendingFor is how long an answer is waited for.
	pendingFor = 4 * time.Second
)

type transactionID = [stun.TransactionIDSize]byte

// Mux shares the STUN side of the node's socket among searches and keeps the socket's
// mapped addresses known. Make one per socket; all methods may be called concurrently.
type Mux struct {
	// constant after NewMux
	conn  net.PacketConn
	local netip.AddrPort
	log   *slog.Logger
	done  chan struct{}
	life  context.Context //nolint:containedctx // ends with the Mux, for its own refreshes
	end   context.CancelFunc
	mapper
	// reading and refreshing
	wg sync.WaitGroup

	mu      sync.Mutex
	ports   map[string]*port // by our user name fragment
	pending map[transactionID]*pendingCheck
	closed  bool

	stats muxCounters
}

// pendingCheck is a request that waits for its answer: a check of a port, or a
// question to a STUN server.
type pendingCheck struct {
	to     netip.AddrPort
	sent   time.Time
	port   *port
	answer chan netip.AddrPort // capacity 1; for servers
}

// MuxStats counts the datagrams on the STUN side and their handling.
type MuxStats struct {
	Searches int
	Received uint64
	// Unknown named no search or transaction of ours.
	Unknown uint64
	// Forged failed authentication (OVL-13).
	Forged uint64
	// Forbidden came from an address that no candidate may have (OVL-10).
	Forbidden uint64
	// Overflow came faster than a search took it, or from too many addresses.
	Overflow uint64
	// Paced are checks held back (OVL-09).
	Paced uint64
}

type muxCounters struct{ received, unknown, forged, forbidden, overflow, paced atomic.Uint64 }

// NewMux starts reading conn, which must deliver STUN messages only, and owns it
// from here: Close closes it. A nil log discards.
func NewMux(conn net.PacketConn, log *slog.Logger) (*Mux, error) {
	return newMux(conn, log, mappedRefresh)
}

func newMux(conn net.PacketConn, log *slog.Logger, refresh time.Duration) (*Mux, error) {
	udp, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return nil, fmt.Errorf("share socket for checks: local address is a %T", conn.LocalAddr())
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	life, end := context.WithCancel(context.Background())
	m := &Mux{
		conn: conn, local: plain(udp.AddrPort()), log: log,
		done: make(chan struct{}), life: life, end: end,
		ports:   make(map[string]*port),
		pending: make(map[transactionID]*pendingCheck),
	}
	m.servers = make(map[string]*mappedServer)
	m.wg.Go(m.read)
	m.wg.Go(func() { m.refresh(refresh) })
	return m, nil
}

// Close ends reading and closes the connection. Searches that are still open
// find nothing more. It waits for the Mux's goroutines.
func (m *Mux) Close() error {
	m.mu.Lock()
	again := m.closed
	m.closed = true
	ports := m.ports
	m.ports = make(map[string]*port)
	m.mu.Unlock()
	if again {
		m.wg.Wait()
		return nil
	}
	for _, p := range ports {
		_ = p.Close()
	}
	close(m.done)
	m.end()
	err := m.conn.Close()
	m.wg.Wait()
	if err != nil {
		return fmt.Errorf("close shared socket: %w", err)
	}
	return nil
}

// Stats may be called at any time.
func (m *Mux) Stats() MuxStats {
	m.mu.Lock()
	searches := make(map[*ledger]bool)
	for _, p := range m.ports {
		searches[p.known] = true
	}
	m.mu.Unlock()
	return MuxStats{
		Searches: len(searches),
		Received: m.stats.received.Load(), Unknown: m.stats.unknown.Load(),
		Forged: m.stats.forged.Load(), Forbidden: m.stats.forbidden.Load(),
		Overflow: m.stats.overflow.Load(), Paced: m.stats.paced.Load(),
	}
}

// read is the read loop. One bad read does not end it: a shared socket reports an
// unreachable address of one Peer to the next reader.
func (m *Mux) read() {
	buf := make([]byte, maxSTUN+1)
	msg := &stun.Message{}
	for {
		n, from, err := m.conn.ReadFrom(buf)
		select {
		case <-m.done:
			return
		default:
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
				m.log.Warn("shared socket ended", "error", err)
				return
			}
			m.log.Debug("read shared socket", "error", err)
			if !m.pause(time.Millisecond) {
				return
			}
			continue
		}
		udp, ok := from.(*net.UDPAddr)
		if !ok || n > maxSTUN {
			continue
		}
		m.stats.received.Add(1)
		m.dispatch(buf[:n], plain(udp.AddrPort()), msg, time.Now())
	}
}

// pause waits, unless the Mux ends first.
func (m *Mux) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-m.done:
		return false
	}
}

// dispatch hands one message to whom it is for. msg is scratch space.
func (m *Mux) dispatch(raw []byte, from netip.AddrPort, msg *stun.Message, now time.Time) {
	msg.Raw = append(msg.Raw[:0], raw...)
	if err := msg.Decode(); err != nil || msg.Type.Method != stun.MethodBinding {
		m.stats.unknown.Add(1)
		return
	}
	switch msg.Type.Class {
	case stun.ClassRequest:
		var name stun.Username
		if err := name.GetFrom(msg); err != nil {
			m.stats.unknown.Add(1)
			return
		}
		ours, _, _ := strings.Cut(name.String(), ":")
		m.mu.Lock()
		p := m.ports[ours]
		m.mu.Unlock()
		if p == nil {
			m.stats.unknown.Add(1)
			return
		}
		p.request(msg, from)
	case stun.ClassSuccessResponse, stun.ClassErrorResponse:
		m.mu.Lock()
		q := m.pending[msg.TransactionID]
		m.mu.Unlock()
		// An answer from elsewhere than where the question went is no answer
		// (RFC 8445, 7.2.5.2.1).
		if q == nil || q.to != from {
			m.stats.unknown.Add(1)
			return
		}
		if q.port != nil {
			q.port.response(msg, q, now)
			return
		}
		mapped, err := stunaddr.Read(msg, stun.AttrXORMappedAddress)
		if err != nil || msg.Type.Class != stun.ClassSuccessResponse {
			m.stats.unknown.Add(1)
			return
		}
		if mapped.Port() > 0 {
			select {
			case q.answer <- mapped:
			default:
			}
		}
	default:
		m.stats.unknown.Add(1)
	}
}

// add registers a port under its user name fragment.
func (m *Mux) add(p *port) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("share socket: %w", net.ErrClosed)
	}
	m.ports[p.ufrag] = p
	return nil
}

// remove drops a port and its waiting transactions.
func (m *Mux) remove(p *port, waiting []transactionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ports[p.ufrag] == p {
		delete(m.ports, p.ufrag)
	}
	for _, id := range waiting {
		delete(m.pending, id)
	}
}

func (m *Mux) expect(id transactionID, q *pendingCheck) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending[id] = q
}

func (m *Mux) forget(ids ...transactionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.pending, id)
	}
}

// plain is the form in which addresses are compared: IPv4 is IPv4, no zone.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
