package client_test

import (
	"strings"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/statement"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// bench is a coordinator with simulated evidence.
type bench struct {
	*clienttest.Evidence
	server *clienttest.Server
	ctx    client.Context
}

func newBench(t *testing.T, faults attestsim.Faults) *bench {
	t.Helper()
	b := &bench{server: clienttest.New(t)}
	b.Evidence = b.server.ProveItself(t, faults)
	b.ctx = b.server.Start(t)
	b.ctx.CAPEM, b.ctx.ClusterID, b.ctx.Trust = "", "", b.Trust
	return b
}

func TestAttestPinsTheCA(t *testing.T) {
	b := newBench(t, attestsim.Faults{})
	got, err := client.Attest(t.Context(), b.ctx, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.CAPEM != string(b.server.CAPEM()) || got.ClusterID != clienttest.ClusterID || got.Slot != "coordinator-0" || !got.Claims.Simulated {
		t.Errorf("Attest = %+v", got)
	}
	c := b.ctx
	c.CAPEM, c.ClusterID = got.CAPEM, got.ClusterID
	if _, err := dial(t, c).Groups(t.Context()); err != nil {
		t.Errorf("call after the pin: %v", err)
	}
	c.CoordinatorComposeHashes = []string{got.Claims.ComposeHash}
	if _, err := client.Attest(t.Context(), c, client.Options{}); err != nil {
		t.Errorf("with its compose hash pinned: %v", err)
	}
}

// otherClusterID is the cluster ID of a second set of coordinators.
const otherClusterID = "fedcba9876543210fedcba9876543210"

// Attest rejects every proof that an intermediary, another app or another cloud could show.
func TestATT30_GEN02_AttestRefuses(t *testing.T) {
	type st = statement.Coordinator
	type reply = apiv1.AttestCoordinatorResponse
	for _, c := range []struct {
		name   string
		change func(*st, *reply)
		ctx    func(*client.Context)
		want   string
	}{
		{"other cluster", func(s *st, _ *reply) { s.Cluster = "prod" }, nil, `cluster "prod"`},
		{"ATT-23 a cluster ID that is not its CA's", func(s *st, _ *reply) { s.ClusterID = otherClusterID }, nil, "its CA is of cluster ID"},
		{"other cluster ID pinned", nil, func(c *client.Context) { c.ClusterID = otherClusterID }, "CLUSTER_MISMATCH: coordinator-0 proves cluster ID " + clienttest.ClusterID + ", but the context pins cluster ID " + otherClusterID},
		{"other cluster ID in the trust", nil, func(c *client.Context) { c.Trust.ClusterID = otherClusterID }, "CLUSTER_MISMATCH"},
		{"other app named", func(s *st, _ *reply) { s.AppID = strings.Repeat("ab", 20) }, nil, "names app"},
		{"old nonce", func(s *st, _ *reply) { s.PeerNonce = make([]byte, 32) }, nil, "replay"},
		{"other TLS key", func(s *st, _ *reply) { s.TLSPublicKey = append([]byte{0}, s.TLSPublicKey...) }, nil, "TLS key"},
		{"other connection", func(s *st, _ *reply) { s.Exporter = make([]byte, 32) }, nil, "another connection"},
		{"other CA", func(_ *st, r *reply) { r.CaBundlePem = append(r.CaBundlePem, '\n') }, nil, "cluster CA"},
		{"no CA", func(_ *st, r *reply) { r.CaBundlePem = nil }, nil, "CA bundle has 0 bytes"},
		{"no collateral", func(_ *st, r *reply) { r.Collateral = nil }, nil, "collateral has 0 bytes"},
		{"app of the context differs", nil, func(c *client.Context) { c.CoordinatorAppID = strings.Repeat("cd", 20) }, "names app"},
		{"root not trusted", nil, func(c *client.Context) { c.Trust.RootsPEM = "" }, "evidence:"},
		{"simulated not allowed", nil, func(c *client.Context) { c.Trust.AllowSimulated = false }, "simulated"},
		{"other key provider", nil, func(c *client.Context) { c.Trust.KeyProvider.ID = "ab" }, "keys come from"},
		{"no key provider", nil, func(c *client.Context) { c.Trust.KeyProvider.ID = "" }, "pins no key provider"},
		{"no images", nil, func(c *client.Context) { c.Trust.Images = nil }, "OS image"},
		{"other compose", nil, func(c *client.Context) { c.CoordinatorComposeHashes = []string{"ab"} }, "compose hash"},
		{"other compose by the trust", nil, func(c *client.Context) { c.Trust.CoordinatorComposeHashes = []string{strings.Repeat("ab", 32)} }, "compose hash"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, attestsim.Faults{})
			b.Change = c.change
			ctx := b.ctx
			if c.ctx != nil {
				c.ctx(&ctx)
			}
			_, err := client.Attest(t.Context(), ctx, client.Options{})
			if client.KindOf(err) != client.Untrusted || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Attest: %v (kind %s), want untrusted with %q", err, client.KindOf(err), c.want)
			}
		})
	}
	t.Run("an old machine", func(t *testing.T) {
		b := newBench(t, attestsim.Faults{})
		b.Posture.Platform = "OutOfDate"
		_, err := client.Attest(t.Context(), b.ctx, client.Options{})
		if client.KindOf(err) != client.Untrusted || !strings.Contains(err.Error(), "TCB_OUT_OF_DATE") {
			t.Errorf("Attest: %v, want untrusted with TCB_OUT_OF_DATE", err)
		}
	})
	for name, faults := range map[string]attestsim.Faults{"debug": {DebugTD: true}, "tampered log": {TamperLog: true}, "foreign root": {ForeignRoot: true},
		"foreign image": {ForeignImage: true}, "foreign key provider": {ForeignKeyProvider: true}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, faults)
			if _, err := client.Attest(t.Context(), b.ctx, client.Options{}); client.KindOf(err) != client.Untrusted {
				t.Errorf("Attest: %v, want untrusted", err)
			}
		})
	}
}
