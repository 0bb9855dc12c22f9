package bootstrap

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	"google.golang.org/grpc"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// maxAnswer bounds the answer of a caller without proof.
const maxAnswer = 1 << 20

// Verifier decides whether evidence is genuine.
type Verifier interface {
	Verify(ctx context.Context, ev attest.Evidence, reportData [64]byte) (policy.Claims, error)
}

// Asker makes other coordinators prove their cluster ID. All fields are required.
type Asker struct {
	Cluster, AppID string
	Gateway        overlay.Gateway
	// Boot is a certificate signed by its own key.
	Boot     tls.Certificate
	Verifier Verifier
	Images   policy.ImagePolicy
	Now      func() time.Time
}

// Ask asks the coordinator slot at an instance for its cluster ID; "" means that it has none. Any
// error means that it proved nothing.
func (a *Asker) Ask(ctx context.Context, instance, slot string) (string, error) {
	conn, err := overlay.DialAdmission(ctx, a.Gateway, a.Gateway.Name(instance), a.Boot)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // one exchange per connection
	client, err := grpcconn.Client(conn)
	if err != nil {
		return "", err
	}
	defer client.Close() //nolint:errcheck // as above
	nonce := make([]byte, nonceSize)
	if _, err := rand.Read(nonce); err != nil {
		return "", err
	}
	answer, err := admissionv1.NewBootstrapServiceClient(client).ProveClusterID(ctx, &admissionv1.ProveClusterIDRequest{Nonce: nonce}, grpc.MaxCallRecvMsgSize(maxAnswer))
	if err != nil {
		return "", err
	}
	return a.judge(ctx, conn.State(), answer, nonce, slot)
}

// judge accepts an answer only if a coordinator of our app holds the other end of this connection.
// judge compares each field of the statement (ATT-23).
func (a *Asker) judge(ctx context.Context, state tls.ConnectionState, answer *admissionv1.ProveClusterIDResponse, nonce []byte, slot string) (string, error) {
	exporter, err := state.ExportKeyingMaterial(overlay.AdmissionExporter, nil, 32)
	if err != nil {
		return "", err
	}
	said, err := statement.DecodeClusterID(answer.GetStatement())
	switch {
	case err != nil:
		return "", err
	case len(state.PeerCertificates) == 0 || !bytes.Equal(said.TLSPublicKey, state.PeerCertificates[0].RawSubjectPublicKeyInfo):
		return "", errors.New("CHANNEL_BINDING_MISMATCH: the statement has another TLS key than this connection")
	case !bytes.Equal(said.Exporter, exporter) || !bytes.Equal(said.PeerNonce, nonce):
		return "", errors.New("CHANNEL_BINDING_MISMATCH: the statement is not for this connection and our nonce")
	case said.Cluster != a.Cluster:
		return "", fmt.Errorf("CLUSTER_MISMATCH: the coordinator serves cluster %q, want %q", said.Cluster, a.Cluster)
	case said.Slot != slot:
		return "", fmt.Errorf("SLOT_MISMATCH: the coordinator is %s, want %s", said.Slot, slot)
	}
	ev := answer.GetEvidence()
	claims, err := a.Verifier.Verify(ctx, attest.Evidence{
		Quote: ev.GetQuote(), EventLog: ev.GetEventLog(), AppCompose: ev.GetAppCompose(), Collateral: ev.GetCollateral(),
	}, said.ReportData())
	if err != nil {
		return "", err
	}
	if said.AppID != claims.AppID {
		return "", fmt.Errorf("STATEMENT_MISMATCH: the statement has app %s, the quote has %s", said.AppID, claims.AppID)
	}
	if d := policy.AppraiseCoordinator(a.Images, a.AppID, claims, a.Now()); !d.Allowed {
		return "", fmt.Errorf("BROKER_UNTRUSTED: %s: %s", d.Code, d.Message)
	}
	return said.ClusterID, nil
}

// NewBoot makes a key and its self-signed certificate, for first contacts in both directions while
// there is no cluster ID and thus no CA.
func NewBoot() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make key of first contacts: %w", err)
	}
	// The verifier checks only the key, and needs no clock for that.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cadre coordinator"},
		NotBefore: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2055, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate of first contacts: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read back certificate of first contacts: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
