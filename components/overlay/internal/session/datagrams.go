package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/apernet/quic-go/congestion"

	"cadre.dev/overlay/internal/bbr"
	"cadre.dev/overlay/internal/datagram"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
)

// Datagrams makes the Sessions over UDP of one node. Make it with [Maker.OverUDP]; all
// methods may be called concurrently.
type Datagrams struct {
	maker *Maker
	quic  *datagram.Transport
	at    net.Addr
}

// OverUDP begins to listen on conn, which it does not close. at is its address for people.
func (m *Maker) OverUDP(conn net.PacketConn, at net.Addr) (*Datagrams, error) {
	d := &Datagrams{maker: m, at: at, quic: datagram.New(datagram.Config{Conn: conn, Log: m.cfg.Log, Congestion: newBBR})}
	if err := d.quic.Listen(m.ServerTLS()); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on UDP socket: %w", err), d.quic.Close())
	}
	return d, nil
}

// newBBR makes a connection's congestion controller.
func newBBR() congestion.CongestionControlEx { return bbr.New(bbr.InitialDatagramSize) }

// Close ends all Sessions over UDP.
func (d *Datagrams) Close() error { return d.quic.Close() }

// Dial makes a Session over the validated paths behind a virtual address. class returns
// the class of these paths after the handshake.
func (d *Datagrams) Dial(ctx context.Context, to Target, at *net.UDPAddr, class func() link.Class) (*Session, error) {
	m := d.maker
	creds, err := m.credentials(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.cfg.DialTime, errSlowDial)
	defer cancel()
	conn, err := d.quic.Dial(ctx, at, identity.OverlayClient(creds.Certificate, creds.Roots, "", to.ID, to.Boot))
	if err != nil {
		return nil, fmt.Errorf("dial over UDP: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close(context.Cause(ctx)) })
	defer stop()
	who, err := greeted(conn.First(), conn.ConnectionState(), creds, to.ID)
	if err != nil {
		conn.Close(err)
		return nil, err
	}
	s, err := conn.Client(ctx, m.logOf(to.ID))
	if err != nil {
		return nil, fmt.Errorf("session with %s: %w", to.ID, err)
	}
	return m.finish(&Session{Session: s, Who: who, Dialer: true, Class: class(), Path: d.path(at), shown: creds}, conn.ConnectionState())
}

func (d *Datagrams) path(remote net.Addr) Path {
	return Path{Carrier: QUIC, Local: d.at.String(), Remote: remote.String()}
}

// Behind is the Peer of a virtual address.
type Behind interface {
	ID() identity.ID
	// DatagramClass is the class of its paths.
	DatagramClass() link.Class
}

// Run accepts and delivers the Sessions that Peers open, until ctx ends. behind returns
// the Peer of an address, false for an unknown one.
func (d *Datagrams) Run(ctx context.Context, behind func(net.Addr) (Behind, bool)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := d.quic.Accept(ctx)
		if err != nil {
			if ctx.Err() == nil {
				d.maker.cfg.Log.Error("datagram sessions are no longer accepted", "error", err)
			}
			return
		}
		wg.Go(func() {
			if err := d.welcome(ctx, conn, behind); err != nil {
				conn.Close(err)
				d.maker.cfg.Log.Info("session refused", "error", err)
			}
		})
	}
}

// welcome is Join for a Session over UDP.
func (d *Datagrams) welcome(ctx context.Context, conn *datagram.Conn, behind func(net.Addr) (Behind, bool)) error {
	m := d.maker
	ctx, cancel := context.WithTimeoutCause(ctx, m.cfg.HandshakeTime, errSlowHandshake)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close(context.Cause(ctx)) })
	defer stop()
	who, err := m.verify(conn.ConnectionState())
	if err != nil {
		return err
	}
	// The virtual address identifies the validated path of the packets.
	peer, known := behind(conn.RemoteAddr())
	if !known || peer.ID() != who.ID {
		return fmt.Errorf("%w: %s came on the path of another peer", identity.ErrMismatch, who.ID)
	}
	if err := m.greet(ctx, conn.First(), who); err != nil {
		return err
	}
	s, err := conn.Server(ctx, m.logOf(who.ID))
	if err != nil {
		return fmt.Errorf("session with %s: %w", who.ID, err)
	}
	joined, err := m.finish(&Session{Session: s, Who: who, Class: peer.DatagramClass(), Path: d.path(conn.RemoteAddr())}, conn.ConnectionState())
	if err != nil {
		return err
	}
	m.cfg.Deliver(joined)
	return nil
}
