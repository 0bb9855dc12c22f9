package server

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/secrets"
	"cadre.dev/core/group"
	"cadre.dev/core/sealed"
	"cadre.dev/core/secret"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// TestTOK23_AnOperatorsValueIsKeptAsCiphertext: the call writes a request that holds no value, with one
// entry of the audit chain that names the epoch. A value that would never be delivered is refused.
func TestTOK23_AnOperatorsValueIsKeptAsCiphertext(t *testing.T) {
	const value = "correct-horse-battery"
	a := newAPI(t)
	var err error
	if a.cfg.Root, err = keys.Derive(t.Context(), noGuest{}, "demo", strings.Repeat("0f", 16)); err != nil {
		t.Fatal(err)
	}
	ctx := as(t.Context(), operatorToken)
	s := spec(t)
	s.Secrets = []group.Secret{{Name: "s3-key", Source: group.SecretOperator}}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw}); err != nil {
		t.Fatal(err)
	}
	list := func() *apiv1.Secret {
		t.Helper()
		out, err := a.ListSecrets(ctx, &apiv1.ListSecretsRequest{Group: "pg"})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range out.GetSecrets() {
			if one.GetName() == "s3-key" {
				return one
			}
		}
		t.Fatal("it is not listed")
		return nil
	}
	if one := list(); !one.GetNoValue() || one.GetSource() != "operator" || one.GetRequested() {
		t.Errorf("before its first value: %v", one)
	}
	seal := func(name string, epoch uint32, text string) *apiv1.SetSecretRequest {
		t.Helper()
		key, err := a.cfg.Root.Sealing(t.Context(), secrets.KeyEpoch)
		if err != nil {
			t.Fatal(err)
		}
		out, err := sealed.Seal(key.Public(), sealed.Place{ClusterID: a.cfg.Root.ClusterID(), Group: "pg", Name: name, Epoch: epoch, KeyEpoch: 1}, secret.FromString(text))
		if err != nil {
			t.Fatal(err)
		}
		return &apiv1.SetSecretRequest{Group: "pg", Name: name, Epoch: epoch, KeyEpoch: 1, Ciphertext: out, Reason: "new key"}
	}
	good := seal("s3-key", 1, value)
	moved := seal("superuser", 1, value)
	moved.Name = "s3-key"
	flipped := seal("s3-key", 1, value)
	flipped.Ciphertext[50] ^= 1
	later := seal("s3-key", 1, value)
	later.KeyEpoch = 2
	endless := seal("s3-key", 1, value)
	endless.Reason = strings.Repeat("x", maxReason+1)
	for what, c := range map[string]struct {
		req   *apiv1.SetSecretRequest
		token string
		code  codes.Code
	}{
		"another secret's": {moved, operatorToken, codes.InvalidArgument}, "a changed byte": {flipped, operatorToken, codes.InvalidArgument},
		"a later key": {later, operatorToken, codes.InvalidArgument}, "an epoch far ahead": {seal("s3-key", 2000, value), operatorToken, codes.FailedPrecondition},
		"no epoch": {seal("s3-key", 0, value), operatorToken, codes.FailedPrecondition}, "empty": {seal("s3-key", 1, ""), operatorToken, codes.FailedPrecondition}, "too large": {seal("s3-key", 1, strings.Repeat("x", group.MaxSealedBytes+1)), operatorToken, codes.InvalidArgument},
		"a derived secret": {seal("superuser", 1, value), operatorToken, codes.FailedPrecondition}, "undeclared": {seal("none", 1, value), operatorToken, codes.NotFound},
		"a reason without bound": {endless, operatorToken, codes.InvalidArgument}, "nothing": {&apiv1.SetSecretRequest{}, operatorToken, codes.InvalidArgument},
		"a workload's token": {good, a.workload, codes.PermissionDenied}, "no token": {good, "", codes.Unauthenticated},
	} {
		if _, err := a.SetSecret(as(t.Context(), c.token), c.req); status.Code(err) != c.code || strings.Contains(message(err), value) {
			t.Errorf("%s: %v, want %s", what, err, c.code)
		}
	}
	dry := seal("s3-key", 1, value)
	dry.DryRun = true
	if _, err := a.SetSecret(ctx, dry); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if left, _, err := a.cfg.Store.List(t.Context(), store.SealPrefix); err != nil || len(left) != 0 {
		t.Fatalf("refused calls wrote %d requests, %v", len(left), err)
	}
	if _, err := a.SetSecret(ctx, good); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SetSecret(ctx, seal("s3-key", 1, value)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a second value before the leader: %v", err)
	}
	if one := list(); !one.GetRequested() || !one.GetNoValue() {
		t.Errorf("while the leader has yet to act: %v", one)
	}
	request, _, err := store.Read[store.SealRequest](t.Context(), a.cfg.Store, store.SealKey("pg", "s3-key"))
	if err != nil || request.Epoch != 1 || request.Reason != "new key" || !strings.HasPrefix(request.By, "cadre-operator (") || !bytes.Equal(request.Ciphertext, good.GetCiphertext()) {
		t.Errorf("request of epoch %d by %q, %v", request.Epoch, request.By, err)
	}
	all, _, err := a.cfg.Store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if bytes.Contains(e.Value, []byte(value)) {
			t.Errorf("%s has the value", e.Key)
		}
	}
	chain := a.chain(t)
	last := chain[len(chain)-1]
	if last.Verb != "seal" || last.Object != "control/seal/pg/s3-key" || last.Reason != "epoch 1: new key" {
		t.Errorf("the chain ends with %+v", last)
	}
	if _, err := a.RotateSecret(ctx, &apiv1.RotateSecretRequest{Group: "pg", Name: "s3-key"}); status.Code(err) != codes.FailedPrecondition || !strings.Contains(message(err), "cadre secret set pg/s3-key") {
		t.Errorf("rotate: %v", err)
	}
	for what, c := range map[string]struct {
		req  *apiv1.GetSealingKeyRequest
		code codes.Code
	}{
		"a derived secret": {&apiv1.GetSealingKeyRequest{Nonce: make([]byte, 32), Group: "pg", Name: "superuser"}, codes.FailedPrecondition},
		"undeclared":       {&apiv1.GetSealingKeyRequest{Nonce: make([]byte, 32), Group: "pg", Name: "none"}, codes.NotFound},
		"a short nonce":    {&apiv1.GetSealingKeyRequest{Nonce: make([]byte, 31), Group: "pg", Name: "s3-key"}, codes.InvalidArgument},
	} {
		if _, err := a.GetSealingKey(ctx, c.req); status.Code(err) != c.code {
			t.Errorf("the key for %s: %v, want %s", what, err, c.code)
		}
	}
}
