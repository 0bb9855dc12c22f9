package client_test

import (
	"bytes"
	"strings"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/statement"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/secret"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// sealing is a coordinator with simulated evidence, whose CA the context has pinned.
func sealing(t *testing.T, change func(*clienttest.Server)) *bench {
	t.Helper()
	b := &bench{server: clienttest.New(t)}
	b.Evidence = b.server.ProveItself(t, attestsim.Faults{})
	if change != nil {
		change(b.server)
	}
	b.ctx = b.server.Start(t)
	b.ctx.Trust = b.Trust
	b.server.SetSecrets([]*apiv1.Secret{{Group: "web", Name: "s3-key", Source: "operator", NoValue: true, Epoch: 2}, {Group: "web", Name: "cookie"}})
	return b
}

func TestSetSecretSealsToTheProvenKey(t *testing.T) {
	b := sealing(t, nil)
	c := dial(t, b.ctx)
	value := secret.New(bytes.Repeat([]byte{0xa5, 0}, group.MaxSealedBytes/2))
	dry, err := c.SetSecret(t.Context(), "web", "s3-key", value, "", true)
	if err != nil || !dry.DryRun || dry.InForce || b.server.Given() != "" {
		t.Fatalf("dry run: %+v, %v", dry, err)
	}
	done, err := c.SetSecret(t.Context(), "web", "s3-key", value, "why", false)
	if err != nil || done.Epoch != 3 || !done.InForce || done.By != "coordinator-0" || b.server.Given() != value.RevealString() {
		t.Fatalf("%+v, %v", done, err)
	}
	for what, c2 := range map[string]struct {
		name  string
		value secret.Value
		kind  client.Kind
	}{
		"empty": {"s3-key", secret.Value{}, client.Invalid}, "too large": {"s3-key", secret.New(make([]byte, group.MaxSealedBytes+1)), client.Invalid},
		"undeclared": {"none", value, client.NotFound}, "derived": {"cookie", value, client.NotFound},
	} {
		if _, err := c.SetSecret(t.Context(), "web", c2.name, c2.value, "", false); client.KindOf(err) != c2.kind {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTOK23_NothingIsSealedToAnUnprovenKey: a party in a coordinator's place, with another machine,
// another app or another connection than the quote's, receives no ciphertext.
func TestTOK23_NothingIsSealedToAnUnprovenKey(t *testing.T) {
	type st = statement.Coordinator
	type reply = apiv1.AttestCoordinatorResponse
	for _, c := range []struct {
		name   string
		change func(*st, *reply)
		ctx    func(*client.Context)
		key    func(*statement.SealingKey)
		want   string
	}{
		{"other nonce", func(s *st, _ *reply) { s.PeerNonce = make([]byte, 32) }, nil, nil, "replay"},
		{"other connection", func(s *st, _ *reply) { s.Exporter = make([]byte, 32) }, nil, nil, "another connection"},
		{"other app", func(s *st, _ *reply) { s.AppID = strings.Repeat("ab", 20) }, nil, nil, "names app"},
		{"other cluster ID", func(s *st, _ *reply) { s.ClusterID = otherClusterID }, nil, nil, "its CA is of cluster ID"},
		{"no collateral", func(_ *st, r *reply) { r.Collateral = nil }, nil, nil, "collateral has 0 bytes"},
		{"root not trusted", nil, func(c *client.Context) { c.Trust.RootsPEM = "" }, nil, "evidence:"},
		{"no trust at all", nil, func(c *client.Context) { c.Trust.Images, c.Trust.KeyProvider.ID = nil, "" }, nil, "pins no key provider"},
		{"other OS image", nil, func(c *client.Context) { c.Trust.Images = nil }, nil, "OS image"},
		{"no key", nil, nil, func(k *statement.SealingKey) { k.PublicKey = nil }, "public_key"},
		{"no key epoch", nil, nil, func(k *statement.SealingKey) { k.KeyEpoch = 0 }, "key_epoch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := sealing(t, func(s *clienttest.Server) { s.ChangeSealingKey = c.key })
			b.Change = c.change
			if c.ctx != nil {
				c.ctx(&b.ctx)
			}
			_, err := dial(t, b.ctx).SetSecret(t.Context(), "web", "s3-key", secret.FromString("correct horse"), "", false)
			if client.KindOf(err) != client.Untrusted || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "nothing was sealed") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if got := b.server.Given(); got != "" {
				t.Errorf("the server received a value")
			}
		})
	}
}

// TestTOK23_TheQuoteOfAnotherKeyProvesNothing: a key that a relay puts in place of the proven one does
// not fit the quote.
func TestTOK23_TheQuoteOfAnotherKeyProvesNothing(t *testing.T) {
	b := sealing(t, nil)
	b.server.ReplaceSealingKey = bytes.Repeat([]byte{9}, 32)
	_, err := dial(t, b.ctx).SetSecret(t.Context(), "web", "s3-key", secret.FromString("correct horse"), "", false)
	if client.KindOf(err) != client.Untrusted || b.server.Given() != "" {
		t.Errorf("%v", err)
	}
}
