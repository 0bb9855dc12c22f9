package overlay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/door"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
)

// serve accepts connections until ln closes. Strangers share a fixed number of
// places: one that finds none free, and nobody who is overdue, is closed at once
// (INP-04).
func (n *Node) serve(ctx context.Context, ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept session: %w", err)
		case err != nil:
			n.log.Warn("connection not accepted", "error", err)
			select {
			case <-time.After(pauseAfter):
			case <-ctx.Done():
			}
			continue
		}
		place, ok := n.handshakes.Enter(ctx, n.limits.handshakePatience, func() { conn.Close() })
		if !ok {
			n.counts.overloaded.Add(1)
			conn.Close()
			continue
		}
		n.wg.Go(func() { n.welcome(ctx, conn, place) })
	}
}

// welcome takes a connection through its handshake to what its ALPN asks for.
// It holds a place among the handshakes until the far side is known.
func (n *Node) welcome(ctx context.Context, conn net.Conn, place *door.Place) {
	carrier.Tune(conn)
	hs, cancel := context.WithTimeoutCause(ctx, n.limits.handshakeTime, errSlowHandshake)
	defer cancel()
	tc := tls.Server(carrier.Metered(conn), n.serverConfig())
	// Handshake, greeting and set-up all end with hs.
	stop := context.AfterFunc(hs, func() { conn.Close() })
	err := tc.HandshakeContext(hs)
	if err != nil {
		stop()
		conn.Close()
		place.Leave()
		n.counts.failedHandshakes.Add(1)
		n.log.Debug("handshake refused", "error", err)
		return
	}
	state := tc.ConnectionState()
	if state.NegotiatedProtocol == identity.ALPNAdmission {
		stop()
		place.Leave()
		n.admit(ctx, conn, tc, state)
		return
	}
	defer place.Leave()
	place.GotOn(n.limits.handshakeTime)
	note := pathNote{carrier: carrierTLS, local: conn.LocalAddr().String(), remote: conn.RemoteAddr().String()}
	_, err = n.join(hs, tc, stop, link.Gateway, note)
	if err != nil {
		conn.Close()
		n.log.Info("session refused", "error", err)
	}
}

// serverConfig chooses by ALPN, with the credentials of the moment.
func (n *Node) serverConfig() *tls.Config {
	return identity.ServerConfig(func(alpn string) (*tls.Config, error) {
		creds := n.creds.Load()
		if creds == nil {
			return nil, ErrNoCredentials
		}
		switch {
		case alpn == identity.ALPNOverlay:
			return identity.OverlayServer(creds.Certificate, creds.Roots, n.cfg.Self.Cluster), nil
		case alpn == identity.ALPNAdmission && n.cfg.ServeAdmission != nil:
			return identity.AdmissionServer(creds.Certificate), nil
		}
		return nil, fmt.Errorf("%w: %q", identity.ErrALPN, alpn)
	})
}

// errPathNotAllowed ends a Session on a kind of path that this node does not use.
var errPathNotAllowed = errors.New("this kind of path is not allowed here")

// errSlowHandshake ends a connection that does not get on.
var errSlowHandshake = errors.New("handshake took too long")

// join turns a connection with a genuine certificate into a Session, if the
// peer map names its Boot. stop is called once the Session outlives hs.
func (n *Node) join(hs context.Context, tc *tls.Conn, stop func() bool, class link.Class, note pathNote) (live, error) {
	who, err := n.verifyClient(tc.ConnectionState())
	if err != nil {
		return live{}, err
	}
	if err := n.greet(hs, tc, who); err != nil {
		tc.Close()
		return live{}, err
	}
	s, err := carrier.Server(hs, tc, n.log.With("peer", who.ID.Slot))
	if err != nil {
		return live{}, fmt.Errorf("session with %s: %w", who.ID, err)
	}
	if !stop() {
		s.Close(context.Cause(hs))
	}
	joined := live{Session: s, who: who, number: n.sessions.Add(1), class: class, path: note}
	n.deliver(joined)
	return joined, nil
}

// verifyClient tells who opened a connection.
func (n *Node) verifyClient(state tls.ConnectionState) (identity.Verified, error) {
	if state.NegotiatedProtocol != identity.ALPNOverlay {
		return identity.Verified{}, fmt.Errorf("%w: %q", identity.ErrALPN, state.NegotiatedProtocol)
	}
	return identity.Verify(state, n.creds.Load().Roots, n.cfg.Self.Cluster, x509.ExtKeyUsageClientAuth)
}

// greet tells a far side whether the peer map names it.
func (n *Node) greet(ctx context.Context, w io.Writer, who identity.Verified) error {
	if err := n.authorize(ctx, who); err != nil {
		n.counts.notAdmitted.Add(1)
		_, _ = w.Write(frame.AppendGreeting(nil, frame.PeerNotAdmitted))
		return err
	}
	if _, err := w.Write(frame.AppendGreeting(nil, frame.Accepted)); err != nil {
		return fmt.Errorf("greet %s: %w", who.ID, err)
	}
	return nil
}

// deliver hands a Session that the Peer opened to its link.
func (n *Node) deliver(s live) {
	n.mu.Lock()
	l := n.links[s.who.ID]
	n.mu.Unlock()
	if !n.allows(s.class) {
		s.Close(errPathNotAllowed)
		s.Wait()
		return
	}
	if l == nil || !l.connected(s, 0) {
		s.Close(ErrPeerNotAdmitted)
		s.Wait()
	}
}
