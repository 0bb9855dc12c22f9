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

// Sessions reports which Boots are alive on this coordinator.
type Sessions interface {
	Live(slot, bootID string) bool
}

// Directory returns the groups' valid specs and the peers.
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

// Config of a Service. All fields are required, unless a field's comment names a default.
type Config struct {
	Cluster, AppID, Slot string
	Datacenter           string
	Root                 *keys.Root
	Identity             *keys.Identity
	Images               policy.ImagePolicy
	Store                store.Store
	Views                *view.Watcher
	Verifier             Verifier
	// Second checks the evidence that Verifier accepts and the Slot's policy allows; both must
	// agree. nil: there is no second verifier.
	Second Verifier
	Quoter Quoter
	// ClusterID is also served on first contacts, for other coordinators; nil: it is not served.
	ClusterID *bootstrap.Prover
	Issuer    Issuer
	Secrets   Secrets
	Sessions  Sessions
	Directory Directory
	Metrics   Metrics
	// Warmup is the time after this coordinator's start within which every live Boot has reported.
	// Until then no Boot takes a Slot unexpectedly from another one.
	Warmup time.Duration
	// Saw is called with the term and state that the Boot of a Slot has seen, once evidence proves
	// the Boot's Slot. A refused Boot counts too; nil: no call.
	Saw func(slot string, term, state uint64)
	// Catalog registers admitted Boots and removes evicted ones; nil: no catalog.
	Catalog Catalog
	// Unbound finds the Slot that an instance without records is named after; nil: such an instance
	// proves nothing.
	Unbound Unbound
	// Coordinators are the names of all coordinators, in any order. The names determine which one
	// first takes a lease without a keeper. Empty: all at once.
	Coordinators []string
	// LeaseTTL of a Boot's lease; 0: DefaultLeaseTTL.
	LeaseTTL time.Duration
	// MayRenew decides whether a Boot gets fresh credentials without fresh evidence; nil:
	// Views.MayRenew.
	MayRenew MayRenew
	Now      func() time.Time
	Log      *slog.Logger
	// Panics contain the panic of a call; nil: it ends the process.
	Panics *contain.Panics
}

// Bounds on the load of unadmitted callers.
const (
	// maxExchanges bounds the challenges, and the admissions, of one connection: more cost a new
	// handshake (INP-06).
	maxExchanges = 8
	// maxCommits bounds the concurrent writes of admissions: if Consul is overloaded, all of them
	// time out.
	maxCommits = 32
	// maxConfirms bounds the concurrent calls to the second verifier, and confirmTime the time of
	// one: an agent gives an exchange 30 s.
	maxConfirms    = 8
	confirmTime    = 20 * time.Second
	connectionTime = 60 * time.Second
	maxQuote       = 16 << 10
	maxEventLog    = 256 << 10
	maxCompose     = 256 << 10
	maxStatement   = 8 << 10
	// maxRequest bounds all parts together. maxCalls bounds the open calls of a connection, which
	// makes one exchange at a time.
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
	// Each of these bounds one kind of concurrent work. verifying: the verifications in this
	// process; confirming: the calls to the second verifier; asking: the questions about the
	// admission status; commits: the writes of admissions; renewing: the renewals.
	verifying  *pool
	confirming *pool
	asking     *pool
	commits    chan struct{}
	// lookups has one place, for the search for the Slot of an unbound instance.
	lookups  chan struct{}
	renewing chan struct{}
	prover   *prover
	keeper   *keeper

	mu     sync.Mutex
	noted  map[string]noted  // guarded by mu; last written refusals by Slot
	issued map[string]issued // guarded by mu; last renewals on this coordinator by Slot
	// contested is since when other Boots ask for a reserved Slot, by Slot; guarded by mu.
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

// contact is one first-contact connection. The key and the exporter come from the TLS connection
// itself, never from a message.
type contact struct {
	admissionv1.UnimplementedAdmissionServiceServer
	*Service
	bootKey []byte
	channel []byte
	// Number of challenges and admissions that this connection asked for.
	challenges, admissions atomic.Int32
}

func (s *Service) contact(state tls.ConnectionState) (*contact, error) {
	if len(state.PeerCertificates) == 0 {
		return nil, refuse(codeBadRequest, "the caller presented no certificate")
	}
	if key, ok := state.PeerCertificates[0].PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, refuse(codeKey, "the caller's key is not a P-256 key")
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

// writing reserves a place among the concurrent writes.
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
