package clienttest

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/statement"
	"cadre.dev/core/appcompose"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Evidence configures a Server's proof: a quote of a simulated machine.
type Evidence struct {
	// Trust accepts the evidence.
	Trust attest.Trust
	// Posture of the simulated machines. Set it before the call that uses it.
	Posture attestsim.Posture
	// Change alters the coordinator's answer; nil: unchanged.
	Change func(*statement.Coordinator, *apiv1.AttestCoordinatorResponse)
}

// ProveItself makes s answer AttestCoordinator with simulated evidence. Call it before Start.
func (s *Server) ProveItself(t testing.TB, faults attestsim.Faults) *Evidence {
	t.Helper()
	cloud, err := attestsim.OpenCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	appCompose, err := json.Marshal(map[string]any{"manifest_version": 2, "name": "coordinator", "runner": "docker-compose",
		"docker_compose_file": "services: {}", "kms_enabled": true, "key_provider": "kms", "secure_time": true, "init_script": appcompose.InitScript})
	if err != nil {
		t.Fatal(err)
	}
	guest, err := cloud.Boot(attestsim.BootConfig{AppID: AppID, AppCompose: appCompose, InstanceIDSeed: make([]byte, 20),
		OSImage: "dstack-0.5.7", Faults: faults})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "dstack.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	agent := &http.Server{Handler: guest.Handler(), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = agent.Serve(listener) }()
	t.Cleanup(func() { _ = agent.Close(); <-done })

	e := &Evidence{Trust: attest.Trust{Cluster: "demo", CoordinatorAppID: AppID, RootsPEM: string(cloud.RootPEM()), AllowSimulated: true,
		KeyProvider: attest.KeyProvider{Name: "kms", ID: cloud.KeyProviderID()}, Images: cloud.Images("dstack-0.5.7")}}
	leaf, err := x509.ParseCertificate(s.cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	quoter := attest.NewGuestClient(socket)
	s.prove = func(ctx context.Context, nonce []byte, complete func(statement.Coordinator) assertion) (*apiv1.AttestCoordinatorResponse, error) {
		from, _ := peer.FromContext(ctx)
		info, _ := from.AuthInfo.(credentials.TLSInfo)
		exporter, err := info.State.ExportKeyingMaterial("EXPORTER-cadre-admission-v1", nil, 32)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		ca := sha256.Sum256(s.caPEM)
		st := statement.Coordinator{Cluster: "demo", ClusterID: s.clusterID, AppID: AppID, Slot: "coordinator-0",
			TLSPublicKey: leaf.RawSubjectPublicKeyInfo, Exporter: exporter, PeerNonce: nonce, CABundleSHA256: ca[:]}
		bundle, err := cloud.Collateral(time.Now(), e.Posture)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		text, err := bundle.Encode()
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		out := &apiv1.AttestCoordinatorResponse{CaBundlePem: s.caPEM, Collateral: text}
		if e.Change != nil {
			e.Change(&st, out)
		}
		whole := complete(st)
		data := whole.ReportData()
		ev, err := quoter.GetQuote(ctx, data[:])
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		out.Statement, out.Quote, out.EventLog, out.AppCompose = whole.Encode(), ev.Quote, ev.EventLog, ev.AppCompose
		return out, nil
	}
	s.Attest = func(ctx context.Context, r *apiv1.AttestCoordinatorRequest) (*apiv1.AttestCoordinatorResponse, error) {
		return s.prove(ctx, r.GetNonce(), func(own statement.Coordinator) assertion { return own })
	}
	return e
}

// assertion is a statement of package attest/statement.
type assertion interface {
	Encode() []byte
	ReportData() [64]byte
}
