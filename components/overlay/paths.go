// What the node has for paths, all Links together: the UDP socket that ICE and QUIC
// share, the mailboxes, and the Sessions over UDP. What each Link has is in finder.go.

package overlay

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/apernet/quic-go/congestion"

	"cadre.dev/overlay/internal/bbr"
	"cadre.dev/overlay/internal/datagram"
	"cadre.dev/overlay/internal/ice"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/internal/search"
	"cadre.dev/overlay/internal/underlay"
)

// paths is what a node finds and uses direct paths with: one UDP socket, which ICE
// and QUIC share, and the mailboxes at the rendezvous. Nil where none is configured.
type paths struct {
	field search.Field
	quic  *datagram.Transport
}

// openPaths opens the socket; nothing is sent before run.
func (n *Node) openPaths(ctx context.Context) (*paths, error) {
	if len(n.cfg.Rendezvous) == 0 {
		return nil, nil
	}
	servers := make([]mailbox.Server, 0, len(n.cfg.Rendezvous))
	for _, r := range n.cfg.Rendezvous {
		servers = append(servers, mailbox.Server{URL: r.URL, CA: r.CA})
	}
	box, err := mailbox.New(mailbox.Config{Servers: servers, Identity: n.mailboxIdentity, Log: n.log})
	if err != nil {
		return nil, fmt.Errorf("rendezvous: %w", err)
	}
	p := &paths{field: search.Field{
		Box: box, Roots: relayRoots(n.cfg.Rendezvous), Allows: n.allows,
		PublicOnly: n.cfg.PublicOnly, Loopback: n.limits.loopback, Log: n.log,
	}}
	p.field.Init(n.limits.searches)
	if p.field.Socket, err = underlay.Open(ctx, underlay.Config{Listen: n.cfg.ListenUDP, Listener: n.cfg.Listener, Log: n.log}); err != nil {
		return nil, fmt.Errorf("open UDP socket: %w", err)
	}
	if p.field.ICE, err = ice.NewMux(p.field.Socket.STUN(), n.log); err != nil {
		return nil, errors.Join(fmt.Errorf("share UDP socket: %w", err), p.field.Socket.Close())
	}
	p.quic = datagram.New(datagram.Config{Conn: p.field.Socket.QUIC(), Log: n.log, Congestion: newBBR})
	if err := p.quic.Listen(n.serverConfig()); err != nil { //nolint:contextcheck // it listens until the Transport is closed
		return nil, errors.Join(fmt.Errorf("listen on UDP socket: %w", err), p.close())
	}
	return p, nil
}

// newBBR makes a connection's congestion controller.
func newBBR() congestion.CongestionControlEx { return bbr.New(bbr.InitialDatagramSize) }

func (p *paths) close() error {
	return errors.Join(p.quic.Close(), p.field.ICE.Close(), p.field.Socket.Close())
}

// mailboxIdentity is who the node is to a rendezvous, once it has credentials.
func (n *Node) mailboxIdentity() (mailbox.Identity, bool) {
	creds := n.creds.Load()
	if creds == nil {
		return mailbox.Identity{}, false
	}
	return mailbox.Identity{ID: n.cfg.Self, Certificate: creds.Certificate, Roots: creds.Roots}, true
}

// runPaths serves the socket and the mailboxes until ctx ends.
func (n *Node) runPaths(ctx context.Context, p *paths) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.field.Box.Run(ctx); err != nil && ctx.Err() == nil {
			n.log.Error("mailboxes ended", "error", err)
		}
	})
	wg.Go(func() { n.receiveSignals(ctx, p) })
	wg.Go(func() { p.field.Warm(ctx) })
	wg.Go(func() { n.hope(ctx, p) })
	wg.Go(func() { n.acceptDatagrams(ctx, p, &wg) })
	wg.Wait()
}

// relayRoots are what vouches for TURN over TLS: what vouches for the mailboxes, since
// both are served with one certificate.
func relayRoots(servers []Rendezvous) *x509.CertPool {
	var pool *x509.CertPool
	for _, r := range servers {
		if len(r.CA) == 0 {
			continue
		}
		if pool == nil {
			var err error
			if pool, err = x509.SystemCertPool(); err != nil {
				pool = x509.NewCertPool()
			}
		}
		pool.AppendCertsFromPEM(r.CA) // mailbox.New has read it
	}
	return pool
}

// hope tells every Link when a rendezvous is back after none was there: what they
// wait for may be had now.
func (n *Node) hope(ctx context.Context, p *paths) {
	for was := true; ; {
		changed := p.field.Box.Changed()
		is := p.field.Connected()
		if is && !was {
			for _, l := range n.allLinks() {
				l.hoped()
			}
		}
		was = is
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// receiveSignals hands messages to the Links that they are for. A message of a Boot
// that the map does not name is dropped: its sender is genuine, but not admitted.
func (n *Node) receiveSignals(ctx context.Context, p *paths) {
	for {
		select {
		case in := <-p.field.Box.Messages():
			if ok, _ := n.admits(in.From); !ok {
				n.counts.notAdmitted.Add(1)
				continue
			}
			n.mu.Lock()
			l := n.links[in.From.ID]
			n.mu.Unlock()
			if l != nil {
				l.signaled(in.From, in.Message)
			}
		case <-ctx.Done():
			return
		}
	}
}

// acceptDatagrams takes the Sessions that Peers open over UDP.
func (n *Node) acceptDatagrams(ctx context.Context, p *paths, wg *sync.WaitGroup) {
	for {
		conn, err := p.quic.Accept(ctx)
		if err != nil {
			if ctx.Err() == nil {
				n.log.Error("datagram sessions are not accepted any more", "error", err)
			}
			return
		}
		wg.Go(func() {
			if err := n.welcomeDatagrams(ctx, conn); err != nil {
				conn.Close(err)
				n.log.Info("session refused", "error", err)
			}
		})
	}
}

// welcomeDatagrams is join for a Session over UDP.
func (n *Node) welcomeDatagrams(ctx context.Context, conn *datagram.Conn) error {
	ctx, cancel := context.WithTimeoutCause(ctx, n.limits.handshakeTime, errSlowHandshake)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close(context.Cause(ctx)) })
	defer stop()
	who, err := n.verifyClient(conn.ConnectionState())
	if err != nil {
		return err
	}
	// The virtual address tells on whose validated path the packets came.
	if l := n.linkOf(conn.RemoteAddr()); l == nil || l.id != who.ID {
		return fmt.Errorf("%w: %s came on the path of another peer", identity.ErrMismatch, who.ID)
	}
	if err := n.greet(ctx, conn.First(), who); err != nil {
		return err
	}
	s, err := conn.Server(ctx, n.log.With("peer", who.ID.Slot))
	if err != nil {
		return fmt.Errorf("session with %s: %w", who.ID, err)
	}
	class := link.DirectUDP
	if l := n.linkOf(conn.RemoteAddr()); l != nil {
		class = l.datagramClass()
	}
	n.deliver(live{
		Session: s, who: who, number: n.sessions.Add(1), class: class,
		path: pathNote{carrier: carrierQUIC, local: n.paths.field.Socket.LocalAddr().String(), remote: conn.RemoteAddr().String()},
	})
	return nil
}

// linkOf finds the Link that a virtual address belongs to.
func (n *Node) linkOf(addr net.Addr) *peerLink {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return nil
	}
	want := udp.AddrPort()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		if l.virtual() == want {
			return l
		}
	}
	return nil
}

// dialDatagrams makes a Session over the validated paths of a Link.
func (n *Node) dialDatagrams(ctx context.Context, l *peerLink, boot string) (live, error) {
	creds, err := n.credentials(ctx)
	if err != nil {
		return live{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, n.limits.dialTime, errSlowDial)
	defer cancel()
	to := net.UDPAddrFromAddrPort(l.virtual())
	conn, err := n.paths.quic.Dial(ctx, to, identity.OverlayClient(creds.Certificate, creds.Roots, "", l.id, boot))
	if err != nil {
		return live{}, fmt.Errorf("dial over UDP: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close(context.Cause(ctx)) })
	defer stop()
	who, err := n.greeted(conn.First(), conn.ConnectionState(), creds, l.id)
	if err != nil {
		conn.Close(err)
		return live{}, err
	}
	s, err := conn.Client(ctx, n.log.With("peer", l.id.Slot))
	if err != nil {
		return live{}, fmt.Errorf("session with %s: %w", l.id, err)
	}
	return live{
		Session: s, who: who, number: n.sessions.Add(1), dialer: true, class: l.datagramClass(),
		path: pathNote{carrier: carrierQUIC, local: n.paths.field.Socket.LocalAddr().String(), remote: to.String()},
	}, nil
}

// virtual is the address that stands for the Peer on the shared socket.
func (l *peerLink) virtual() netip.AddrPort {
	if l.finder == nil {
		return netip.AddrPort{}
	}
	return l.finder.Path().VirtualAddr().AddrPort()
}
