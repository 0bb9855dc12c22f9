package agents

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"

	"google.golang.org/grpc"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/statement"
	"cadre.dev/bench/internal/world"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

const (
	// attemptLimit bounds one exchange, answerLimit one answer.
	attemptLimit = 45 * time.Second
	answerLimit  = 1 << 20
)

// Agent is the agent of one Slot. It has one Boot at a time.
type Agent struct {
	Slot  world.Slot
	guest *attestsim.Guest

	// Of this Boot.
	key    *ecdsa.PrivateKey
	spki   []byte
	cert   tls.Certificate
	BootID string
	// Nonces are the nonces that this Boot received, Spent the one of its admission.
	Nonces [][]byte
	Spent  []byte
	Grant  *admissionv1.Credentials
	Peers  []*controlv1.Peer
}

// New boots the CVM of a Slot.
func New(cloud *attestsim.Cloud, slot world.Slot) (*Agent, error) {
	guest, err := slot.Boot(cloud)
	if err != nil {
		return nil, err
	}
	return &Agent{Slot: slot, guest: guest}, nil
}

// InstanceID of the CVM.
func (a *Agent) InstanceID() string { return a.guest.InstanceID() }

// Restart makes a new Boot, with a new key and nothing else.
func (a *Agent) Restart() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "boot"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(spki)
	*a = Agent{
		Slot: a.Slot, guest: a.guest, key: key, spki: spki, BootID: hex.EncodeToString(sum[:]),
		cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}
	return nil
}

// Judge verifies the evidence of a coordinator; nil: no verification.
type Judge func(ctx context.Context, ev attest.Evidence, reportData [64]byte) error

// Admit makes one attempt with the coordinator at address.
func (a *Agent) Admit(ctx context.Context, address string, judge Judge) error {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	gateway := overlay.Gateway{Domain: world.Domain, Address: address}
	conn, err := overlay.DialAdmission(ctx, gateway, gateway.Name(world.CoordinatorApp), a.cert)
	if err != nil {
		return fmt.Errorf("reach coordinator: %w", err)
	}
	defer conn.Close() //nolint:errcheck // one exchange per connection
	state := conn.State()
	exporter, err := state.ExportKeyingMaterial(overlay.AdmissionExporter, nil, 32)
	if err != nil {
		return err
	}
	channel, err := grpcconn.Client(conn)
	if err != nil {
		return fmt.Errorf("reach coordinator: %w", err)
	}
	defer channel.Close() //nolint:errcheck // as above
	service := admissionv1.NewAdmissionServiceClient(channel)

	own := statement.Exchange{Exporter: exporter, PeerNonce: make([]byte, 32)}
	if _, err := rand.Read(own.PeerNonce); err != nil {
		return err
	}
	challenge, err := service.Challenge(ctx, &admissionv1.ChallengeRequest{
		AppId: a.Slot.AppID, InstanceId: a.InstanceID(), BootPublicKey: a.spki, BootNonce: own.PeerNonce,
	}, grpc.MaxCallRecvMsgSize(answerLimit))
	if err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	a.Nonces = append(a.Nonces, challenge.GetNonce())
	clusterID, err := checkCoordinator(ctx, challenge, state, own, judge)
	if err != nil {
		return fmt.Errorf("check coordinator: %w", err)
	}
	claim := statement.Agent{
		Cluster: challenge.GetCluster(), ClusterID: clusterID, Group: challenge.GetGroup(), Slot: challenge.GetSlot(),
		AppID: a.Slot.AppID, InstanceID: a.InstanceID(), ComposeHash: a.guest.ComposeHash(),
		BootPublicKey: a.spki, Nonce: challenge.GetNonce(), Exporter: exporter,
	}
	evidence, err := a.quote(ctx, claim.ReportData())
	if err != nil {
		return fmt.Errorf("quote: %w", err)
	}
	answer, err := service.Admit(ctx, &admissionv1.AdmitRequest{Statement: claim.Encode(), Evidence: &admissionv1.Evidence{
		Quote: evidence.Quote, EventLog: evidence.EventLog, AppCompose: evidence.AppCompose, VmConfig: evidence.VMConfig,
	}}, grpc.MaxCallRecvMsgSize(answerLimit))
	if err != nil {
		return fmt.Errorf("admit: %w", err)
	}
	grant := answer.GetCredentials()
	if grant.GetSlot() != a.Slot.Name || grant.GetBootId() != a.BootID || len(grant.GetSvidChainPem()) == 0 || grant.GetConsul().GetWorkloadToken() == "" {
		return fmt.Errorf("read credentials: they are for %s, boot %.12s; want %s, boot %.12s", grant.GetSlot(), grant.GetBootId(), a.Slot.Name, a.BootID)
	}
	a.Spent, a.Grant, a.Peers = challenge.GetNonce(), grant, answer.GetInitialPeers()
	return nil
}

// errEvidence: the coordinator's evidence is not about this connection, or not genuine. The agent
// and the benchmark stop after it.
var errEvidence = errors.New("the coordinator's evidence is not good")

// checkCoordinator gives the cluster ID that the coordinator is of.
func checkCoordinator(ctx context.Context, c *admissionv1.ChallengeResponse, state tls.ConnectionState, own statement.Exchange, judge Judge) (clusterID string, err error) {
	said, err := statement.DecodeBatch(c.GetCoordinatorStatement())
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", errEvidence, err)
	case len(state.PeerCertificates) == 0 || !bytes.Equal(said.TLSPublicKey, state.PeerCertificates[0].RawSubjectPublicKeyInfo):
		return "", fmt.Errorf("%w: another TLS key", errEvidence)
	case !said.Commits(own, c.GetCoordinatorLeaf(), c.GetCoordinatorPath()):
		return "", fmt.Errorf("%w: another connection", errEvidence)
	case judge == nil:
		return said.ClusterID, nil
	}
	ev := c.GetCoordinatorEvidence()
	if err := judge(ctx, attest.Evidence{
		Quote: ev.GetQuote(), EventLog: ev.GetEventLog(), AppCompose: ev.GetAppCompose(), Collateral: ev.GetCollateral(),
	}, said.ReportData()); err != nil {
		return "", fmt.Errorf("%w: %w", errEvidence, err)
	}
	return said.ClusterID, nil
}
