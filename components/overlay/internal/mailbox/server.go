package mailbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	backoffMin = 200 * time.Millisecond
	backoffMax = 15 * time.Second
	// identityPoll is how often a renewed certificate is looked for.
	identityPoll = time.Second
)

// errRenewed ends a connection that was made with an older certificate.
var errRenewed = errors.New("certificate was renewed")

// server is one rendezvous over all its connections.
type server struct {
	client *Client
	url    string // of the WebSocket
	roots  *x509.CertPool
	log    *slog.Logger
	revoke chan struct{} // the list of revoked Boots has changed

	mu      sync.Mutex
	session *session // nil while not connected
	status  ServerStatus
	offer   *Offer
	hosts   []netip.Addr         // of the offer's ICE servers
	warned  map[string]time.Time // by kind, constants all
}

// warnEvery is how often one kind of line is written that others can cause.
const warnEvery = time.Second

func newServer(c *Client, s Server) (*server, error) {
	target, err := socketURL(s.URL)
	if err != nil {
		return nil, err
	}
	one := &server{
		client: c, url: target, log: c.log.With("rendezvous", s.URL),
		revoke: make(chan struct{}, 1), status: ServerStatus{URL: s.URL},
	}
	if len(s.CA) > 0 {
		one.roots = x509.NewCertPool()
		if !one.roots.AppendCertsFromPEM(s.CA) {
			return nil, errors.New("its CA is not a PEM certificate")
		}
	}
	return one, nil
}

// run connects again and again until ctx ends.
func (s *server) run(ctx context.Context) {
	backoff := backoffMin
	for {
		me, ok := s.client.identity()
		if !ok {
			if !sleep(ctx, identityPoll) {
				return
			}
			continue
		}
		begun := time.Now()
		err := s.connect(ctx, me)
		if ctx.Err() != nil {
			s.lost(ctx.Err())
			return
		}
		s.lost(err)
		if errors.Is(err, errRenewed) {
			continue
		}
		// A connection that lasted was no failure of the server's.
		if time.Since(begun) > backoffMax {
			backoff = backoffMin
		}
		if !sleep(ctx, backoff/2+rand.N(backoff)) { //nolint:gosec // jitter, no secret
			return
		}
		backoff = min(2*backoff, backoffMax)
	}
}

// tlsConfig shows our SVID and wants a certificate of the server's own name:
// by WebPKI or by the given CA. The server is believed nothing, so nothing
// hangs on more.
func (s *server) tlsConfig(me Identity) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    s.roots,
		NextProtos: []string{"http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &me.Certificate, nil
		},
	}
}

func (s *server) connected(ses *session) {
	s.mu.Lock()
	s.session = ses
	s.status.Connected, s.status.Since, s.status.Error = true, time.Now(), ""
	s.mu.Unlock()
	s.client.changed.note()
	s.log.Info("rendezvous connected")
}

func (s *server) lost(err error) {
	s.mu.Lock()
	was := s.status.Connected
	before := s.status.Error
	s.session = nil
	if was {
		s.status.Connected, s.status.Since = false, time.Now()
	}
	if err != nil {
		s.status.Error = err.Error()
	}
	now := s.status.Error
	s.mu.Unlock()
	if was {
		s.client.changed.note()
	}
	// Once for each loss, and once for each new reason; not for each try.
	if was || now != before {
		s.log.Warn("rendezvous not connected", "error", err)
	}
}

func (s *server) current() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

func (s *server) snapshot() ServerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *server) count(change func(*ServerStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

func (s *server) lastOffer() (Offer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offer == nil {
		return Offer{}, false
	}
	return *s.offer, true
}

func (s *server) setOffer(o Offer) {
	var hosts []netip.Addr
	for _, one := range o.ICE {
		if host, ok := iceHost(one.URL); ok {
			if at, err := netip.ParseAddrPort(host); err == nil && !slices.Contains(hosts, at.Addr().Unmap()) {
				hosts = append(hosts, at.Addr().Unmap())
			}
		}
	}
	s.mu.Lock()
	s.offer, s.hosts = &o, hosts
	s.mu.Unlock()
	s.client.changed.note()
}

func (s *server) offersAt(addr netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.hosts, addr)
}

// mayWarn reports whether a line may be written of a kind that a rendezvous or
// another member can cause as often as they like.
func (s *server) mayWarn(kind string) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.warned[kind]) < warnEvery {
		return false
	}
	if s.warned == nil {
		s.warned = map[string]time.Time{}
	}
	s.warned[kind] = now
	return true
}

func (s *server) wakeRevoker() {
	select {
	case s.revoke <- struct{}{}:
	default:
	}
}

// sleep waits for d, or gives false because ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
