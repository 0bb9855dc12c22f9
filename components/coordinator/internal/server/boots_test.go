package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// TestKeysAreGivenByThePolicyOfTheSlots: a revocation and another binding count at once, and no
// caller learns about a group that it may not read.
func TestKeysAreGivenByThePolicyOfTheSlots(t *testing.T) {
	a, first, _ := newAsked(t)
	operator := as(t.Context(), operatorToken)
	app, hash, other := strings.Repeat("ab", 20), strings.Repeat("0c", 32), strings.Repeat("dd", 20)
	bind := func(change func(*policy.SlotPolicy)) {
		sp := policy.SlotPolicy{Group: "pg", Slot: "pg-0", AppID: app, InstanceID: boundInstance,
			Allowed: []policy.AllowedRevision{{Revision: first, ComposeHash: hash, Number: 1}}}
		change(&sp)
		put(a, t, store.SlotPolicyKey("pg-0"), sp)
	}
	bind(func(sp *policy.SlotPolicy) { sp.RequireApproval = true })
	ask := func(when string, req *apiv1.BootAllowedRequest, want policy.Code) {
		t.Helper()
		got, err := a.BootAllowed(operator, req)
		if err != nil || got.GetCode() != string(want) || got.GetAllowed() != (want == "") || got.GetAllowed() != (got.GetGroup() == "pg") {
			t.Errorf("%s: %v, %v, want %q", when, got, err, want)
		}
	}
	own := &apiv1.BootAllowedRequest{AppId: "0x" + strings.ToUpper(app), InstanceId: boundInstance, ComposeHash: hash}
	ask("without an approval", own, policy.CodeRevisionNotApproved)
	gate := policy.GroupPolicy{Group: "pg", Revisions: map[string]policy.Numbered{first: {Number: 1, Content: "c", At: time.Now()}}, Last: 1}
	put(a, t, store.GroupPolicyKey("pg"), gate)
	// Admission judges by the Slot's record until a leader writes it again.
	ask("with an approval that no leader wrote", own, policy.CodeRevisionNotApproved)
	bind(func(sp *policy.SlotPolicy) { sp.Floor = 2 })
	ask("below a floor that the group's policy lost", own, policy.CodeRevisionBelowFloor)
	bind(func(sp *policy.SlotPolicy) {
		sp.Revoked = []policy.Revocation{{Kind: policy.RevokedRevision, ID: hash, Reason: "leaked", By: "op", At: time.Now()}}
	})
	ask("a revocation whose record is lost", own, policy.CodeRevisionNotAllowed)
	bind(func(*policy.SlotPolicy) {})
	ask("allowed", own, "")
	gate.Floor.Number = 2
	put(a, t, store.GroupPolicyKey("pg"), gate)
	ask("below an accepted floor", own, policy.CodeRevisionBelowFloor)
	gate.Floor.Number = 0
	put(a, t, store.GroupPolicyKey("pg"), gate)
	ask("another app", &apiv1.BootAllowedRequest{AppId: other, InstanceId: boundInstance, ComposeHash: hash}, policy.CodeSlotUnknown)
	ask("the coordinators' app", &apiv1.BootAllowedRequest{AppId: a.cfg.AppID, InstanceId: boundInstance, ComposeHash: hash}, policy.CodeSlotUnknown)
	copied := &apiv1.BootAllowedRequest{AppId: app, InstanceId: other, ComposeHash: hash}
	ask("a copy", copied, policy.CodeInstanceMismatch)
	put(a, t, store.OperationKey("pg-0-1"), operation.Operation{ID: "pg-0-1", Group: "pg", Slot: "pg-0", Kind: operation.Replace, Phase: operation.Booting})
	ask("the first boot of its replacement", copied, "")
	put(a, t, store.RestoredKey, store.Restored{At: time.Now(), State: 7})
	ask("a boot of a replacement in a restored backup", copied, policy.CodeInstanceMismatch)
	ask("a member of the backup", own, "")
	put(a, t, store.RecoverKey(), store.Recovery{Term: 1, State: 7, Reason: "accepted", By: "op", At: time.Now()})
	ask("the first boot of a replacement after the operator accepted the backup", copied, "")
	put(a, t, store.OperationKey("pg-0-1"), operation.Operation{ID: "pg-0-1", Group: "pg", Slot: "pg-0", Kind: operation.Replace, Phase: operation.Done})
	ask("a copy after the replacement", copied, policy.CodeInstanceMismatch)
	put(a, t, store.RevocationKey("revision-"+hash), policy.Revocation{Kind: policy.RevokedRevision, ID: hash, Reason: "leaked", By: "op", At: time.Now()})
	ask("a revoked hash", own, policy.CodeRevisionNotAllowed)

	if _, err := a.BootAllowed(t.Context(), own); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	if _, err := a.BootAllowed(as(t.Context(), a.workload), own); status.Code(err) != codes.PermissionDenied {
		t.Errorf("by a member: %v", err)
	}
	if _, err := a.BootAllowed(operator, &apiv1.BootAllowedRequest{AppId: strings.Repeat("a", 300)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a long id: %v", err)
	}
}
