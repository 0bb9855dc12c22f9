package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"cadre.dev/attest"
	"cadre.dev/attest/collateral"
	"cadre.dev/attest/statement"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/clusterid"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

const (
	maxQuote     = 16 << 10
	maxEventLog  = 1 << 20
	maxCompose   = 256 << 10
	maxCABundle  = 64 << 10
	maxStatement = 64 << 10
)

// Attested is the result of Attest.
type Attested struct {
	// CAPEM is the cluster CA to pin, and ClusterID its cluster ID.
	CAPEM, ClusterID string
	// Slot is the coordinator that answered.
	Slot   string
	Claims policy.Claims
}

// Attest connects to an unknown coordinator and verifies its proof: genuine evidence under the
// context's trust, of the context's app and key provider. The evidence must cover the key of this
// very connection, this nonce, and the CA that it names. No token is sent. The error has Kind
// Untrusted when the proof fails.
func Attest(ctx context.Context, c Context, opts Options) (Attested, error) {
	doing := "prove the coordinators of " + c.Cluster
	verifier, err := attest.NewVerifier(c.Trust.VerifierConfig())
	if err != nil {
		return Attested{}, fmt.Errorf("%s: trust of the context: %w", doing, err)
	}
	c.Token = ""
	conn, err := newConn(c, opts, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // the evidence proves the key; nothing secret is sent before
	})
	if err != nil {
		return Attested{}, fmt.Errorf("%s: %w", doing, err)
	}
	defer conn.Close()
	nonce := make([]byte, 32)
	if _, err := rand.Read(nonce); err != nil {
		return Attested{}, fmt.Errorf("%s: %w", doing, err)
	}
	from := &peer.Peer{}
	reply, err := apiv1.NewClusterServiceClient(conn).AttestCoordinator(ctx, &apiv1.AttestCoordinatorRequest{Nonce: nonce}, grpc.Peer(from))
	if err != nil {
		return Attested{}, (&Client{ctx: c}).wrap(doing, err)
	}
	channel, err := channelOf(from)
	if err == nil {
		channel.nonce = nonce
		var out Attested
		if out, err = prove(ctx, c, verifier, channel, reply); err == nil {
			return out, nil
		}
	}
	return Attested{}, &Error{Kind: Untrusted, Doing: doing, Message: err.Error(), cause: err,
		Hint: "nothing was pinned; check coordinator_app_id, key provider, roots and images of the context's trust, and the operator of the gateway"}
}

// prove checks one answer that arrived over ch.
func prove(ctx context.Context, c Context, v *attest.Verifier, ch channel, r *apiv1.AttestCoordinatorResponse) (Attested, error) {
	if err := checkSizes(r); err != nil {
		return Attested{}, err
	}
	st, err := statement.DecodeCoordinator(r.GetStatement())
	if err != nil {
		return Attested{}, fmt.Errorf("statement: %w", err)
	}
	return proveStatement(ctx, c, v, ch, r, st, st.ReportData())
}

// checkSizes bounds the parts of an answer before any is read.
func checkSizes(r *apiv1.AttestCoordinatorResponse) error {
	for _, part := range []struct {
		name      string
		size, max int
	}{
		{"statement", len(r.GetStatement()), maxStatement}, {"quote", len(r.GetQuote()), maxQuote}, {"event log", len(r.GetEventLog()), maxEventLog},
		{"app-compose", len(r.GetAppCompose()), maxCompose}, {"CA bundle", len(r.GetCaBundlePem()), maxCABundle},
		{"collateral", len(r.GetCollateral()), collateral.MaxBundleSize},
	} {
		if part.size == 0 || part.size > part.max {
			return fmt.Errorf("the %s has %d bytes, want 1 to %d", part.name, part.size, part.max)
		}
	}
	return nil
}

// proveStatement checks the answer of a coordinator that asserts st. data is the report data of its
// whole statement.
func proveStatement(ctx context.Context, c Context, v *attest.Verifier, ch channel, r *apiv1.AttestCoordinatorResponse, st statement.Coordinator, data [64]byte) (Attested, error) {
	caDigest := sha256.Sum256(r.GetCaBundlePem())
	switch {
	case st.Cluster != c.Cluster:
		return Attested{}, fmt.Errorf("it belongs to cluster %q, wanted %q", st.Cluster, c.Cluster)
	case st.ClusterID != clusterid.OfPEM(r.GetCaBundlePem()):
		return Attested{}, fmt.Errorf("it states cluster ID %s, and its CA is of cluster ID %q", st.ClusterID, clusterid.OfPEM(r.GetCaBundlePem()))
	case st.AppID != c.CoordinatorAppID:
		return Attested{}, fmt.Errorf("its statement names app %q, wanted %q", st.AppID, c.CoordinatorAppID)
	case subtle.ConstantTimeCompare(st.PeerNonce, ch.nonce) != 1:
		return Attested{}, errors.New("its statement answers another nonce: a replay")
	case !bytes.Equal(st.TLSPublicKey, ch.key):
		return Attested{}, errors.New("its statement is for another TLS key than this connection's: the connection may be intercepted")
	case !bytes.Equal(st.Exporter, ch.exporter):
		return Attested{}, errors.New("its statement is for another connection than this one: the connection may be intercepted")
	case !bytes.Equal(st.CABundleSHA256, caDigest[:]):
		return Attested{}, errors.New("its statement is for another cluster CA than it sent")
	}
	claims, err := v.Verify(ctx, attest.Evidence{Quote: r.GetQuote(), EventLog: r.GetEventLog(), AppCompose: r.GetAppCompose(), Collateral: r.GetCollateral()}, data)
	if err != nil {
		return Attested{}, fmt.Errorf("evidence: %w", err)
	}
	if err := accept(c, claims, time.Now()); err != nil {
		return Attested{}, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(r.GetCaBundlePem()) {
		return Attested{}, errors.New("the cluster CA is not a PEM certificate")
	}
	for _, pin := range []struct{ clusterID, where string }{{c.ClusterID, "the context"}, {c.Trust.ClusterID, "the context's trust"}} {
		if pin.clusterID != "" && st.ClusterID != pin.clusterID {
			return Attested{}, &clusterid.MismatchError{Who: st.Slot, Got: st.ClusterID, Pinned: pin.clusterID, Where: pin.where,
				WayOut: "if the coordinators were recreated on purpose, accept them with `cadre cluster connect --reattest`"}
		}
	}
	return Attested{CAPEM: string(r.GetCaBundlePem()), ClusterID: st.ClusterID, Slot: st.Slot, Claims: claims}, nil
}

// accept compares genuine claims with the context. An absent list accepts nothing. The machine is
// judged by the collateral in the answer.
func accept(c Context, claims policy.Claims, now time.Time) error {
	t := c.Trust
	switch {
	case claims.AppID != c.CoordinatorAppID:
		return fmt.Errorf("its evidence is of app %s, wanted %s", claims.AppID, c.CoordinatorAppID)
	case t.KeyProvider.Name == "" || t.KeyProvider.ID == "":
		return errors.New("the context pins no key provider: set trust.key_provider")
	case claims.KeyProviderName != t.KeyProvider.Name || claims.KeyProviderID != t.KeyProvider.ID:
		return fmt.Errorf("its keys come from %s %s, wanted %s %s", claims.KeyProviderName, short(claims.KeyProviderID), t.KeyProvider.Name, short(t.KeyProvider.ID))
	case claims.Simulated && !t.AllowSimulated:
		return errors.New("its evidence is simulated (a root that is not Intel's), which the context's trust does not allow")
	case claims.AppComposeProblem != "":
		return fmt.Errorf("its app-compose.json: %s", claims.AppComposeProblem)
	case appcompose.Beyond(claims.AllowedEnvs, nil, appcompose.CoordinatorNames()) != "":
		return fmt.Errorf("its app-compose.json: allowed_envs names %.80q, which coordinators do not read: a change of their environment could use it",
			appcompose.Beyond(claims.AllowedEnvs, nil, appcompose.CoordinatorNames()))
	case !t.MayCoordinate(claims.ComposeHash), len(c.CoordinatorComposeHashes) > 0 && !slices.Contains(c.CoordinatorComposeHashes, claims.ComposeHash):
		return fmt.Errorf("it runs compose hash %s, which this context does not list", claims.ComposeHash)
	}
	if d := policy.AppraiseTCB(t.TCB, claims.TCB, now); !d.Allowed {
		return fmt.Errorf("its machine: %s: %s", d.Code, d.Message)
	}
	measured := policy.Measurement{MRTD: claims.MRTD, RTMR0: claims.RTMR0, RTMR1: claims.RTMR1, RTMR2: claims.RTMR2}
	names := []string{}
	for name, list := range t.Images {
		if slices.Contains(list, measured) {
			return nil
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return fmt.Errorf("its OS image (MRTD %s) is not among the images of the trust (%s)", short(claims.MRTD), strings.Join(names, ", "))
}

func short(hex string) string {
	if len(hex) > 16 {
		return hex[:16] + "..."
	}
	return hex
}

// channel has the values that the statement must be bound to.
type channel struct {
	nonce []byte
	// key is the SPKI of the certificate, exporter the connection's own secret.
	key, exporter []byte
}

// exporterLabel is the label of admission (package overlay): the channel binding is the same
// everywhere.
const exporterLabel = "EXPORTER-cadre-admission-v1"

// channelOf returns the binding of the connection that carried the answer. After a reconnect this
// may be another coordinator than the one seen first.
func channelOf(from *peer.Peer) (channel, error) {
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return channel{}, errors.New("the connection has no certificate")
	}
	exporter, err := info.State.ExportKeyingMaterial(exporterLabel, nil, 32)
	if err != nil {
		return channel{}, fmt.Errorf("channel binding: %w", err)
	}
	return channel{key: info.State.PeerCertificates[0].RawSubjectPublicKeyInfo, exporter: exporter}, nil
}
