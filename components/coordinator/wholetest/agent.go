package wholetest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	"cadre.dev/overlaystatus"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// agent is a minimal agent: it is admitted, opens its control session, obeys orders at once and
// reports that all is well.
func (h *Whole) agent(ctx context.Context, compose, seed []byte, app, cvm string) error {
	machine := 0
	if h.Machine != nil {
		machine = h.Machine(cvm)
	}
	guest, client := bootGuest(h.T, h.Cloud, app, compose, seed, machine)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "boot"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	boot := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	creds, peers, err := h.admit(ctx, client, guest.InstanceID(), app, boot)
	if err != nil {
		return err
	}
	return h.session(ctx, key, creds, peers)
}

func (h *Whole) admit(ctx context.Context, client *attest.GuestClient, instance, app string, boot tls.Certificate) (*admissionv1.Credentials, []*controlv1.Peer, error) {
	conn, err := overlay.DialAdmission(ctx, h.Config.Gateway, h.Config.Gateway.Name(CoordinatorApp), boot)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = conn.Close() }()
	state := conn.State()
	exporter, err := state.ExportKeyingMaterial(overlay.AdmissionExporter, nil, 32)
	if err != nil {
		return nil, nil, err
	}
	channel, err := grpcconn.Client(conn)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = channel.Close() }()
	service := admissionv1.NewAdmissionServiceClient(channel)
	leaf, err := x509.ParseCertificate(boot.Certificate[0])
	if err != nil {
		return nil, nil, err
	}
	c, err := service.Challenge(ctx, &admissionv1.ChallengeRequest{AppId: app, InstanceId: instance, BootPublicKey: leaf.RawSubjectPublicKeyInfo, BootNonce: bytes.Repeat([]byte{6}, 32)})
	if err != nil {
		return nil, nil, err
	}
	info, err := client.Info(ctx)
	if err != nil {
		return nil, nil, err
	}
	proved, err := statement.DecodeBatch(c.GetCoordinatorStatement())
	if err != nil {
		return nil, nil, err
	}
	said := statement.Agent{
		Cluster: c.GetCluster(), ClusterID: proved.ClusterID, Group: c.GetGroup(), Slot: c.GetSlot(), AppID: app, InstanceID: instance, ComposeHash: info.ComposeHash,
		BootPublicKey: leaf.RawSubjectPublicKeyInfo, Nonce: c.GetNonce(), Exporter: exporter,
	}
	data := said.ReportData()
	ev, err := client.GetQuote(ctx, data[:])
	if err != nil {
		return nil, nil, err
	}
	out, err := service.Admit(ctx, &admissionv1.AdmitRequest{
		Statement: said.Encode(), Evidence: &admissionv1.Evidence{Quote: ev.Quote, EventLog: ev.EventLog, AppCompose: ev.AppCompose},
	})
	return out.GetCredentials(), out.GetInitialPeers(), err
}

func (h *Whole) session(ctx context.Context, key *ecdsa.PrivateKey, creds *admissionv1.Credentials, peers []*controlv1.Peer) error {
	svid := tls.Certificate{PrivateKey: key}
	for rest := creds.GetSvidChainPem(); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		svid.Certificate = append(svid.Certificate, block.Bytes)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(creds.GetCaBundlePem())
	var node *overlay.Node
	node, err := overlay.New(overlay.Config{
		Self:    overlay.ID{Cluster: creds.GetCluster(), Group: creds.GetGroup(), Slot: creds.GetSlot()},
		SelfVIP: netip.MustParseAddr(creds.GetVip()), Listen: "127.0.0.1:0", Gateway: h.Config.Gateway,
		OnControl: func(ctx context.Context, peer overlay.Peer, c overlay.ControlConns) {
			h.reportLoop(ctx, creds.GetSlot(), c, overlaystatus.Server{Node: func() overlaystatus.Node { return node }}, func(channel *grpc.ClientConn) {
				h.Renewals.Store(renewOnce(ctx, channel, creds))
				h.Proxy.Store(proxyOnce(ctx, node, peer.ID, creds))
			})
		},
	})
	if err != nil {
		return err
	}
	node.SetCredentials(overlay.Credentials{Certificate: svid, Roots: roots})
	var known []overlay.Peer
	for _, p := range peers {
		known = append(known, overlay.Peer{
			ID:         overlay.ID{Cluster: creds.GetCluster(), Group: p.GetGroup(), Slot: p.GetSlot()},
			InstanceID: p.GetInstanceId(), VIP: netip.MustParseAddr(p.GetVip()), Coordinator: p.GetCoordinator(),
		})
	}
	node.SetPeers(known)
	return node.Run(ctx)
}

type wakeSink struct {
	controlv1.UnimplementedAgentServiceServer
	mesh overlaystatus.Server
}

func (w wakeSink) OverlayStatus(ctx context.Context, r *controlv1.OverlayStatusRequest) (*controlv1.OverlayStatusResponse, error) {
	return w.mesh.OverlayStatus(ctx, r)
}

func (w wakeSink) OverlayPing(ctx context.Context, r *controlv1.OverlayPingRequest) (*controlv1.OverlayPingResponse, error) {
	return w.mesh.OverlayPing(ctx, r)
}

func (w wakeSink) OverlayBench(ctx context.Context, r *controlv1.OverlayBenchRequest) (*controlv1.OverlayBenchResponse, error) {
	return w.mesh.OverlayBench(ctx, r)
}

func (wakeSink) Wake(context.Context, *controlv1.WakeRequest) (*controlv1.WakeResponse, error) {
	return &controlv1.WakeResponse{}, nil
}

// renewOnce renews credentials like an agent, and returns the fault; empty: the renewal was right.
// Renewals of a Slot have a minimum interval, and the previous Boot may have renewed a moment ago:
// then renewOnce retries, as an agent does.
func renewOnce(ctx context.Context, channel *grpc.ClientConn, had *admissionv1.Credentials) string {
	out, err := admissionv1.NewCredentialServiceClient(channel).Renew(ctx, &admissionv1.RenewRequest{BootId: had.GetBootId()})
	for status.Code(err) == codes.ResourceExhausted && ctx.Err() == nil {
		<-time.After(100 * time.Millisecond)
		out, err = admissionv1.NewCredentialServiceClient(channel).Renew(ctx, &admissionv1.RenewRequest{BootId: had.GetBootId()})
	}
	got := out.GetCredentials()
	switch {
	case err != nil:
		return err.Error()
	case got.GetSlot() != had.GetSlot() || got.GetGeneration() != had.GetGeneration() || !bytes.Equal(got.GetCaBundlePem(), had.GetCaBundlePem()):
		return "for another Boot: " + got.GetSlot()
	case got.GetConsul().GetWorkloadToken() == had.GetConsul().GetWorkloadToken() || bytes.Equal(got.GetSvidChainPem(), had.GetSvidChainPem()):
		return "nothing is fresh"
	}
	return ""
}

// proxyOnce opens a stream for configuration like the Slot's Envoy, and returns how it ended.
func proxyOnce(ctx context.Context, node *overlay.Node, coordinator overlay.ID, had *admissionv1.Credentials) string {
	conn, err := node.DialService(ctx, coordinator, group.ConsulXDSPort)
	if err != nil {
		return err.Error()
	}
	channel, err := grpcconn.Client(conn)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = channel.Close() }()
	stream, err := channel.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources")
	if err != nil {
		return err.Error()
	}
	text := func(num protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), value)
	}
	within := func(num protowire.Number, parts ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), bytes.Join(parts, nil))
	}
	name := within(3, within(1, text(1, "node_name"), within(2, text(3, had.GetSlot()))))
	first := &emptypb.Empty{}
	first.ProtoReflect().SetUnknown(within(1, text(1, had.GetGroup()+"-sidecar-proxy"), text(2, had.GetGroup()), name))
	if err := stream.SendMsg(first); err != nil {
		return err.Error()
	}
	return status.Convert(stream.RecvMsg(&emptypb.Empty{})).String()
}

func (h *Whole) reportLoop(ctx context.Context, slot string, c overlay.ControlConns, asked overlaystatus.Server, once func(*grpc.ClientConn)) {
	channel, err := grpcconn.Client(c.First)
	if err != nil {
		return
	}
	defer func() { _ = channel.Close() }()
	var served sync.WaitGroup
	defer served.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served.Go(func() {
		_ = grpcconn.Serve(ctx, c.Second, func(s *grpc.Server) { controlv1.RegisterAgentServiceServer(s, wakeSink{mesh: asked}) }, grpcserver.Limits{})
	})
	service := controlv1.NewCoordinatorServiceClient(channel)
	started := time.Now()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for sequence := uint64(1); ; sequence++ {
		desired, err := service.GetDesired(ctx, &controlv1.GetDesiredRequest{})
		report := &controlv1.Report{
			Sequence: sequence, MemberKnown: true, HealthyFor: durationpb.New(time.Since(started)),
			Member: &controlv1.MemberView{Role: controlv1.Role_ROLE_NONE, Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true, MayDisrupt: true},
		}
		if h.Member != nil {
			report.Member = h.Member(slot)
		}
		report.Checks = envoys(desired.GetDesired())
		if order := desired.GetDesired().GetOperation(); err == nil && order != nil {
			report.Steps = append(report.Steps, &controlv1.StepResult{
				OperationId: order.GetOperationId(), Verb: order.GetVerb(), Attempt: order.GetAttempt(), State: controlv1.StepState_STEP_STATE_DONE,
			})
		}
		if _, err := service.Report(ctx, &controlv1.ReportRequest{Report: report}); err == nil && once != nil {
			once(channel)
			once = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// envoys returns the checks of the Envoys in the member's desired state: all live.
func envoys(desired *controlv1.Desired) (out []*controlv1.CheckResult) {
	var config group.AgentConfig
	if json.Unmarshal(desired.GetConfigJson(), &config) != nil {
		return nil // there is no configuration yet
	}
	for _, p := range config.ServiceMesh.Proxies {
		out = append(out, &controlv1.CheckResult{Name: group.ProxyCheck(p.ID), Health: controlv1.Health_HEALTH_HEALTHY, Informative: p.Calls()})
	}
	return out
}
