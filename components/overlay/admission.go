package overlay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/door"
	"cadre.dev/overlay/internal/identity"
	"github.com/hashicorp/yamux"
)

// admissionLinger is how long the caller has to read the last answer.
const admissionLinger = 2 * time.Second

// admit serves a first contact: one stream, to one place, for a limited time
// (OVL-06). A thousand Boots that start together wait in line and cost one handshake
// each, and not one for each time that they are turned away.
func (n *Node) admit(ctx context.Context, raw net.Conn, conn *tls.Conn, state tls.ConnectionState) {
	defer raw.Close()
	place, ok := n.admissions.Enter(ctx, n.limits.silentPatience, func() { raw.Close() })
	if !ok {
		n.counts.overloaded.Add(1)
		return
	}
	defer place.Leave()
	n.counts.admissions.Add(1)
	ctx, cancel := context.WithTimeoutCause(ctx, n.limits.admissionTime, errors.New("first contact took too long"))
	defer cancel()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	mux, err := yamux.Server(conn, admissionMux(n.log))
	if err != nil {
		return
	}
	defer mux.Close()
	st, err := mux.AcceptStreamWithContext(ctx)
	if err != nil {
		return
	}
	// Any further stream is refused from here on.
	if err := mux.GoAway(); err != nil {
		return
	}
	n.cfg.ServeAdmission(ctx, &spoken{Conn: st, place: place, patience: n.limits.exchangePatience}, state)
	// The caller closes when it has what it came for; closing first could throw
	// away an answer that is still on its way.
	_ = st.Close()
	linger := time.NewTimer(admissionLinger)
	defer linger.Stop()
	select {
	case <-mux.CloseChan():
	case <-linger.C:
	case <-ctx.Done():
	}
}

// spoken keeps a caller's place for longer once it has said something.
type spoken struct {
	net.Conn
	place    *door.Place
	patience time.Duration
	once     sync.Once
}

func (s *spoken) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.once.Do(func() { s.place.GotOn(s.patience) })
	}
	return n, err
}

// admissionMux bounds what a stranger can make us hold.
func admissionMux(log *slog.Logger) *yamux.Config {
	cfg := carrier.MuxConfig(log)
	cfg.AcceptBacklog = 1
	cfg.MaxStreamWindowSize = 256 << 10
	return cfg
}

// AdmissionConn is the one stream of a first contact with a coordinator.
type AdmissionConn struct {
	net.Conn
	mux   *yamux.Session
	state tls.ConnectionState
}

// State describes the TLS connection beneath: the coordinator's certificate,
// which nothing vouches for yet, and the exporter that its evidence must name.
func (c *AdmissionConn) State() tls.ConnectionState { return c.state }

// Close ends the first contact.
func (c *AdmissionConn) Close() error {
	err := c.Conn.Close()
	return errors.Join(err, c.mux.Close())
}

// DialAdmission opens a first contact with the coordinator behind serverName,
// see [Gateway.Name], showing boot, a certificate signed by its own key. ctx
// bounds the set-up alone. The far side is unknown until its evidence has been
// verified against State.
func DialAdmission(ctx context.Context, gw Gateway, serverName string, boot tls.Certificate) (*AdmissionConn, error) {
	conn, err := dialTLS(ctx, gw, serverName, identity.AdmissionClient(boot, serverName))
	if err != nil {
		return nil, fmt.Errorf("first contact: %w", err)
	}
	mux, err := yamux.Client(conn, admissionMux(slog.New(slog.DiscardHandler)))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("first contact: %w", err)
	}
	st, err := mux.OpenStream()
	if err != nil {
		mux.Close()
		return nil, fmt.Errorf("first contact: %w", err)
	}
	return &AdmissionConn{Conn: st, mux: mux, state: conn.ConnectionState()}, nil
}
