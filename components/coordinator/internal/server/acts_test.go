package server

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/core/audit"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// chain reads the whole chain of entries.
func (a *api) chain(t *testing.T) (entries []audit.Entry) {
	t.Helper()
	head, err := store.ReadAuditHead(t.Context(), a.cfg.Store)
	for err == nil && uint64(len(entries)) < head.Last.Number {
		var some []audit.Entry
		some, err = store.ReadAudit(t.Context(), a.cfg.Store, uint64(len(entries))+1, head.Last.Number)
		entries = append(entries, some...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// TestCTL21_EachActOfAnOperatorHasOneEntry: the entry names the token, the act, the record and the
// reason, and an act that is refused or changes nothing has none.
func TestCTL21_EachActOfAnOperatorHasOneEntry(t *testing.T) {
	a, _, second := newAsked(t)
	a.cfg.Images.TCB.OperatorExceptions = policy.TCBLimits{MaxDays: 7, Statuses: []string{"OutOfDate"}, Advisories: []string{"INTEL-SA-*"}}
	put(a, t, store.CollateralKey("00112233aabb"), policy.CollateralWatermark{FMSPC: "00112233aabb", TCBEvaluation: 20, QEEvaluation: 20, IssuedAt: time.Now(), TCBUntil: time.Now().Add(time.Hour), QEUntil: time.Now().Add(time.Hour)})
	ctx := as(t.Context(), operatorToken)
	var grant string
	const drain = apiv1.OverrideKind_OVERRIDE_KIND_DRAIN
	const instance = apiv1.RevocationKind_REVOCATION_KIND_INSTANCE
	for _, act := range []struct {
		verb, object, request string
		// unsaid: the call takes no reason. again: a repeated call changes nothing.
		unsaid, again bool
		call          func() error
	}{
		{verb: "drain", object: "control/drain/pg-0", again: true, call: func() error {
			_, err := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: drain, Name: "pg-0", Reason: "because"})
			return err
		}},
		{verb: "end-drain", object: "control/drain/pg-0", unsaid: true, again: true, call: func() error {
			_, err := a.ClearOverride(ctx, &apiv1.ClearOverrideRequest{Kind: drain, Name: "pg-0"})
			return err
		}},
		{verb: "approve", object: "control/approvals/" + second, again: true, call: func() error {
			_, err := a.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: second, Note: "because"})
			return err
		}},
		{verb: "withdraw-approval", object: "control/approvals/" + second, again: true, call: func() error {
			_, err := a.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: second, Withdraw: true, Note: "because"})
			return err
		}},
		{verb: "revoke", object: "control/revocations/instance-" + boundInstance, again: true, call: func() error {
			_, err := a.Revoke(ctx, &apiv1.RevokeRequest{Kind: instance, Id: "pg-0", Reason: "because"})
			return err
		}},
		{verb: "unrevoke", object: "control/revocations/instance-" + boundInstance, unsaid: true, again: true, call: func() error {
			_, err := a.Unrevoke(ctx, &apiv1.UnrevokeRequest{Kind: instance, Id: boundInstance})
			return err
		}},
		{verb: "raise-floor", object: "control/floor/pg", again: true, call: func() error {
			_, err := a.RaiseFloor(ctx, &apiv1.RaiseFloorRequest{Group: "pg", Revision: "pg#1", Reason: "because"})
			return err
		}},
		{verb: "grant-tcb-exception", object: "control/tcb-exceptions/", call: func() error {
			out, err := a.GrantTCBException(ctx, &apiv1.GrantTCBExceptionRequest{Status: "OutOfDate", Advisories: []string{"INTEL-SA-01397"}, For: durationpb.New(time.Hour), Reason: "because"})
			grant = out.GetId()
			return err
		}},
		{verb: "revoke-tcb-exception", object: "control/tcb-exceptions/", unsaid: true, again: true, call: func() error {
			_, err := a.RevokeTCBException(ctx, &apiv1.RevokeTCBExceptionRequest{Id: grant})
			return err
		}},
		{verb: "lower-collateral", object: "control/collateral/00112233aabb", again: true, call: func() error {
			_, err := a.LowerCollateral(ctx, &apiv1.LowerCollateralRequest{Fmspc: "00112233aabb", Evaluation: 19, Reason: "because"})
			return err
		}},
		{verb: "rotate", object: "control/rotate/cluster/gossip", again: true, call: func() error {
			_, err := a.RotateSecret(ctx, &apiv1.RotateSecretRequest{Group: store.ClusterSecrets, Name: store.GossipSecret, Reason: "because"})
			return err
		}},
		{verb: "restart", object: "control/queue/restart-7", request: "restart-7", again: true, call: func() error {
			_, err := a.RestartInstance(ctx, &apiv1.RestartInstanceRequest{Slot: "pg-0", Reason: "because", RequestId: "restart-7"})
			return err
		}},
		{verb: "cancel", object: "control/queue/restart-7", unsaid: true, again: true, call: func() error {
			_, err := a.CancelRequest(ctx, &apiv1.CancelRequestRequest{RequestId: "restart-7"})
			return err
		}},
		{verb: "replace", object: "control/queue/replace-8", request: "replace-8", again: true, call: func() error {
			_, err := a.ReplaceInstance(ctx, &apiv1.ReplaceInstanceRequest{Slot: "pg-0", Reason: "because", RequestId: "replace-8"})
			return err
		}},
		{verb: "update", object: "control/queue/update-9", request: "update-9", again: true, call: func() error {
			_, err := a.UpdateInstance(ctx, &apiv1.UpdateInstanceRequest{Slot: "pg-0", Reason: "because", RequestId: "update-9"})
			return err
		}},
		{verb: "delete", object: "control/delete/pg", again: true, call: func() error {
			_, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", KeepCvms: true, Reason: "because"})
			return err
		}},
		{verb: "cancel-deletion", object: "control/delete/pg", again: true, call: func() error {
			_, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", Cancel: true, Reason: "because"})
			return err
		}},
		{verb: "apply", object: "groups/pg/spec", request: "ticket-1", unsaid: true, again: true, call: func() error {
			_, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t), RequestId: "ticket-1"})
			return err
		}},
	} {
		before := len(a.chain(t))
		if err := act.call(); err != nil {
			t.Errorf("%s: %v", act.verb, err)
			continue
		}
		if act.again {
			if err := act.call(); err != nil {
				t.Errorf("%s again: %v", act.verb, err)
			}
		}
		got := a.chain(t)
		if len(got) != before+1 {
			t.Errorf("%s: %d entries, want one: %+v", act.verb, len(got)-before, got[before:])
			continue
		}
		e, why := got[before], "because"
		if act.unsaid {
			why = ""
		}
		if e.Verb != act.verb || !strings.HasPrefix(e.Object, act.object) || e.Request != act.request || e.Reason != why ||
			e.Who != audit.Operator || !strings.Contains(e.By, "cadre-operator") || e.Before == e.After {
			t.Errorf("%s: %+v", act.verb, e)
		}
		if entry, err := a.cfg.Store.Get(ctx, e.Object); e.After != audit.ValueDigest(entry.Value, err == nil) {
			t.Errorf("%s: the record is not what the entry says", act.verb)
		}
	}
	before := len(a.chain(t))
	member := as(t.Context(), a.workload)
	if _, err := a.SetOverride(member, &apiv1.SetOverrideRequest{Kind: drain, Name: "pg-0", Reason: "x"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a member drains: %v", err)
	}
	reader, _ := a.named(t, "reader", `key_prefix "cadre/v1/" { policy = "read" }`)
	if _, err := a.SetOverride(as(t.Context(), reader), &apiv1.SetOverrideRequest{Kind: drain, Name: "pg-0", Reason: "x"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a reader drains: %v", err)
	}
	if got := a.chain(t); len(got) != before {
		t.Errorf("entries of refused acts: %+v", got[before:])
	}
}

// TestCTL21_NoOperatorWritesTheChain: an operator's token reads the chain, and cannot write it.
func TestCTL21_NoOperatorWritesTheChain(t *testing.T) {
	a, _, _ := newAsked(t)
	if len(a.chain(t)) == 0 {
		t.Fatal("no entry")
	}
	own, err := a.cfg.StoreFor(operatorToken)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []store.Op{
		{Kind: store.OpPut, Key: store.AuditHeadKey, Value: []byte("{}")}, {Kind: store.OpDelete, Key: store.AuditHeadKey},
		{Kind: store.OpPut, Key: store.AuditKey(1), Value: []byte("{}")}, {Kind: store.OpDelete, Key: store.AuditKey(1)},
		store.Noted(store.Op{Kind: store.OpPut, Key: store.OverrideKey(store.OverrideFreeze, "pg"), Value: []byte("{}")}, audit.Entry{By: "another"}),
	} {
		if err := own.Commit(t.Context(), op); status.Code(wire(err)) != codes.PermissionDenied {
			t.Errorf("%s of %s: %v", op.Kind, op.Key, err)
		}
	}
}

type noGuest struct{}

func (noGuest) GetKey(_ context.Context, path, purpose string) ([]byte, error) {
	mac := hmac.New(sha256.New, []byte("test"))
	mac.Write([]byte(path + purpose))
	return mac.Sum(nil), nil
}

// TestCTL21_TheHeadIsSignedByTheClusterCA: a reader can export the chain, and verify it with the CA
// alone.
func TestCTL21_TheHeadIsSignedByTheClusterCA(t *testing.T) {
	a, _, _ := newAsked(t)
	const id = "0123456789abcdef0123456789abcdef"
	root, err := keys.Derive(t.Context(), noGuest{}, "demo", id)
	if err != nil {
		t.Fatal(err)
	}
	a.cfg.Root = root
	block, _ := pem.Decode(root.CA().PEM())
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	reader, _ := a.named(t, "reader", `key_prefix "cadre/v1/" { policy = "read" }`)
	out, err := a.GetAuditHead(as(t.Context(), reader), &apiv1.GetAuditHeadRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var file []byte
	for _, e := range a.chain(t) {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		file = append(append(file, text...), '\n')
	}
	file = append(append(append(file, `{"signed_head":`...), out.GetHeadJson()...), '}')
	if x, err := audit.ParseExport(file, id, cert.PublicKey.(ed25519.PublicKey)); err != nil || len(x.Entries) == 0 {
		t.Errorf("%d entries, %v", len(x.Entries), err)
	}
	for name, token := range map[string]string{"a member": a.workload, "a stranger": "another"} {
		if _, err := a.GetAuditHead(as(t.Context(), token), &apiv1.GetAuditHeadRequest{}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s reads the head: %v", name, err)
		}
		if _, err := a.ListAudit(as(t.Context(), token), &apiv1.ListAuditRequest{}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s reads the chain: %v", name, err)
		}
	}
}

// TestListAudit_BeginsAtATime: since leaves out the entries before it.
func TestListAudit_BeginsAtATime(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	began := a.now().Truncate(time.Millisecond)
	for n := range 7 {
		a.mu.Lock()
		a.offset = time.Duration(n+1) * time.Hour
		a.mu.Unlock()
		if _, err := a.SetOverride(ctx, &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_FREEZE, Name: "pg", Reason: strings.Repeat("x", n+1)}); err != nil {
			t.Fatal(err)
		}
	}
	for after, want := range map[time.Duration]int{0: 7, 90 * time.Minute: 6, 6*time.Hour + 30*time.Minute: 1, 9 * time.Hour: 0} {
		out, err := a.ListAudit(ctx, &apiv1.ListAuditRequest{Since: timestamppb.New(began.Add(after))})
		if got := len(out.GetEntriesJson()); err != nil || got != want {
			t.Errorf("since %s: %d entries, %v, want %d", after, got, err, want)
		}
	}
	all := len(a.chain(t))
	for after := 0; after < all; after += 3 {
		out, err := a.ListAudit(ctx, &apiv1.ListAuditRequest{After: uint64(after), Limit: 3})
		if got := len(out.GetEntriesJson()); err != nil || got != min(3, all-after) || out.GetLast() != uint64(all) {
			t.Errorf("a page after %d of %d: %d entries, %v", after, all, got, err)
		}
	}
	if _, err := a.ListAudit(ctx, &apiv1.ListAuditRequest{Since: &timestamppb.Timestamp{Nanos: -1}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a time that is none: %v", err)
	}
}
