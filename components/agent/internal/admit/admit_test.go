package admit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/statement"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

func newClient(t *testing.T, w *agenttest.World, trust attest.Trust) (*admit.Client, *admit.Boot) {
	t.Helper()
	return newPinned(t, w, trust, nil)
}

// newPinned makes a Client of a new Boot that has that pin.
func newPinned(t *testing.T, w *agenttest.World, trust attest.Trust, pin *admit.Pin) (*admit.Client, *admit.Boot) {
	t.Helper()
	socket, _ := w.Guest(t, agenttest.WorkerAppID, 1, attestsim.Faults{})
	guest := attest.NewGuestClient(socket)
	t.Cleanup(guest.Close)
	boot, err := admit.NewBoot()
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := attest.NewVerifier(trust.VerifierConfig())
	if err != nil {
		t.Fatal(err)
	}
	gateway := w.Gateway.Config()
	return admit.New(admit.Config{
		Boot: boot, Guest: guest, Verifier: verifier, Trust: trust, Pin: pin,
		Dial: func(ctx context.Context) (admit.Conn, error) {
			return overlay.DialAdmission(ctx, gateway, gateway.Name(agenttest.CoordinatorAppID), boot.Certificate)
		},
	}), boot
}

func TestAdmit(t *testing.T) {
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	client, boot := newClient(t, w, w.Trust())
	got, err := client.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != c.Slot || got.Grant.GetBootId() != boot.ID || len(got.Peers) != 1 || !got.Peers[0].Coordinator {
		t.Errorf("admitted = %+v, want %s with one coordinator", got, c.Slot)
	}
}

// TestATT29_ClocksMayDifferALittle: the usual difference between two machines with NTP is accepted.
func TestATT29_ClocksMayDifferALittle(t *testing.T) {
	for _, ahead := range []time.Duration{time.Minute, -time.Minute} {
		w := agenttest.NewWorld(t)
		c := agenttest.NewCoordinator(w)
		c.ClockAhead = ahead
		c.Start(t)
		client, _ := newClient(t, w, w.Trust())
		if _, err := client.Admit(t.Context()); err != nil {
			t.Errorf("the coordinator's clock is %s ahead: %v", ahead, err)
		}
	}
}

// The agent must exchange evidence only with a genuine coordinator of its cluster at the other end
// of this connection.
func TestATT30_GEN02_TOK20_AdmitRefuses(t *testing.T) {
	const otherApp = "c0000000000000000000000000000000000000ff"
	for name, tc := range map[string]struct {
		coordinator func(*agenttest.Coordinator)
		trust       func(*attest.Trust)
		want        string
		// late: the refusal is about the answer, after our evidence was sent.
		late bool
	}{
		"another app answers":          {coordinator: func(c *agenttest.Coordinator) { c.AppID = otherApp }, want: "BROKER_UNTRUSTED"},
		"statement names another app":  {coordinator: func(c *agenttest.Coordinator) { c.Tamper = func(s *statement.Coordinator) { s.AppID = otherApp } }, want: "STATEMENT_MISMATCH"},
		"statement of another cluster": {coordinator: func(c *agenttest.Coordinator) { c.Tamper = func(s *statement.Coordinator) { s.Cluster = "other" } }, want: "CLUSTER_MISMATCH"},
		"statement for another connection": {coordinator: func(c *agenttest.Coordinator) {
			c.Tamper = func(s *statement.Coordinator) { s.Exporter = make([]byte, 32) }
		}, want: "CHANNEL_BINDING_MISMATCH"},
		"statement for another nonce": {coordinator: func(c *agenttest.Coordinator) {
			c.Tamper = func(s *statement.Coordinator) { s.PeerNonce = make([]byte, 32) }
		}, want: "CHANNEL_BINDING_MISMATCH"},
		"statement for another key": {coordinator: func(c *agenttest.Coordinator) {
			c.Tamper = func(s *statement.Coordinator) { s.TLSPublicKey = append([]byte{1}, s.TLSPublicKey[1:]...) }
		}, want: "CHANNEL_BINDING_MISMATCH"},
		"quote under a foreign root":        {coordinator: func(c *agenttest.Coordinator) { c.Faults.ForeignRoot = true }, want: "QUOTE_INVALID"},
		"quote of a debug TD":               {coordinator: func(c *agenttest.Coordinator) { c.Faults.DebugTD = true }, want: "TD_DEBUG"},
		"replayed quote is not ours":        {coordinator: func(c *agenttest.Coordinator) { c.Faults.ForeignImage = true }, want: "BROKER_UNTRUSTED"},
		"foreign key provider":              {coordinator: func(c *agenttest.Coordinator) { c.Faults.ForeignKeyProvider = true }, want: "BROKER_UNTRUSTED"},
		"simulated root is not allowed":     {trust: func(tr *attest.Trust) { tr.AllowSimulated = false }, want: "BROKER_UNTRUSTED"},
		"ATT-30 another cluster ID is ours": {trust: func(tr *attest.Trust) { tr.ClusterID = agenttest.SecondClusterID }, want: "CLUSTER_MISMATCH: the coordinator proves cluster ID " + agenttest.ClusterID},
		"ATT-23 a CA of another cluster ID": {late: true, want: "SVID_UNTRUSTED: the CA is of cluster ID", coordinator: func(c *agenttest.Coordinator) {
			c.Tamper = func(s *statement.Coordinator) { s.ClusterID = agenttest.SecondClusterID }
		}},
		"another cluster is ours":          {trust: func(tr *attest.Trust) { tr.Cluster = "prod" }, want: "CLUSTER_MISMATCH"},
		"ATT-30 no collateral":             {coordinator: func(c *agenttest.Coordinator) { c.NoCollateral = true }, want: "BROKER_UNTRUSTED: the coordinator's machine: COLLATERAL_UNAVAILABLE"},
		"ATT-30 an old machine":            {coordinator: func(c *agenttest.Coordinator) { c.World.Posture.Platform = "OutOfDate" }, want: "BROKER_UNTRUSTED: the coordinator's machine: TCB_OUT_OF_DATE"},
		"ATT-30 a revoked machine":         {coordinator: func(c *agenttest.Coordinator) { c.World.Posture.RevokedHosts = []string{""} }, want: "QUOTE_REVOKED"},
		"ATT-30 collateral that has ended": {coordinator: func(c *agenttest.Coordinator) { c.World.Posture.Age = 31 * 24 * time.Hour }, want: "COLLATERAL_EXPIRED"},
		"ATT-30 collateral of the future":  {coordinator: func(c *agenttest.Coordinator) { c.World.Posture.Age = -3 * time.Hour }, want: "CLOCK_UNTRUSTED"},
		"ATT-29 its clock is ahead":        {coordinator: func(c *agenttest.Coordinator) { c.ClockAhead = 3 * time.Minute }, want: "CLOCK_UNTRUSTED"},
		"ATT-29 its clock is behind":       {coordinator: func(c *agenttest.Coordinator) { c.ClockAhead = -3 * time.Minute }, want: "CLOCK_UNTRUSTED"},
		"ATT-30 another compose file": {
			trust: func(tr *attest.Trust) { tr.CoordinatorComposeHashes = []string{strings.Repeat("ab", 32)} },
			want:  "BROKER_UNTRUSTED: the coordinator runs compose hash",
		},
		"another CA bundle": {late: true, want: "SVID_UNTRUSTED", coordinator: func(c *agenttest.Coordinator) {
			c.Grant = func(r *admissionv1.AdmitResponse) {
				r.Credentials.CaBundlePem = append(r.Credentials.CaBundlePem, '\n')
			}
		}},
		"credentials for another slot": {late: true, want: "asked for", coordinator: func(c *agenttest.Coordinator) {
			c.Grant = func(r *admissionv1.AdmitResponse) { r.Credentials.Slot = "web-1" }
		}},
		"credentials for another boot": {late: true, want: "another boot", coordinator: func(c *agenttest.Coordinator) {
			c.Grant = func(r *admissionv1.AdmitResponse) { r.Credentials.BootId = "00" }
		}},
		"no svid": {late: true, want: "chain is empty", coordinator: func(c *agenttest.Coordinator) {
			c.Grant = func(r *admissionv1.AdmitResponse) { r.Credentials.SvidChainPem = nil }
		}},
		"a peer map that cannot be read": {late: true, want: "initial peers", coordinator: func(c *agenttest.Coordinator) {
			c.Grant = func(r *admissionv1.AdmitResponse) { r.InitialPeers[0].Vip = "nowhere" }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := agenttest.NewWorld(t)
			c := agenttest.NewCoordinator(w)
			if tc.coordinator != nil {
				tc.coordinator(c)
			}
			c.Start(t)
			trust := w.Trust()
			if tc.trust != nil {
				tc.trust(&trust)
			}
			client, _ := newClient(t, w, trust)
			_, err := client.Admit(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("admit = %v, want %s", err, tc.want)
			}
			if sent := len(c.Boots()) > 0; sent != tc.late {
				t.Errorf("evidence was sent: %t, want %t", sent, tc.late)
			}
		})
	}
}

// An old machine is good enough while the measured trust file says so.
func TestATT30_AToleratedMachineIsTrusted(t *testing.T) {
	w := agenttest.NewWorld(t)
	w.Posture = attestsim.Posture{Platform: "SWHardeningNeeded", Advisories: []string{"INTEL-SA-00615"}}
	agenttest.NewCoordinator(w).Start(t)
	for end, good := range map[time.Duration]bool{time.Hour: true, -time.Hour: false} {
		trust := w.Trust()
		trust.TCB.Exceptions = []policy.TCBException{{
			Status: "SWHardeningNeeded", Advisories: []string{"INTEL-SA-00615"}, Until: time.Now().Add(end), Reason: "the firmware comes",
		}}
		client, _ := newClient(t, w, trust)
		if _, err := client.Admit(t.Context()); (err == nil) != good {
			t.Errorf("an exception that ends in %s: %v", end, err)
		}
	}
}

// The agent trusts coordinators that run a version named in the measured trust file, the present or
// the next one.
func TestATT30_ANamedCoordinatorIsTrusted(t *testing.T) {
	w := agenttest.NewWorld(t)
	agenttest.NewCoordinator(w).Start(t)
	trust := w.Trust()
	trust.CoordinatorComposeHashes = []string{strings.Repeat("ab", 32), w.ComposeHash(t)}
	client, _ := newClient(t, w, trust)
	if _, err := client.Admit(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCode(t *testing.T) {
	for text, want := range map[string]string{
		"admit: rpc error: code = X desc = REVISION_NOT_ALLOWED: not now": "REVISION_NOT_ALLOWED",
		"reach coordinator: connection refused":                           "Unknown",
	} {
		if got := admit.Code(errText(text)); got != want && (want != "Unknown" || got == "") {
			t.Errorf("Code(%q) = %q, want %q", text, got, want)
		}
	}
}

type errText string

func (e errText) Error() string { return string(e) }
