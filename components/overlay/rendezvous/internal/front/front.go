package front

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/rendezvous/internal/credential"
	"cadre.dev/overlay/rendezvous/internal/limit"
	"cadre.dev/overlay/rendezvous/internal/member"
	"cadre.dev/overlay/rendezvous/internal/meter"
	"cadre.dev/overlay/rendezvous/internal/post"
	"cadre.dev/overlay/rendezvous/internal/revoked"
)

// coordinators is the Group that may revoke.
const coordinators = "coordinator"

// kindRevoke is the kind of request that ends Boots, over HTTP and WebSocket.
const kindRevoke = string(mailbox.FrameRevoke)

// Config configures a [Front].
type Config struct {
	// Pool gives the CA of a cluster, nil when it is not known.
	Pool      func(cluster string) *x509.CertPool
	Mailboxes *post.Mailboxes
	Mint      *credential.Mint
	Revoked   *revoked.List
	// Revocations lets coordinators end Boots.
	Revocations bool
	// EndRelay ends the relay allocations of the members for which gone returns true.
	EndRelay func(gone func(member.Member) bool) int
	// Addresses are host:port of STUN and TURN, over UDP and TCP each.
	Addresses func() []string
	// OverTLS: TURN is served at the members' own address, too.
	OverTLS bool
	// Requests is how many requests, messages included, an identity may make.
	Requests limit.Rate
	// Sockets is how many may be open.
	Sockets int
	Meter   *meter.Meter
	Log     *slog.Logger
	// Now may be nil.
	Now func() time.Time
}

// Front serves members. Safe for concurrent use.
type Front struct {
	cfg      Config
	requests *limit.Keyed[identity.ID]
	// revocations are counted apart: a coordinator that has much to say must
	// still be able to end a Boot.
	revocations *limit.Keyed[identity.ID]
	log         *slog.Logger
	untrusted   limit.Line
	curious     limit.Line

	mu      sync.Mutex
	leaving bool
	sockets map[*socket]struct{}
	wg      sync.WaitGroup
}

// New makes a front.
func New(c Config) *Front {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Front{
		cfg: c, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)),
		requests: limit.NewKeyed[identity.ID](c.Requests, 1<<16), revocations: limit.NewKeyed[identity.ID](c.Requests, 1<<16),
		sockets: map[*socket]struct{}{},
	}
}

// Handler serves the paths of the package comment.
func (f *Front) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+mailbox.PathHealth, f.Health)
	mux.HandleFunc("GET "+mailbox.PathMailbox, f.member("socket", f.serveSocket))
	mux.HandleFunc("GET "+mailbox.PathMailbox+"/{cluster}/{group}/{slot}/{boot}", f.member("poll", f.servePoll))
	mux.HandleFunc("POST "+mailbox.PathMailbox+"/{cluster}/{group}/{slot}/{boot}", f.member("send", f.serveSend))
	mux.HandleFunc("GET "+mailbox.PathCertificates+"/{cluster}/{group}/{slot}", f.member("find", f.serveFind))
	mux.HandleFunc("POST "+mailbox.PathCredentials, f.member("credentials", f.serveCredentials))
	mux.HandleFunc("POST "+mailbox.PathRevoked, f.member(kindRevoke, f.serveRevoked))
	return mux
}

// Health answers 200 while the server accepts members. On the members' port, a caller of
// Health has no certificate and keeps no connection.
func (f *Front) Health(w http.ResponseWriter, r *http.Request) {
	if r.TLS != nil {
		w.Header().Set("Connection", "close")
	}
	f.mu.Lock()
	leaving := f.leaving
	f.mu.Unlock()
	if leaving {
		http.Error(w, "draining", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// member lets only proven members through, within their rate.
func (f *Front) member(kind string, serve func(http.ResponseWriter, *http.Request, member.Caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.cfg.Meter.Request(kind)
		who, refusal := f.authenticate(r)
		if refusal == nil {
			refusal = f.spend(kind, who.ID)
		}
		if refusal != nil {
			f.refuse(w, refusal)
			return
		}
		serve(w, r, who)
	}
}

func (f *Front) authenticate(r *http.Request) (member.Caller, *mailbox.Refusal) {
	who, err := member.Authenticate(r.TLS, f.cfg.Pool)
	switch {
	case errors.Is(err, member.ErrNone):
		return who, refusal(mailbox.CodeUnauthenticated, "show an SVID as client certificate")
	case err != nil:
		if f.untrusted.Allow(f.cfg.Now()) {
			f.log.Warn("client certificate refused", "code", string(mailbox.CodeUntrusted), "error", err)
		}
		return who, refusal(mailbox.CodeUntrusted, "the client certificate is no SVID of a cluster known here")
	case f.cfg.Revoked.Has(who.Member):
		return who, refusal(mailbox.CodeRevoked, "this boot has ended")
	}
	return who, nil
}

// spend takes one request of an identity's rate.
func (f *Front) spend(kind string, id identity.ID) *mailbox.Refusal {
	requests := f.requests
	if kind == kindRevoke {
		requests = f.revocations
	}
	if requests.Take(id, 1, f.cfg.Now()) {
		return nil
	}
	r := refusal(mailbox.CodeRate, "too many requests")
	r.RetryMillis = int64(1000 / max(f.cfg.Requests.PerSecond, 1))
	return r
}

func refusal(code mailbox.Code, message string) *mailbox.Refusal {
	return &mailbox.Refusal{Kind: code.Kind(), Code: code, Message: message}
}

func (f *Front) refuse(w http.ResponseWriter, r *mailbox.Refusal) {
	f.cfg.Meter.Refused(string(r.Code))
	f.answer(w, status(r.Code), r)
}

func (f *Front) answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		f.log.Debug("answer not written", "error", err)
	}
}

// status gives the HTTP form of a code.
func status(c mailbox.Code) int {
	switch c {
	case mailbox.CodeUnauthenticated:
		return http.StatusUnauthorized
	case mailbox.CodeForged, mailbox.CodeUntrusted, mailbox.CodeRevoked, mailbox.CodeCluster, mailbox.CodeScope:
		return http.StatusForbidden
	case mailbox.CodeUnknown:
		return http.StatusNotFound
	case mailbox.CodeRate:
		return http.StatusTooManyRequests
	case mailbox.CodeOverloaded:
		return http.StatusServiceUnavailable
	case mailbox.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	default:
		return http.StatusBadRequest
	}
}

// Recheck ends the sockets of members that would be rejected now: their cluster's CA is
// gone, or changed. A cluster's relay allocations end with its CA.
func (f *Front) Recheck() {
	f.cfg.EndRelay(func(m member.Member) bool { return f.cfg.Pool(m.ID.Cluster) == nil })
	for _, s := range f.snapshot() {
		if _, err := member.Authenticate(s.tls, f.cfg.Pool); err != nil {
			s.stop(errUntrusted)
		}
	}
}

// Leave sends all members away: they have, or find, another rendezvous.
func (f *Front) Leave() {
	f.mu.Lock()
	f.leaving = true
	f.mu.Unlock()
	for _, s := range f.snapshot() {
		s.stop(errLeaving)
	}
}

// Wait waits until no socket is left. After Leave that takes seconds.
func (f *Front) Wait() { f.wg.Wait() }

func (f *Front) snapshot() []*socket {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*socket, 0, len(f.sockets))
	for s := range f.sockets {
		all = append(all, s)
	}
	return all
}

// remote is where a request comes from.
func remote(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}
