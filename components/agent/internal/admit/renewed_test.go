package admit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/agent/internal/agenttest"
	"cadre.dev/overlay"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
)

// TestTOK20_RenewedCredentials: an answer over a control session is taken only for the
// same Boot, and under the CA that was proved at admission.
func TestTOK20_RenewedCredentials(t *testing.T) {
	w := agenttest.NewWorld(t)
	c := agenttest.NewCoordinator(w)
	c.Start(t)
	client, boot := newClient(t, w, w.Trust())
	held, err := client.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.ParsePKIXPublicKey(boot.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	svid := func(id overlay.ID, key any) []byte {
		der, err := w.Issue(id, key, 30*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*admissionv1.Credentials)
		want   string
	}{
		"honest":             {func(*admissionv1.Credentials) {}, ""},
		"another CA":         {func(g *admissionv1.Credentials) { g.CaBundlePem = agenttest.NewWorld(t).CAPEM }, "SVID_UNTRUSTED"},
		"no CA":              {func(g *admissionv1.Credentials) { g.CaBundlePem = nil }, "SVID_UNTRUSTED"},
		"a second CA":        {func(g *admissionv1.Credentials) { g.CaBundlePem = append(g.CaBundlePem, g.CaBundlePem...) }, "SVID_UNTRUSTED"},
		"another slot":       {func(g *admissionv1.Credentials) { g.Slot = "web-1" }, "they are for"},
		"another cluster":    {func(g *admissionv1.Credentials) { g.Cluster = "prod" }, "they are for"},
		"another boot":       {func(g *admissionv1.Credentials) { g.BootId = "00" }, "another boot"},
		"another generation": {func(g *admissionv1.Credentials) { g.Generation++ }, "another generation"},
		"another address":    {func(g *admissionv1.Credentials) { g.Vip = "127.50.9.9" }, "another generation or address"},
		"ended":              {func(g *admissionv1.Credentials) { g.ExpiresAt = timestamppb.New(time.Now().Add(-time.Second)) }, "SVID_EXPIRED"},
		"another key":        {func(g *admissionv1.Credentials) { g.SvidChainPem = svid(held.ID, other.Public()) }, "another key"},
		"another name": {func(g *admissionv1.Credentials) {
			g.SvidChainPem = svid(overlay.ID{Cluster: held.ID.Cluster, Group: held.ID.Group, Slot: "web-9"}, public)
		}, "SVID_ID_INVALID"},
		"no certificate": {func(g *admissionv1.Credentials) { g.SvidChainPem = nil }, "chain is empty"},
	} {
		grant := proto.Clone(held.Grant).(*admissionv1.Credentials)
		grant.SvidChainPem = svid(held.ID, public)
		tc.change(grant)
		next, err := client.Renewed(held, grant)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if err == nil && (next.ID != held.ID || time.Until(next.Ends()) > 31*time.Minute || time.Until(next.Ends()) < 29*time.Minute) {
			t.Errorf("%s: ends in %v", name, time.Until(next.Ends()))
		}
	}
}
