package agenttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/statement"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Coordinator is coordinator-0 of the world. The fields may be set before Start.
type Coordinator struct {
	World *World
	// Slot is the Slot of every admitted Boot.
	Slot overlay.ID
	// AppID of the coordinator's own CVM; Faults of its guest.
	AppID  string
	Faults attestsim.Faults
	// NoCollateral gives none with the evidence.
	NoCollateral bool
	// ClockAhead is how far its clock is ahead of the machine's.
	ClockAhead time.Duration
	// Others are in the peer map in addition to the coordinator.
	Others []*controlv1.Peer
	// Refuse, if set, answers Admit.
	Refuse func() error
	// Tamper may change a statement before it is quoted.
	Tamper func(*statement.Coordinator)
	// Lost, if set, returns why the admitted Boot lost its Slot: the answer to AdmissionStatus.
	Lost func() *admissionv1.AdmissionStatusResponse
	// Grant may change an answer before it is sent, Renewal the answer to a renewal; an error
	// simulates a lost answer.
	Grant   func(*admissionv1.AdmitResponse)
	Renewal func(*admissionv1.RenewRequest, *admissionv1.Credentials) error
	Life    time.Duration

	node       *overlay.Node
	guest      *attest.GuestClient
	instanceID string
	tlsKey     []byte
	id         overlay.ID

	mu       sync.Mutex
	desired  *controlv1.Desired                       // guarded by mu
	version  uint64                                   // guarded by mu; of the peer map
	reports  []*controlv1.Report                      // guarded by mu
	agents   []controlv1.AgentServiceClient           // guarded by mu
	boots    []string                                 // guarded by mu; admitted
	pending  map[string]*admissionv1.ChallengeRequest // guarded by mu; by nonce
	sessions int                                      // guarded by mu
	granted  *admissionv1.Credentials                 // guarded by mu; of the newest admission
	renewals int                                      // guarded by mu
	admits   []*admissionv1.AdmitRequest              // guarded by mu; that were granted
	left     int                                      // guarded by mu; Boots that said farewell
}

// NewCoordinator returns a coordinator that admits every genuine Boot as demo/web/web-0.
func NewCoordinator(w *World) *Coordinator {
	return &Coordinator{
		World: w, AppID: CoordinatorAppID, Life: time.Hour, version: 1,
		Slot:    overlay.ID{Cluster: Cluster, Group: "web", Slot: "web-0"},
		id:      overlay.ID{Cluster: Cluster, Group: overlay.CoordinatorGroup, Slot: "coordinator-0"},
		pending: map[string]*admissionv1.ChallengeRequest{},
	}
}

// Start serves until the test ends.
func (c *Coordinator) Start(t testing.TB) {
	t.Helper()
	socket, instanceID := c.World.Guest(t, c.AppID, 200, c.Faults)
	c.guest, c.instanceID = attest.NewGuestClient(socket), instanceID
	t.Cleanup(c.guest.Close)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := c.World.Issue(c.id, key.Public(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	c.tlsKey = leaf.RawSubjectPublicKeyInfo
	c.node, err = overlay.New(overlay.Config{
		Self: c.id, SelfVIP: VIP(0, 0), Listen: "127.0.0.1:0", Gateway: c.World.Gateway.Config(),
		Log: slog.New(slog.DiscardHandler), ServeAdmission: c.serveAdmission, OnControl: c.onControl,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.node.SetCredentials(overlay.Credentials{
		Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, Roots: c.World.Roots,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.node.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("coordinator: %v", err)
		}
	})
	Eventually(t, 5*time.Second, "coordinator listens", func() bool { return c.node.ListenAddr() != nil })
	address := c.node.ListenAddr().String()
	c.World.Gateway.Route(CoordinatorAppID, address)
	c.World.Gateway.Route(instanceID, address)
}

// Order publishes desired state and wakes all agents.
func (c *Coordinator) Order(d *controlv1.Desired) {
	c.mu.Lock()
	c.desired = d
	agents := slices.Clone(c.agents)
	c.mu.Unlock()
	for _, a := range agents {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, _ = a.Wake(ctx, &controlv1.WakeRequest{Term: d.GetTerm(), DesiredVersion: d.GetVersion()})
		cancel()
	}
}

// Last returns the newest report, nil before the first.
func (c *Coordinator) Last() *controlv1.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.reports) == 0 {
		return nil
	}
	return c.reports[len(c.reports)-1]
}

// Reports returns all.
func (c *Coordinator) Reports() []*controlv1.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reports)
}

// Agent is the client of the newest control session, nil when there is none.
func (c *Coordinator) Agent() controlv1.AgentServiceClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.agents) == 0 {
		return nil
	}
	return c.agents[len(c.agents)-1]
}

// Drop leaves the admitted Boot out of the peer map: its sessions end, and it cannot open new ones.
func (c *Coordinator) Drop() { c.node.SetPeers(nil) }

// AllowBench lets the admitted Slot begin a bench with this coordinator.
func (c *Coordinator) AllowBench() error { return c.node.AllowBench(c.Slot, time.Minute) }

// Boots returns the ids of admitted Boots, in order.
func (c *Coordinator) Boots() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.boots)
}

// Admits returns the granted requests, in order.
func (c *Coordinator) Admits() []*admissionv1.AdmitRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.admits)
}

// Sessions counts control sessions so far.
func (c *Coordinator) Sessions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions
}

func (c *Coordinator) serveAdmission(ctx context.Context, conn net.Conn, state tls.ConnectionState) {
	exporter, err := state.ExportKeyingMaterial(overlay.AdmissionExporter, nil, 32)
	if err != nil {
		return
	}
	_ = grpcconn.Serve(ctx, conn, func(s *grpc.Server) {
		admissionv1.RegisterAdmissionServiceServer(s, &admission{c: c, exporter: exporter})
	}, grpcserver.Limits{})
}

// admission serves one first contact.
type admission struct {
	admissionv1.UnimplementedAdmissionServiceServer
	c        *Coordinator
	exporter []byte
}

func (a *admission) Challenge(ctx context.Context, r *admissionv1.ChallengeRequest) (*admissionv1.ChallengeResponse, error) {
	bundle := sha256.Sum256(a.c.World.CAPEM)
	said := statement.Coordinator{
		Cluster: a.c.id.Cluster, ClusterID: a.c.World.ClusterID, AppID: a.c.AppID, Slot: a.c.id.Slot, TLSPublicKey: a.c.tlsKey,
		Exporter: a.exporter, PeerNonce: r.GetBootNonce(), CABundleSHA256: bundle[:],
	}
	if a.c.Tamper != nil {
		a.c.Tamper(&said)
	}
	root, paths, err := statement.Gather([]statement.Exchange{{Exporter: said.Exporter, PeerNonce: said.PeerNonce}})
	if err != nil {
		return nil, err
	}
	batch := statement.Batch{
		Cluster: said.Cluster, ClusterID: said.ClusterID, AppID: said.AppID, Slot: said.Slot, TLSPublicKey: said.TLSPublicKey, Root: root, CABundleSHA256: said.CABundleSHA256,
	}
	data := batch.ReportData()
	ev, err := a.c.guest.GetQuote(ctx, data[:])
	if err != nil {
		return nil, err
	}
	if !a.c.NoCollateral {
		if ev.Collateral, err = a.c.World.Collateral(); err != nil {
			return nil, err
		}
	}
	nonce := make([]byte, 32)
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	a.c.mu.Lock()
	a.c.pending[hex.EncodeToString(nonce)] = r
	a.c.mu.Unlock()
	return &admissionv1.ChallengeResponse{
		Nonce: nonce, ExpiresAt: timestamppb.New(time.Now().Add(statement.NonceLife + a.c.ClockAhead)),
		Cluster: a.c.Slot.Cluster, Group: a.c.Slot.Group, Slot: a.c.Slot.Slot,
		CoordinatorEvidence:  &admissionv1.Evidence{Quote: ev.Quote, EventLog: ev.EventLog, AppCompose: ev.AppCompose, Collateral: ev.Collateral},
		CoordinatorStatement: batch.Encode(), CoordinatorPath: paths[0],
	}, nil
}

func (a *admission) AdmissionStatus(context.Context, *admissionv1.AdmissionStatusRequest) (*admissionv1.AdmissionStatusResponse, error) {
	if a.c.Lost != nil {
		if lost := a.c.Lost(); lost != nil {
			return lost, nil
		}
	}
	return &admissionv1.AdmissionStatusResponse{Holds: true}, nil
}

func (a *admission) Admit(ctx context.Context, r *admissionv1.AdmitRequest) (*admissionv1.AdmitResponse, error) {
	if a.c.Refuse != nil {
		if err := a.c.Refuse(); err != nil {
			return nil, err
		}
	}
	claim, err := a.verify(ctx, r)
	if err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	public, err := x509.ParsePKIXPublicKey(claim.BootPublicKey)
	if err != nil {
		return nil, err
	}
	der, err := a.c.World.Issue(a.c.Slot, public, a.c.Life)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(claim.BootPublicKey)
	boot := hex.EncodeToString(sum[:])
	answer := &admissionv1.AdmitResponse{
		Credentials: &admissionv1.Credentials{
			Cluster: claim.Cluster, Group: claim.Group, Slot: claim.Slot, BootId: boot,
			SvidChainPem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			CaBundlePem:  a.c.World.CAPEM, ExpiresAt: timestamppb.New(time.Now().Add(a.c.Life)),
			Vip: VIP(1, 0).String(), Secrets: []*admissionv1.Secret{{Name: "password", Value: []byte("s3cret"), Epoch: 1}}, Revision: "r1",
		},
		InitialPeers: a.c.peers(),
	}
	if a.c.Grant != nil {
		a.c.Grant(answer)
	}
	a.c.mu.Lock()
	a.c.boots = append(a.c.boots, boot)
	a.c.admits = append(a.c.admits, r)
	a.c.granted = answer.GetCredentials()
	a.c.mu.Unlock()
	a.c.node.SetPeers([]overlay.Peer{{ID: a.c.Slot, BootID: boot, InstanceID: claim.InstanceID, VIP: VIP(2, 0)}})
	return answer, nil
}

// verify does a coordinator's checks: evidence, statement, channel, nonce.
func (a *admission) verify(ctx context.Context, r *admissionv1.AdmitRequest) (statement.Agent, error) {
	claim, err := statement.DecodeAgent(r.GetStatement())
	if err != nil {
		return claim, err
	}
	verifier, err := attest.NewVerifier(a.c.World.Trust().VerifierConfig())
	if err != nil {
		return claim, err
	}
	claims, err := verifier.Verify(ctx, attest.Evidence{
		Quote: r.GetEvidence().GetQuote(), EventLog: r.GetEvidence().GetEventLog(), AppCompose: r.GetEvidence().GetAppCompose(),
	}, claim.ReportData())
	if err != nil {
		return claim, err
	}
	a.c.mu.Lock()
	asked := a.c.pending[hex.EncodeToString(claim.Nonce)]
	delete(a.c.pending, hex.EncodeToString(claim.Nonce))
	a.c.mu.Unlock()
	switch {
	case asked == nil || string(asked.GetBootPublicKey()) != string(claim.BootPublicKey):
		return claim, errors.New("NONCE_INVALID: not issued to this key")
	case string(claim.Exporter) != string(a.exporter):
		return claim, errors.New("CHANNEL_BINDING_MISMATCH: another connection")
	case claims.InstanceID != claim.InstanceID || claims.ComposeHash != claim.ComposeHash:
		return claim, errors.New("STATEMENT_MISMATCH: instance or compose hash")
	}
	return claim, nil
}

func (c *Coordinator) peers() []*controlv1.Peer {
	return append([]*controlv1.Peer{{
		Group: c.id.Group, Slot: c.id.Slot, Vip: VIP(0, 0).String(), AppId: c.AppID,
		InstanceId: c.instanceID, Coordinator: true,
	}}, c.Others...)
}

func (c *Coordinator) onControl(ctx context.Context, peer overlay.Peer, conns overlay.ControlConns) {
	client, err := grpcconn.Client(conns.Second)
	if err != nil {
		return
	}
	defer client.Close() //nolint:errcheck // test
	agent := controlv1.NewAgentServiceClient(client)
	c.mu.Lock()
	c.agents = append(c.agents, agent)
	c.sessions++
	c.mu.Unlock()
	_ = grpcconn.Serve(ctx, conns.First, func(s *grpc.Server) {
		controlv1.RegisterCoordinatorServiceServer(s, &controlServer{c: c})
		admissionv1.RegisterCredentialServiceServer(s, &credentials{c: c})
	}, grpcserver.Limits{})
	c.mu.Lock()
	c.agents = slices.DeleteFunc(c.agents, func(a controlv1.AgentServiceClient) bool { return a == agent })
	c.mu.Unlock()
}

// Renewals counts credentials that were renewed over a control session.
func (c *Coordinator) Renewals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renewals
}

// credentials renews the granted credentials, for the key of the session.
type credentials struct {
	admissionv1.UnimplementedCredentialServiceServer
	c *Coordinator
}

func (s *credentials) Renew(ctx context.Context, r *admissionv1.RenewRequest) (*admissionv1.RenewResponse, error) {
	who, ok := grpcconn.AddrFromContext(ctx)
	if !ok || who.ID != s.c.Slot || who.BootID != r.GetBootId() {
		return nil, status.Error(codes.PermissionDenied, "RENEW_DENIED: not the session's boot")
	}
	public, err := x509.ParsePKIXPublicKey([]byte(who.PublicKey))
	if err != nil {
		return nil, err
	}
	der, err := s.c.World.Issue(s.c.Slot, public, s.c.Life)
	if err != nil {
		return nil, err
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.renewals++
	out := proto.Clone(s.c.granted).(*admissionv1.Credentials)
	out.SvidChainPem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	out.ExpiresAt = timestamppb.New(time.Now().Add(s.c.Life))
	if s.c.Renewal != nil {
		if err := s.c.Renewal(r, out); err != nil {
			return nil, err
		}
	}
	return &admissionv1.RenewResponse{Credentials: out}, nil
}

type controlServer struct {
	controlv1.UnimplementedCoordinatorServiceServer
	c *Coordinator
}

func (s *controlServer) GetDesired(ctx context.Context, _ *controlv1.GetDesiredRequest) (*controlv1.GetDesiredResponse, error) {
	if id, _, ok := grpcconn.PeerFromContext(ctx); !ok || id != s.c.Slot {
		return nil, fmt.Errorf("caller is %v", id)
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return &controlv1.GetDesiredResponse{Desired: s.c.desired}, nil
}

func (s *controlServer) Report(_ context.Context, r *controlv1.ReportRequest) (*controlv1.ReportResponse, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.reports = append(s.c.reports, r.GetReport())
	return &controlv1.ReportResponse{DesiredVersion: s.c.desired.GetVersion(), PeersVersion: s.c.version}, nil
}

func (s *controlServer) GetPeers(context.Context, *controlv1.GetPeersRequest) (*controlv1.GetPeersResponse, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return &controlv1.GetPeersResponse{Version: s.c.version, Peers: s.c.peers()}, nil
}

// Farewells counts the Boots that said farewell.
func (c *Coordinator) Farewells() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

func (s *controlServer) Farewell(context.Context, *controlv1.FarewellRequest) (*controlv1.FarewellResponse, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.left++
	return &controlv1.FarewellResponse{}, nil
}
