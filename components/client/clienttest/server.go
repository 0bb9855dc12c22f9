// Package clienttest is a coordinator for tests: the operator API over real
// TLS on a loopback port, with records that the test sets.
package clienttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/client"
	"cadre.dev/core/audit"
	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Token is the only token that a Server accepts.
const Token = "00000000-1111-4222-8333-444444444444"

// AppID of the coordinators.
const AppID = "00112233445566778899aabbccddeeff00112233"

// Group is a Server's state of one group. Spec may be zero for a group that was only set by Status.
type Group struct {
	Spec group.Spec
	// Stored is the spec of a coordinator of a newer version, with fields that Spec lacks; nil:
	// Spec is complete. The next apply replaces it.
	Stored     []byte
	Index      uint64
	Status     group.Status
	Plan       rollout.Plan
	Rollouts   []operation.Rollout
	Operations []operation.Operation
	// Admissions are records as JSON.
	Admissions [][]byte
	// Before is the spec that the last apply replaced: the proposal of an undo.
	Before group.Spec
	// AppliedBy, AppliedRequest and AppliedReason are those of the last apply.
	AppliedBy, AppliedRequest, AppliedReason string
	// Deleting: the group is being deleted.
	Deleting bool
}

// Server is a coordinator. Safe for concurrent use.
type Server struct {
	apiv1.UnimplementedClusterServiceServer
	apiv1.UnimplementedPolicyServiceServer
	apiv1.UnimplementedOperationServiceServer
	apiv1.UnimplementedRecoveryServiceServer
	apiv1.UnimplementedBackupServiceServer
	apiv1.UnimplementedControlServiceServer
	apiv1.UnimplementedAuditServiceServer
	apiv1.UnimplementedOperatorServiceServer
	apiv1.UnimplementedCoordinatorsServiceServer
	apiv1.UnimplementedBootServiceServer
	apiv1.UnimplementedSealingServiceServer
	logs

	// Attest answers AttestCoordinator; nil: unimplemented. Set it before Start.
	Attest func(ctx context.Context, req *apiv1.AttestCoordinatorRequest) (*apiv1.AttestCoordinatorResponse, error)
	// ChangeSealingKey alters the statement of GetSealingKey; nil: unchanged. Set it before Start.
	ChangeSealingKey func(*statement.SealingKey)
	// ReplaceSealingKey takes the place of the key in the statement after it was quoted; nil: unchanged.
	ReplaceSealingKey []byte
	// OnApply runs after a spec was stored, with the lock held. It may set the group's Status and
	// Plan as a leader would.
	OnApply func(g *Group)
	// OnRestart runs after a request to restart a Slot, with the lock held. It may set the group's
	// status and plan.
	OnRestart func(g *Group, slot string)
	// OnUpdate is OnRestart for a Slot's update.
	OnUpdate func(g *Group, slot string)
	// RevisionOf computes a spec's Revision; nil: as this program does. Set it before Start.
	RevisionOf func(group.Spec) string

	clusterID string
	caPEM     []byte
	caKey     ed25519.PrivateKey
	cert      tls.Certificate
	// prove returns evidence for a statement; nil: ProveItself was not called.
	prove func(ctx context.Context, nonce []byte, complete func(statement.Coordinator) assertion) (*apiv1.AttestCoordinatorResponse, error)
	// watching receives a value when a watcher waits for a change; the send never blocks.
	watching chan struct{}

	// OverridesNow sets overrides at the real time, and drains an unprotected slot at once. Set it
	// before Start.
	OverridesNow bool

	mu           sync.Mutex // guards all below
	groups       map[string]*Group
	restarts     []string
	updates      []string
	wayOut       WayOut
	requests     map[string]string // guarded like restarts; the request of each id
	overlay      Overlay
	secrets      []*apiv1.Secret
	given        string // the last value of SetSecret
	overrides    []*apiv1.Override
	gateSettings []*apiv1.Gate
	limits       *apiv1.Limits
	used         *apiv1.LimitsUsed
	queue        []*apiv1.QueueEntry
	deployments  deployments
	operators    []*apiv1.Operator
	digests      []string               // of tokens that were added
	recovery     *apiv1.RecoverResponse // nil: zero
	// coordinators and stepDown are those of SetCoordinators; removed are the voters.
	coordinators func(instance string) *apiv1.GetCoordinatorsResponse
	stepDown     func(instance, raftTo string)
	removed      []string
	boots        boots
	backups      Backups
	metrics      string
	// agentMetrics are the figures of agents by Slot.
	agentMetrics map[string]string
	index        uint64
	fail         map[string]error
	changed      chan struct{}
	address      string
	server       *grpc.Server
	// admission is the state, and decided has the operators' decisions.
	admission Admission
	decided   []string
	// auditHead and auditEntries are the audit chain, signed at auditAt.
	auditHead    audit.Head
	auditEntries []audit.Entry
	auditAt      time.Time
}

// ClusterID is the cluster ID of New's cluster.
const ClusterID = "0123456789abcdef0123456789abcdef"

// New makes a Server for the cluster "demo"; Start serves it.
func New(t testing.TB) *Server {
	t.Helper()
	return NewOf(t, ClusterID)
}

// NewOf is New with another cluster ID and its own CA.
func NewOf(t testing.TB, clusterID string) *Server {
	t.Helper()
	s := &Server{clusterID: clusterID, deployments: deployments{records: map[string]deployment.Record{}, specs: map[string][]byte{}}, groups: map[string]*Group{}, fail: map[string]error{}, watching: make(chan struct{}, 1), changed: make(chan struct{}), index: 10}
	var err error
	if s.caPEM, s.caKey, s.cert, err = issue("coordinator.demo.cadre", clusterID); err != nil {
		t.Fatal(err)
	}
	return s
}

// Start serves until the test ends and returns a context for it.
func (s *Server) Start(t testing.TB) client.Context {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	s.serve(t, listener)
	return s.Context()
}

// Restart closes all connections and serves again at the same address, like a replaced coordinator.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.server.Stop()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t, listener)
}

func (s *Server) serve(t testing.TB, listener net.Listener) {
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&s.cert)))
	apiv1.RegisterClusterServiceServer(server, s)
	apiv1.RegisterPolicyServiceServer(server, s)
	apiv1.RegisterOperationServiceServer(server, s)
	apiv1.RegisterRecoveryServiceServer(server, s)
	apiv1.RegisterBackupServiceServer(server, s)
	apiv1.RegisterBootServiceServer(server, s)
	apiv1.RegisterSealingServiceServer(server, s)
	apiv1.RegisterControlServiceServer(server, s)
	apiv1.RegisterAuditServiceServer(server, s)
	apiv1.RegisterOperatorServiceServer(server, s)
	apiv1.RegisterCoordinatorsServiceServer(server, s)
	apiv1.RegisterMetricsServiceServer(server, metricsServer{s: s})
	apiv1.RegisterLogServiceServer(server, logService{s: s})
	apiv1.RegisterGateServiceServer(server, gateServer{s: s})
	apiv1.RegisterQueueServiceServer(server, queueServer{s: s})
	apiv1.RegisterDeploymentServiceServer(server, deploymentServer{s: s})
	s.server = server
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Stop ends the server; a failed accept shows in the test's calls.
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { server.Stop(); <-done })
}

// Context returns a context for the Server with its CA pinned.
func (s *Server) Context() client.Context {
	return client.Context{
		Cluster: "demo", Gateway: client.Gateway{Domain: "gw.test", Address: s.address}, CoordinatorAppID: AppID,
		Token: Token, CAPEM: string(s.caPEM), ClusterID: s.clusterID, Trust: attest.Trust{Cluster: "demo", CoordinatorAppID: AppID, AllowSimulated: true},
	}
}

// CAPEM returns the cluster's CA.
func (s *Server) CAPEM() []byte { return s.caPEM }

// Certificate returns the server's certificate.
func (s *Server) Certificate() tls.Certificate { return s.cert }

// Set changes a group, creates it if needed, and wakes watchers.
func (s *Server) Set(name string, change func(*Group)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[name]
	if g == nil {
		s.index++
		g = &Group{Spec: group.Spec{Name: name}, Index: s.index}
		s.groups[name] = g
	}
	change(g)
	s.wakeLocked()
}

// Fail makes each call of a method ("ApplyGroup") return err; nil ends it.
func (s *Server) Fail(method string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[method] = err
}

// Updates lists the Slots with a requested update.
func (s *Server) Updates() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.updates)
}

// Restarts lists the Slots with a requested restart.
func (s *Server) Restarts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.restarts)
}

func (s *Server) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// enter takes the lock and checks the caller; leave must follow.
func (s *Server) enter(ctx context.Context, method string) error {
	s.mu.Lock()
	if err := s.fail[method]; err != nil {
		return err
	}
	if got := metadata.ValueFromIncomingContext(ctx, "x-consul-token"); len(got) != 1 || got[0] != Token {
		return status.Error(codes.Unauthenticated, "ACL not found")
	}
	return nil
}

func (s *Server) groupLocked(name string) (*Group, error) {
	if g := s.groups[name]; g != nil {
		return g, nil
	}
	return nil, status.Errorf(codes.NotFound, "no such group: %s", name)
}

func (s *Server) revision(spec group.Spec) string {
	if s.RevisionOf != nil {
		return s.RevisionOf(spec)
	}
	return spec.Revision()
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte(fmt.Sprintf("%q", err.Error()))
	}
	return text
}

// issue makes a CA and a server certificate for name.
func issue(name, clusterID string) (caPEM []byte, caKey ed25519.PrivateKey, cert tls.Certificate, err error) {
	caPublic, caKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, cert, err
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA", SerialNumber: clusterID}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caPublic, caKey)
	if err != nil {
		return nil, nil, cert, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, cert, err
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, nil, cert, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), caKey, tls.Certificate{Certificate: [][]byte{der, caDER}, PrivateKey: key}, nil
}

// AwaitWatcher waits until a watcher has received a view and waits for the next change.
func (s *Server) AwaitWatcher(t testing.TB) {
	t.Helper()
	select {
	case <-s.watching:
	case <-time.After(10 * time.Second):
		t.Fatal("no watcher waits")
	}
}
