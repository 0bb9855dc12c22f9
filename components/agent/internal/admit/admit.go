package admit

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"google.golang.org/grpc"
)

// attemptLimit bounds one exchange: quoting takes about a second on real hardware, and if a
// thousand CVMs request admission at once, one waits up to 20 s in line.
const attemptLimit = 45 * time.Second

// answerLimit bounds an answer of a coordinator that is not verified yet.
const answerLimit = 1 << 20

// Conn is one first-contact stream and the TLS connection beneath.
type Conn interface {
	net.Conn
	State() tls.ConnectionState
}

// Config makes a Client. All fields are required except Pin and Log.
type Config struct {
	Boot     *Boot
	Guest    attest.Guest
	Verifier verifier
	Trust    attest.Trust
	// Pin is the cluster ID that this CVM belongs to; nil: kept in memory alone.
	Pin *Pin
	// Dial opens a first contact with any coordinator.
	Dial func(ctx context.Context) (Conn, error)
	// Seen returns the highest Term and state of the coordinators' records that this agent has
	// seen; nil: it reports none.
	Seen func() (term, state uint64)
	Log  *slog.Logger
}

// Client asks for admission.
type Client struct{ cfg Config }

// New returns a Client.
func New(cfg Config) *Client {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Pin == nil {
		cfg.Pin = &Pin{named: cfg.Trust.ClusterID}
	}
	return &Client{cfg: cfg}
}

// Admitted is the result of an admission. Every part of it was checked against the coordinator's
// evidence.
type Admitted struct {
	ID overlay.ID
	// AppID and InstanceID as the guest agent names this CVM.
	AppID, InstanceID string
	Grant             *admissionv1.Credentials
	Credentials       overlay.Credentials
	// Peers holds at least the coordinators.
	Peers []overlay.Peer
	// Since is when the credentials came.
	Since, ExpiresAt time.Time
}

// Admit makes one attempt with one coordinator.
func (c *Client) Admit(ctx context.Context) (Admitted, error) { return c.attempt(ctx, nil) }

// Again repeats Admit for a Boot that uses present: tokens in use stay valid, and secrets with an
// unreadable epoch keep their value.
func (c *Client) Again(ctx context.Context, present Admitted) (Admitted, error) {
	return c.attempt(ctx, &present)
}

// InUse reports to a coordinator which parts of a are in use.
func (a Admitted) InUse() *admissionv1.CredentialsInUse {
	return &admissionv1.CredentialsInUse{TokensId: a.Grant.GetConsul().GetTokensId(), Vip: a.Grant.GetVip(), KeepsToken: true}
}

func (c *Client) attempt(ctx context.Context, present *Admitted) (Admitted, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptLimit,
		fmt.Errorf("admission took longer than %s", attemptLimit))
	defer cancel()
	info, err := c.cfg.Guest.Info(ctx)
	if err != nil {
		return Admitted{}, fmt.Errorf("ask guest agent: %w", err)
	}
	conn, err := c.cfg.Dial(ctx)
	if err != nil {
		return Admitted{}, fmt.Errorf("reach coordinator: %w", err)
	}
	defer conn.Close() //nolint:errcheck // one exchange per connection
	state := conn.State()
	exporter, err := state.ExportKeyingMaterial(overlay.AdmissionExporter, nil, 32)
	if err != nil {
		return Admitted{}, fmt.Errorf("bind to connection: %w", err)
	}
	client, err := grpcconn.Client(conn)
	if err != nil {
		return Admitted{}, fmt.Errorf("reach coordinator: %w", err)
	}
	defer client.Close() //nolint:errcheck // as above
	service := admissionv1.NewAdmissionServiceClient(client)

	nonce := make([]byte, 32)
	if _, err := rand.Read(nonce); err != nil {
		return Admitted{}, fmt.Errorf("make nonce: %w", err)
	}
	asked := time.Now()
	challenge, err := service.Challenge(ctx, &admissionv1.ChallengeRequest{
		AppId: info.AppID, InstanceId: info.InstanceID, BootPublicKey: c.cfg.Boot.PublicKey, BootNonce: nonce,
	}, grpc.MaxCallRecvMsgSize(answerLimit))
	if err != nil {
		return Admitted{}, fmt.Errorf("challenge: %w", err)
	}
	proved, err := c.checkCoordinator(ctx, challenge, state, exporter, nonce)
	if err != nil {
		return Admitted{}, fmt.Errorf("check coordinator: %w", err)
	}
	if err := sameTime(challenge, asked, time.Now()); err != nil {
		return Admitted{}, fmt.Errorf("check coordinator: %w", err)
	}
	claim := statement.Agent{
		Cluster: challenge.GetCluster(), ClusterID: proved.ClusterID, Group: challenge.GetGroup(), Slot: challenge.GetSlot(),
		AppID: info.AppID, InstanceID: info.InstanceID, ComposeHash: info.ComposeHash,
		BootPublicKey: c.cfg.Boot.PublicKey, Nonce: challenge.GetNonce(), Exporter: exporter,
	}
	if err := claim.Validate(); err != nil {
		return Admitted{}, fmt.Errorf("state identity: %w", err)
	}
	reportData := claim.ReportData()
	evidence, err := c.cfg.Guest.GetQuote(ctx, reportData[:])
	if err != nil {
		return Admitted{}, fmt.Errorf("quote: %w", err)
	}
	request := &admissionv1.AdmitRequest{
		Statement: claim.Encode(),
		Evidence: &admissionv1.Evidence{
			Quote: evidence.Quote, EventLog: evidence.EventLog, AppCompose: evidence.AppCompose, VmConfig: evidence.VMConfig,
		},
	}
	if present != nil {
		request.InUse = present.InUse()
	}
	if c.cfg.Seen != nil {
		request.SeenTerm, request.SeenState = c.cfg.Seen()
	}
	answer, err := service.Admit(ctx, request, grpc.MaxCallRecvMsgSize(answerLimit))
	if err != nil {
		return Admitted{}, fmt.Errorf("admit: %w", err)
	}
	out, err := c.accept(answer, claim, proved)
	if err == nil {
		err = c.cfg.Pin.take(proved.ClusterID)
	}
	if err != nil {
		return Admitted{}, err
	}
	var was *admissionv1.Credentials
	if present != nil {
		was = present.Grant
	}
	if out.Grant, err = keep(was, out.Grant); err != nil {
		return Admitted{}, err
	}
	return out, nil
}

// maxSkew is the largest accepted difference between the clocks of an agent and a coordinator. It
// is less than the backdating of SVIDs, so that an accepted Boot can use its own.
const maxSkew = 2 * time.Minute

// sameTime compares this machine's clock with the coordinator's, which is derived from the expiry
// of its nonce. The host sets the clock of a guest that does not wait for authenticated time, so
// one of the two clocks may show a day on which expired evidence is valid. Both ends run measured
// code: it is enough that one of them compares. asked and answered are when the request left and
// its answer came.
func sameTime(ch *admissionv1.ChallengeResponse, asked, answered time.Time) error {
	if ch.GetExpiresAt() == nil {
		return errors.New("the coordinator's nonce has no expiry")
	}
	theirs := ch.GetExpiresAt().AsTime().Add(-statement.NonceLife)
	if theirs.Before(asked.Add(-maxSkew)) || theirs.After(answered.Add(maxSkew)) {
		return fmt.Errorf("%s: the coordinator's clock says %s, this machine's says %s, and %s is the most that they may differ: find out which of the two hosts has the wrong time",
			policy.CodeClockUntrusted, theirs.UTC().Format(time.RFC3339), answered.UTC().Format(time.RFC3339), maxSkew)
	}
	return nil
}

// checkCoordinator verifies that a genuine coordinator of our cluster holds the
// other end of this very connection.
func (c *Client) checkCoordinator(ctx context.Context, ch *admissionv1.ChallengeResponse,
	state tls.ConnectionState, exporter, nonce []byte,
) (statement.Batch, error) {
	trust := c.cfg.Trust
	said, err := statement.DecodeBatch(ch.GetCoordinatorStatement())
	if err != nil {
		return said, err
	}
	if len(state.PeerCertificates) == 0 {
		return said, errors.New("BROKER_UNTRUSTED: the connection shows no certificate")
	}
	if !equal(said.TLSPublicKey, state.PeerCertificates[0].RawSubjectPublicKeyInfo) {
		return said, errors.New("CHANNEL_BINDING_MISMATCH: the coordinator's statement has another TLS key than this connection")
	}
	// One quote may serve many agents. Our exchange must be among them, computed from our own view
	// of this connection.
	own := statement.Exchange{Exporter: exporter, PeerNonce: nonce}
	if !said.Commits(own, ch.GetCoordinatorLeaf(), ch.GetCoordinatorPath()) {
		return said, errors.New("CHANNEL_BINDING_MISMATCH: the coordinator's statement does not commit to this connection and our nonce")
	}
	if said.Cluster != trust.Cluster || ch.GetCluster() != trust.Cluster {
		return said, fmt.Errorf("CLUSTER_MISMATCH: the coordinator serves cluster %q, we belong to %q", said.Cluster, trust.Cluster)
	}
	ev := ch.GetCoordinatorEvidence()
	claims, err := c.cfg.Verifier.Verify(ctx, attest.Evidence{
		Quote: ev.GetQuote(), EventLog: ev.GetEventLog(), AppCompose: ev.GetAppCompose(), Collateral: ev.GetCollateral(),
	}, said.ReportData())
	if err != nil {
		return said, err
	}
	if said.AppID != claims.AppID {
		return said, fmt.Errorf("STATEMENT_MISMATCH: the coordinator states app %s, its quote says %s", said.AppID, claims.AppID)
	}
	if err := trusted(trust, claims, time.Now()); err != nil {
		return said, err
	}
	return said, c.cfg.Pin.Check(said.ClusterID)
}

// trusted compares a coordinator's claims with the measured trust file.
// Its machine is judged by the collateral that it gave, which Intel signed.
func trusted(trust attest.Trust, claims policy.Claims, now time.Time) error {
	switch {
	case claims.AppID != trust.CoordinatorAppID:
		return fmt.Errorf("BROKER_UNTRUSTED: app %s answered, the coordinators are app %s", claims.AppID, trust.CoordinatorAppID)
	case claims.Simulated && !trust.AllowSimulated:
		return errors.New("BROKER_UNTRUSTED: the coordinator's evidence is simulated and the trust file does not allow that")
	case trust.KeyProvider.ID == "" || claims.KeyProviderID != trust.KeyProvider.ID || claims.KeyProviderName != trust.KeyProvider.Name:
		return fmt.Errorf("BROKER_UNTRUSTED: the coordinator's key provider is %s %s, the trust file pins %s %s",
			claims.KeyProviderName, claims.KeyProviderID, trust.KeyProvider.Name, trust.KeyProvider.ID)
	case claims.AppComposeProblem != "":
		return fmt.Errorf("BROKER_UNTRUSTED: the coordinator's app-compose: %s", claims.AppComposeProblem)
	case appcompose.Beyond(claims.AllowedEnvs, nil, appcompose.CoordinatorNames()) != "":
		return fmt.Errorf("BROKER_UNTRUSTED: the coordinator's app-compose: allowed_envs names %.80q, which coordinators do not read: a change of their environment could use it",
			appcompose.Beyond(claims.AllowedEnvs, nil, appcompose.CoordinatorNames()))
	case !trust.MayCoordinate(claims.ComposeHash):
		// Keys of the app outlive its compose file, so the app alone does not identify the running
		// code.
		return fmt.Errorf("BROKER_UNTRUSTED: the coordinator runs compose hash %s, which is not listed in coordinator_compose_hashes of the measured trust file: roll out a trust file that names it before the coordinators are upgraded, or find out which operator upgraded them",
			claims.ComposeHash)
	}
	if d := policy.AppraiseTCB(trust.TCB, claims.TCB, now); !d.Allowed {
		return fmt.Errorf("BROKER_UNTRUSTED: the coordinator's machine: %s: %s", d.Code, d.Message)
	}
	for _, image := range trust.Images {
		for _, m := range image {
			if m == (policy.Measurement{MRTD: claims.MRTD, RTMR0: claims.RTMR0, RTMR1: claims.RTMR1, RTMR2: claims.RTMR2}) {
				return nil
			}
		}
	}
	return fmt.Errorf("BROKER_UNTRUSTED: the coordinator's OS image (MRTD %.16s...) is not in the trust file", claims.MRTD)
}

type verifier interface {
	Verify(ctx context.Context, ev attest.Evidence, reportData [64]byte) (policy.Claims, error)
}
