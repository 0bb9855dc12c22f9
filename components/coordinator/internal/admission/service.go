package admission

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/coordinator/internal/bootstrap"
	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// Verifier decides whether evidence is genuine.
type Verifier interface {
	Verify(ctx context.Context, ev attest.Evidence, reportData [64]byte) (policy.Claims, error)
}

// Quoter makes this coordinator's own evidence.
type Quoter interface {
	GetQuote(ctx context.Context, reportData []byte) (attest.Evidence, error)
}

// Sessions knows which Boots are alive on this coordinator.
type Sessions interface {
	Live(slot, bootID string) bool
}

// Directory knows the groups' valid specs and the peers.
type Directory interface {
	Spec(name string) (group.Spec, bool)
	InitialPeers(groupName, slot string) []*controlv1.Peer
}

// Metrics counts decisions.
type Metrics interface {
	Admitted()
	Renewed()
	Refused(code string)
}

// Config of a Service. All fields are required, except those that say what holds
// without them.
type Config struct {
	Cluster, AppID, Slot string
	Datacenter           string
	Root                 *keys.Root
	Identity             *keys.Identity
	Images               policy.ImagePolicy
	Store                store.Store
	Views                *view.Watcher
	Verifier             Verifier
	// Second is asked about what Verifier accepts and the Slot's policy allows; both
	// must agree. nil: nobody is.
	Second Verifier
	Quoter Quoter
	// ClusterID is served beside admission, to other coordinators; nil: it is not.
	ClusterID *bootstrap.Prover
	Issuer    Issuer
	Secrets   Secrets
	Sessions  Sessions
	Directory Directory
	Metrics   Metrics
	// Warmup is how long after this coordinator's start a live Boot may need to be
	// known here; until then no Boot takes a Slot from another one unexpectedly.
	Warmup time.Duration
	// Saw is called with how far the Boot of a Slot saw the records, once its evidence proved whose it
	// is, whether or not it is admitted; nil: it does not matter.
	Saw func(slot string, term, state uint64)
	// Catalog is told of Boots that come and go; nil: nobody is.
	Catalog Catalog
	// Unbound finds the Slot that an instance without records is named after; nil: such an
	// instance proves nothing.
	Unbound Unbound
	// Coordinators are the names of all, in any order: it says who takes a lease first
	// that nobody keeps. Empty: all at once.
	Coordinators []string
	// LeaseTTL of a Boot's lease; 0: DefaultLeaseTTL.
	LeaseTTL time.Duration
	// MayRenew decides whether a Boot gets fresh credentials without fresh evidence;
	// nil: Views.MayRenew.
	MayRenew MayRenew
	Now      func() time.Time
	Log      *slog.Logger
	// Panics contain the panic of a call; nil: it ends the process.
	Panics *contain.Panics
}

// Bounds on what unadmitted callers can cause.
const (
	// maxExchanges is how many challenges, and how many admissions, one connection
	// may ask for: more cost a new handshake (INP-06).
	maxExchanges = 8
	// maxCommits bounds the admissions that write at once: what Consul does not get
	// done in time times out for all.
	maxCommits = 32
	// maxConfirms is how many may ask the second verifier at once, confirmTime how long
	// one may take: an agent gives an exchange 30 s.
	maxConfirms    = 8
	confirmTime    = 20 * time.Second
	connectionTime = 60 * time.Second
	maxQuote       = 16 << 10
	maxEventLog    = 256 << 10
	maxCompose     = 256 << 10
	maxStatement   = 8 << 10
	// maxRequest is all of these together; maxCalls is how many one connection may
	// have open: the exchange is one after the other.
	maxRequest = maxQuote + maxEventLog + maxCompose + maxStatement + 64<<10
	maxCalls   = 2
)

// Service admits Boots. Safe for concurrent use.
type Service struct {
	cfg     Config
	store   store.Store
	now     func() time.Time
	log     *slog.Logger
	metrics Metrics
	self    string
	// verifying bounds the verifications in this process, confirming those that ask the
	// second verifier, asking the questions about standing, commits the admissions that
	// write, renewing the renewals.
	verifying  *pool
	confirming *pool
	asking     *pool
	commits    chan struct{}
	// lookups holds one place, for who looks for the Slot of an unbound instance.
	lookups  chan struct{}
	renewing chan struct{}
	prover   *prover
	keeper   *keeper

	mu     sync.Mutex
	noted  map[string]noted  // guarded by mu; last written refusals by Slot
	issued map[string]issued // guarded by mu; what was last renewed here by Slot
	// contested is since when others ask for what a Boot holds, by Slot; guarded by mu.
	contested map[string]claimed
}

// New makes the service.
func New(cfg Config) *Service {
	if cfg.LeaseTTL == 0 {
		cfg.LeaseTTL = DefaultLeaseTTL
	}
	if cfg.MayRenew == nil {
		cfg.MayRenew = cfg.Views.MayRenew
	}
	bundle := cfg.Root.CA().BundleSHA256()
	s := &Service{
		cfg: cfg, store: cfg.Store, now: cfg.Now, log: cfg.Log, metrics: cfg.Metrics, self: cfg.Slot,
		verifying: newPool(max(2, runtime.GOMAXPROCS(0)), cfg.Now), confirming: newPool(maxConfirms, cfg.Now),
		asking: newPool(askers, cfg.Now), commits: make(chan struct{}, maxCommits), lookups: make(chan struct{}, 1),
		renewing: make(chan struct{}, renewals),
		prover: &prover{quoter: cfg.Quoter, own: statement.Batch{
			Cluster: cfg.Cluster, ClusterID: cfg.Root.ClusterID(), AppID: cfg.AppID, Slot: cfg.Slot,
			TLSPublicKey: cfg.Identity.PublicKey(), CABundleSHA256: bundle[:],
		}},
		noted: map[string]noted{}, issued: map[string]issued{}, contested: map[string]claimed{},
	}
	s.keeper = newKeeper(&s.cfg)
	return s
}

// Serve serves one first contact until it ends; the overlay calls it.
func (s *Service) Serve(ctx context.Context, conn net.Conn, state tls.ConnectionState) {
	ctx, cancel := context.WithTimeout(ctx, connectionTime)
	defer cancel()
	one, err := s.contact(state)
	if err != nil {
		s.log.Warn("first contact not usable", "error", err)
		return
	}
	err = grpcconn.Serve(ctx, conn, func(server *grpc.Server) {
		admissionv1.RegisterAdmissionServiceServer(server, one)
		if s.cfg.ClusterID != nil {
			s.cfg.ClusterID.Register(server, one.channel)
		}
	}, grpcserver.Limits{Message: maxRequest, Calls: maxCalls, Contain: s.cfg.Panics.In("admission")})
	if err != nil {
		s.log.Debug("first contact ended", "error", err)
	}
}

// contact is one first-contact connection. The key and the exporter come from
// the TLS connection itself, never from a message.
type contact struct {
	admissionv1.UnimplementedAdmissionServiceServer
	*Service
	bootKey []byte
	channel []byte
	// challenges and admissions that this connection asked for.
	challenges, admissions atomic.Int32
}

func (s *Service) contact(state tls.ConnectionState) (*contact, error) {
	if len(state.PeerCertificates) == 0 {
		return nil, refuse(codeBadRequest, "the caller presented no certificate")
	}
	if key, ok := state.PeerCertificates[0].PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, refuse(codeKey, "the caller's key is not one of P-256")
	}
	spki, err := x509.MarshalPKIXPublicKey(state.PeerCertificates[0].PublicKey)
	if err != nil {
		return nil, refuse(codeBadRequest, "the caller's key cannot be encoded")
	}
	channel, err := state.ExportKeyingMaterial(overlay.AdmissionExporter, nil, 32)
	if err != nil {
		return nil, err
	}
	return &contact{Service: s, bootKey: spki, channel: channel}, nil
}

// writing reserves a place among those that write.
func (s *Service) writing(ctx context.Context) (done func(), refused *refusal) {
	select {
	case s.commits <- struct{}{}:
		return func() { <-s.commits }, nil
	case <-ctx.Done():
		return nil, refuse(codeOverloaded, "too many admissions at once; try again").later().in(time.Second)
	}
}

func (c *contact) exchange(appID, instanceID string) exchange {
	return exchange{appID: appID, instanceID: instanceID, bootKey: c.bootKey, channel: c.channel}
}

func (c *contact) isOwnKey(spki []byte) bool { return bytes.Equal(spki, c.bootKey) }
