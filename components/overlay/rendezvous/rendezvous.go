package rendezvous

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/rendezvous/internal/certificate"
	"cadre.dev/overlay/rendezvous/internal/credential"
	"cadre.dev/overlay/rendezvous/internal/front"
	"cadre.dev/overlay/rendezvous/internal/member"
	"cadre.dev/overlay/rendezvous/internal/meter"
	"cadre.dev/overlay/rendezvous/internal/post"
	"cadre.dev/overlay/rendezvous/internal/relay"
	"cadre.dev/overlay/rendezvous/internal/revoked"
	"cadre.dev/overlay/rendezvous/internal/roots"
)

// refresh is how often the roots and the certificate are looked at.
const refresh = 2 * time.Second

// Server is one rendezvous. New binds its sockets, Run serves.
type Server struct {
	cfg       Config
	log       *slog.Logger
	cert      *certificate.Source
	roots     *roots.Dir
	mailboxes *post.Mailboxes
	mint      *credential.Mint
	revoked   revoked.List
	front     *front.Front
	relay     *relay.Relay // nil without STUN
	meter     *meter.Meter
	members   net.Listener
	admin     net.Listener // nil without Admin
}

// New checks c, reads the roots and the certificate, and binds every socket.
// STUN and TURN serve from here on. A Server that is not run must be closed.
func New(ctx context.Context, c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.Limits = c.Limits.withDefaults()
	s := &Server{cfg: c, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)), meter: meter.New()}
	now := time.Now()
	var err error
	if c.CertFile != "" {
		if c.StateDir != "" {
			s.log.Info("state directory not used: the certificate is given", "directory", c.StateDir, "file", c.CertFile)
		}
		s.cert, err = certificate.Load(c.CertFile, c.KeyFile, s.log)
	} else {
		s.cert, err = certificate.SelfSigned(c.StateDir, s.names(), now, s.log)
	}
	if err != nil {
		return nil, err
	}
	if s.roots, err = roots.Open(c.Roots, s.log); err != nil {
		return nil, err
	}
	if len(s.roots.Clusters()) == 0 {
		s.log.Warn("no cluster is served yet", "directory", c.Roots)
	}
	s.mailboxes = post.New(c.Limits.post())
	s.mint = credential.New(c.Limits.CredentialLife, s.gone, now)
	s.front = front.New(front.Config{
		Pool: s.roots.Pool, Mailboxes: s.mailboxes, Mint: s.mint, Revoked: &s.revoked, Revocations: c.Revocations,
		EndRelay: s.endRelay, Addresses: s.STUN, OverTLS: len(c.STUN) > 0, Requests: c.Limits.requests(), Sockets: c.Limits.Sockets,
		Meter: s.meter, Log: s.log,
	})
	if err := s.bind(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.gauges()
	return s, nil
}

func (s *Server) bind(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if s.members, err = lc.Listen(ctx, "tcp", s.cfg.Listen); err != nil {
		return fmt.Errorf("listen for members: %w", err)
	}
	if s.cfg.Admin != "" {
		if s.admin, err = lc.Listen(ctx, "tcp", s.cfg.Admin); err != nil {
			return fmt.Errorf("listen for the admin: %w", err)
		}
	}
	if len(s.cfg.STUN) > 0 {
		s.relay, err = relay.Open(ctx, relay.Config{
			Listen: s.cfg.STUN, RelayIP: s.cfg.RelayIP, RelayBind: s.cfg.bindAddr(),
			PortMin: s.cfg.PortMin, PortMax: s.cfg.PortMax, AllowPrivate: s.cfg.AllowPrivateRelay,
			Mint: s.mint, Limits: s.cfg.Limits.relay(), Meter: s.meter, Log: s.log,
		})
	}
	return err
}

// names are the names of a self-signed certificate.
func (s *Server) names() []string {
	names := slices.Clone(s.cfg.Names)
	if host, _, err := net.SplitHostPort(s.cfg.Listen); err == nil && host != "" {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsUnspecified() {
			names = append(names, host)
		}
	}
	if s.cfg.RelayIP.IsValid() {
		names = append(names, s.cfg.RelayIP.String())
	}
	if len(names) == 0 {
		names = []string{"localhost", "127.0.0.1"}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Addr is where members connect.
func (s *Server) Addr() net.Addr { return s.members.Addr() }

// AdminAddr is where metrics are, nil without Config.Admin.
func (s *Server) AdminAddr() net.Addr {
	if s.admin == nil {
		return nil
	}
	return s.admin.Addr()
}

// CA is the root that clients need to trust a self-signed certificate, PEM; nil for any
// other.
func (s *Server) CA() []byte { return s.cert.CA }

// STUN gives ip:port at which members reach STUN and TURN.
func (s *Server) STUN() []string {
	if len(s.cfg.Advertise) > 0 || s.relay == nil {
		return s.cfg.Advertise
	}
	var all []string
	for _, port := range s.relay.Ports() {
		all = append(all, net.JoinHostPort(s.cfg.RelayIP.String(), strconv.Itoa(int(port))))
	}
	return all
}

// Run serves until ctx ends; then it drains. While it drains, it reports that it is
// unhealthy, sends members to other servers, and refuses new allocations. Existing
// allocations get Config.Drain to end. It closes the Server.
func (s *Server) Run(ctx context.Context) error {
	members := &http.Server{
		Handler: s.front.Handler(),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS13,
			GetCertificate: s.cert.Get,
			NextProtos:     []string{"http/1.1", identity.ALPNRelay},
			// A certificate is required for every path but /healthz. It is
			// verified by the front, by the CA of the cluster that it names.
			ClientAuth: tls.RequestClientCert,
			// A resumed session would skip the checks (OVL-14).
			SessionTicketsDisabled: true,
		},
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 60 * time.Second, IdleTimeout: 90 * time.Second,
		MaxHeaderBytes: 16 << 10, ErrorLog: s.errorLog(),
		// TURN over TLS goes wherever the mailboxes are reached, through firewalls that pass
		// nothing but HTTPS among them. It needs no client certificate: as everywhere, its
		// credentials are minted for members.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){
			identity.ALPNRelay: func(_ *http.Server, conn *tls.Conn, _ http.Handler) { s.serveRelay(conn) },
		},
	}
	servers := []func() error{func() error { return members.ServeTLS(s.limited(s.members), "", "") }}
	var admin *http.Server
	if s.admin != nil {
		admin = &http.Server{
			Handler: s.adminHandler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 60 * time.Second,
			IdleTimeout: 90 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: s.errorLog(),
		}
		servers = append(servers, func() error { return admin.Serve(s.admin) })
	}
	failed := make(chan error, len(servers))
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	for _, serve := range servers {
		wg.Go(func() {
			if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	s.background(background, &wg)
	s.log.Info("rendezvous serves", "address", s.Addr().String(), "stun", s.STUN(), "clusters", s.roots.Clusters())

	var err error
	select {
	case <-ctx.Done():
		s.drain(background)
	case err = <-failed:
	}
	s.front.Leave()
	err = errors.Join(err, members.Close())
	if admin != nil {
		err = errors.Join(err, admin.Close())
	}
	s.front.Wait()
	err = errors.Join(err, s.Close())
	stop()
	wg.Wait()
	s.log.Info("rendezvous ended")
	return err
}

// serveRelay runs TURN on a connection to the members' port, and returns when it ends.
func (s *Server) serveRelay(conn *tls.Conn) {
	if s.relay != nil {
		s.relay.Serve(conn)
	}
}

// Close frees the sockets. Run does it too.
func (s *Server) Close() error {
	var errs []error
	for _, ln := range []net.Listener{s.members, s.admin} {
		if ln != nil {
			errs = append(errs, ln.Close())
		}
	}
	if s.relay != nil {
		errs = append(errs, s.relay.Close())
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, net.ErrClosed) })...)
}

// drain waits a while for the allocations to end.
func (s *Server) drain(ctx context.Context) {
	s.log.Info("rendezvous drains")
	s.front.Leave()
	if s.relay == nil || s.cfg.Drain == 0 {
		return
	}
	s.relay.Drain()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Drain)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for s.relay.Allocations() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.log.Warn("allocations cut off", "number", s.relay.Allocations())
			return
		}
	}
}

// background runs the periodic work.
func (s *Server) background(ctx context.Context, wg *sync.WaitGroup) {
	wg.Go(func() { s.roots.Watch(ctx, refresh, s.front.Recheck) })
	if s.relay != nil {
		wg.Go(func() { s.relay.Run(ctx) })
	}
	wg.Go(func() {
		tick := time.NewTicker(refresh)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				s.mailboxes.Sweep(now)
				s.mint.Rotate(now)
				s.cert.Refresh()
			}
		}
	})
}

// gone reports members that nothing is done for any more: their Boot has ended,
// or their cluster is not served.
func (s *Server) gone(m member.Member) bool {
	return s.revoked.Has(m) || s.roots.Pool(m.ID.Cluster) == nil
}

func (s *Server) endRelay(gone func(member.Member) bool) int {
	if s.relay == nil {
		return 0
	}
	return s.relay.End(gone)
}

func (s *Server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.meter.Handler())
	mux.HandleFunc("GET "+mailbox.PathHealth, s.front.Health)
	return mux
}

func (s *Server) gauges() {
	s.meter.Gauge("members", "Members connected by WebSocket.", func() float64 { return float64(s.front.Sockets()) })
	s.meter.Gauge("mailboxes", "Open mailboxes.", func() float64 { return float64(s.mailboxes.Counts().Boxes) })
	s.meter.Gauge("waiting_messages", "Messages that wait.", func() float64 { return float64(s.mailboxes.Counts().Waiting) })
	s.meter.Gauge("waiting_bytes", "Bytes that wait.", func() float64 { return float64(s.mailboxes.Counts().Bytes) })
	s.meter.Gauge("messages_expired", "Messages that were never acknowledged, since the start.", func() float64 { return float64(s.mailboxes.Counts().Expired) })
	s.meter.Gauge("clusters", "Clusters that are served.", func() float64 { return float64(len(s.roots.Clusters())) })
	if s.relay != nil {
		s.meter.Gauge("allocations", "Open relay allocations.", func() float64 { return float64(s.relay.Allocations()) })
		s.meter.Gauge("relay_connections", "TCP connections of STUN and TURN.", func() float64 { return float64(s.relay.Connections()) })
	}
}

// limited bounds connections, authenticated or not.
func (s *Server) limited(ln net.Listener) net.Listener {
	return newBounded(ln, 2*s.cfg.Limits.Sockets, s.cfg.Limits.PerSource)
}

// errorLog takes net/http's messages about single connections: noise of the internet.
func (s *Server) errorLog() *log.Logger {
	return slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
}
