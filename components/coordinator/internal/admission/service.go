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
	"sync"
	"time"

	"google.golang.org/grpc"

	"cadre.dev/attest"
	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
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

// Issuer gives out and takes back Consul tokens.
type Issuer interface {
	Slot(ctx context.Context, spec group.Spec, slot string) (agent, workload tokens.Token, err error)
	Revoke(ctx context.Context, accessors ...string) error
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
	Refused(code string)
}

// Secrets gives out the values in force: the group's secrets and the gossip key.
type Secrets interface {
	For(ctx context.Context, spec group.Spec, slot string) ([]*admissionv1.Secret, error)
	Gossip(ctx context.Context) (key string, epoch uint32, err error)
}

// Config of a Service. All fields are required.
type Config struct {
	Cluster, AppID, Slot string
	Datacenter           string
	// ServerVIPs are the coordinators' addresses for Consul's retry_join.
	ServerVIPs []string
	Root       *keys.Root
	Identity   *keys.Identity
	Images     policy.ImagePolicy
	Store      store.Store
	Views      *view.Watcher
	Verifier   Verifier
	Quoter     Quoter
	Issuer     Issuer
	Secrets    Secrets
	Sessions   Sessions
	Directory  Directory
	Metrics    Metrics
	// Warmup is how long after this coordinator's start a live Boot may need to be
	// known here; until then no Boot takes a Slot from another one unexpectedly.
	Warmup time.Duration
	Now    func() time.Time
	Log    *slog.Logger
}

// Bounds on what unadmitted callers can cause.
const (
	// concurrent verifications and own quotes; each takes milliseconds of CPU.
	concurrency    = 4
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
	slots   chan struct{} // bounds concurrency

	mu    sync.Mutex
	noted map[string]noted // guarded by mu; last written refusals by Slot
}

// New makes the service.
func New(cfg Config) *Service {
	return &Service{
		cfg: cfg, store: cfg.Store, now: cfg.Now, log: cfg.Log, metrics: cfg.Metrics, self: cfg.Slot,
		slots: make(chan struct{}, concurrency), noted: map[string]noted{},
	}
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
	}, grpc.MaxRecvMsgSize(maxRequest), grpc.MaxConcurrentStreams(maxCalls))
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

// take reserves a place for expensive work, or refuses at once.
func (s *Service) take(ctx context.Context) (release func(), err *refusal) {
	wait, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-wait.Done():
		return nil, refuse(codeOverloaded, "too many admissions at once; try again").later()
	}
}

func (c *contact) exchange(appID, instanceID string) exchange {
	return exchange{appID: appID, instanceID: instanceID, bootKey: c.bootKey, channel: c.channel}
}

func (c *contact) isOwnKey(spki []byte) bool { return bytes.Equal(spki, c.bootKey) }
