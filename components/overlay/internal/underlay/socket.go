package underlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Config configures a Socket.
type Config struct {
	// Listen is the local address; the zero value is any IPv4 address and any
	// port. An IPv6 address takes IPv4 as well.
	Listen netip.AddrPort
	// Listener opens it, as a *net.UDPConn; nil for the socket's own way.
	Listener interface {
		ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
	}
	// Log records path changes and the kernel's refusals; nil disables logging.
	Log *slog.Logger
}

// errClosed is the read error of a closed Socket. It is an end of input as well, because
// pion's mux reports anything else as a fault.
var errClosed = fmt.Errorf("underlay socket: %w (%w)", net.ErrClosed, io.EOF)

// Socket is one UDP socket and everything that shares it. All its methods may be
// called at any time, from any goroutine.
type Socket struct {
	// Constant after Open.
	log      *slog.Logger
	conn     *net.UDPConn
	raw      syscall.RawConn
	local    *net.UDPAddr
	begin    time.Time
	receiver *receiver
	quic     *quicConn
	stun     chan *packet
	done     chan struct{}
	poke     chan struct{} // wakes the driver

	counts counts

	// Tables of the hot path: read without a lock, replaced under mu.
	sources  atomic.Pointer[map[netip.AddrPort]*path] // validated addresses
	virtuals atomic.Pointer[map[virtualKey]*Link]
	keys     atomic.Pointer[map[uint64]*search]

	mu     sync.Mutex // taken after a Link's, never before
	links  map[*Link]struct{}
	closed bool
	wg     sync.WaitGroup
}

// Open binds the socket and starts serving it. The context bounds the opening only. If
// the kernel clamps the buffers, Open logs a warning and continues.
func Open(ctx context.Context, c Config) (*Socket, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if !c.Listen.IsValid() {
		c.Listen = netip.AddrPortFrom(netip.IPv4Unspecified(), c.Listen.Port())
	}
	network := "udp4"
	if c.Listen.Addr().Is6() && !c.Listen.Addr().Is4In6() {
		network = "udp"
	}
	if c.Listener == nil {
		c.Listener = &net.ListenConfig{}
	}
	pc, err := c.Listener.ListenPacket(ctx, network, c.Listen.String())
	if err != nil {
		return nil, fmt.Errorf("bind underlay socket: %w", err)
	}
	conn, ok := pc.(*net.UDPConn)
	if !ok {
		_ = pc.Close()
		return nil, fmt.Errorf("bind underlay socket: the listener gives %T, want *net.UDPConn", pc)
	}
	s := &Socket{
		conn: conn, log: c.Log, begin: time.Now(),
		done: make(chan struct{}), poke: make(chan struct{}, 1),
		links: make(map[*Link]struct{}), stun: make(chan *packet, stunQueue),
	}
	s.local = s.conn.LocalAddr().(*net.UDPAddr)
	if s.raw, err = s.conn.SyscallConn(); err != nil {
		_ = s.conn.Close()
		return nil, fmt.Errorf("reach underlay socket: %w", err)
	}
	growBuffers(s.conn, s.raw, s.log)
	s.sources.Store(&map[netip.AddrPort]*path{})
	s.virtuals.Store(&map[virtualKey]*Link{})
	s.keys.Store(&map[uint64]*search{})
	s.receiver = newReceiver(s)
	s.quic = newQUICConn(s)
	s.wg.Go(s.receiver.standIn)
	s.wg.Go(s.drive)
	return s, nil
}

// Close ends the socket and all Links, and waits for their goroutines. Readers
// of QUIC and STUN get an error that is [net.ErrClosed].
func (s *Socket) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.wg.Wait()
		return nil
	}
	s.closed = true
	links := maps.Clone(s.links)
	s.mu.Unlock()
	for l := range links {
		l.Close()
	}
	close(s.done)
	err := s.conn.Close()
	s.wg.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close underlay socket: %w", err)
	}
	return nil
}

// LocalAddr is the address that the socket is bound to.
func (s *Socket) LocalAddr() *net.UDPAddr {
	a := *s.local
	return &a
}

// QUIC returns the side that speaks QUIC, over virtual addresses. It implements
// quic.OOBCapablePacketConn and reads in batches. It permits one reader at a time;
// closing it ends its reading and leaves the Socket as it is.
func (s *Socket) QUIC() net.PacketConn { return s.quic }

// STUN gives the side that speaks STUN, over real addresses. Deadlines are
// accepted and ignored. Closing it ends its own readers only; when there are
// several at a time, each message goes to one of them.
func (s *Socket) STUN() net.PacketConn {
	return &stunConn{s: s, queue: s.stun, closed: make(chan struct{})}
}

// now is the time for package paths.
func (s *Socket) now() time.Duration { return time.Since(s.begin) }

// changeTables replaces tables of the hot path.
func changeTable[K comparable, V any](s *Socket, table *atomic.Pointer[map[K]V], change func(map[K]V)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := maps.Clone(*table.Load())
	change(m)
	table.Store(&m)
}

// wake has the driver look at the Links now.
func (s *Socket) wake() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// drive gives each Link its ticks.
func (s *Socket) drive() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var links []*Link
	for {
		select {
		case <-s.done:
			return
		case <-s.poke:
		case <-timer.C:
		}
		s.mu.Lock()
		links = links[:0]
		for l := range s.links {
			links = append(links, l)
		}
		s.mu.Unlock()
		next := time.Hour
		for _, l := range links {
			at := time.Duration(l.nextTick.Load())
			if now := s.now(); at <= now {
				at = l.tick(now)
			}
			next = min(next, at-s.now())
		}
		timer.Reset(max(next, time.Millisecond))
	}
}

// normal takes the IPv4 address out of an IPv4-mapped one, and drops zones.
func normal(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// wakeFor wakes the driver when a Link wants its tick sooner than it said.
func (s *Socket) wakeFor(was, is time.Duration) {
	if is < was {
		s.wake()
	}
}
