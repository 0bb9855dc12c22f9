package coordinator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// approving is specJSON of a group that requires approvals.
func approving(t *testing.T, release string) []byte {
	t.Helper()
	var s group.Spec
	if err := json.Unmarshal(specJSON(t, release), &s); err != nil {
		t.Fatal(err)
	}
	s.UpdatePolicy.RequireApproval = true
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// says waits until the group's message contains text.
func (h *harness) says(api *operator, text string) {
	h.t.Helper()
	h.Eventually("the message "+text, func() error {
		got, err := api.GetGroup(api.ctx, &apiv1.GetGroupRequest{Group: "web"})
		if err != nil {
			return err
		}
		var st group.Status
		if err := json.Unmarshal(got.GetStatusJson(), &st); err != nil {
			return err
		}
		if !strings.Contains(st.Message, text) {
			return fmt.Errorf("the message is %q", st.Message)
		}
		return nil
	})
}

// TestATT15_ATT25_OPS06_TheGateForReal takes a group through approval, revocation and
// floor, on a real Consul with the operator's real token.
func TestATT15_ATT25_OPS06_TheGateForReal(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	h := newHarness(t)
	h.Start()
	api := h.dial(h.OperatorToken)
	h.Eventually("the first answer", func() error {
		_, err := api.GetCluster(api.ctx, &apiv1.GetClusterRequest{})
		return err
	})
	apply := func(release string) string {
		t.Helper()
		out, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: approving(t, release)})
		if err != nil {
			t.Fatal(err)
		}
		return out.GetRevision()
	}
	first := apply("one")
	h.says(api, "REVISION_NOT_APPROVED")
	if got := h.Platform.Created(); got != 1 {
		t.Errorf("%d CVMs before the approval, want the coordinator's", got)
	}
	if out, err := api.policy.ApproveRevision(api.ctx, &apiv1.ApproveRevisionRequest{Revision: first[:8], Note: "looked at it"}); err != nil || out.GetNumber() != 1 {
		t.Fatalf("approve: %v, %v", out, err)
	}
	h.complete(api, first)
	list, err := api.policy.ListAdmissions(api.ctx, &apiv1.ListAdmissionsRequest{})
	var one policy.AdmissionStatus
	if err != nil || len(list.GetAdmissionStatusesJson()) != 1 || json.Unmarshal(list.GetAdmissionStatusesJson()[0], &one) != nil || one.Number != 1 || one.BootID == "" || !one.Simulated {
		t.Fatalf("admissions %s, %v", list.GetAdmissionStatusesJson(), err)
	}

	revoked, err := api.policy.Revoke(api.ctx, &apiv1.RevokeRequest{Kind: apiv1.RevocationKind_REVOCATION_KIND_INSTANCE, Id: "web-0", Reason: "leak"})
	if err != nil || len(revoked.GetSlots()) != 1 || revoked.GetId() != one.InstanceID {
		t.Fatalf("revoke: %v, %v", revoked, err)
	}
	h.Platform.Reboot(one.InstanceID) // it requests admission again
	h.Eventually("the refusal of the revoked instance", func() error {
		got, err := api.policy.ExplainAdmission(api.ctx, &apiv1.ExplainAdmissionRequest{Slot: "web-0"})
		if err != nil {
			return err
		}
		var e policy.Explanation
		if err := json.Unmarshal(got.GetExplanationJson(), &e); err != nil {
			return err
		}
		if e.Refusal == nil || e.Refusal.Code != policy.CodePeerRevoked || e.Code != policy.CodePeerRevoked {
			return fmt.Errorf("explained %s", got.GetExplanationJson())
		}
		return nil
	})
	if out, err := api.policy.Unrevoke(api.ctx, &apiv1.UnrevokeRequest{Kind: apiv1.RevocationKind_REVOCATION_KIND_INSTANCE, Id: "web-0"}); err != nil || !out.GetChanged() {
		t.Fatalf("unrevoke: %v, %v", out, err)
	}
	h.Platform.Reboot(one.InstanceID)
	h.complete(api, first)

	second := apply("two")
	h.says(api, "REVISION_NOT_APPROVED")
	if _, err := api.policy.ApproveRevision(api.ctx, &apiv1.ApproveRevisionRequest{Revision: "web#2"}); err != nil {
		t.Fatal(err)
	}
	h.complete(api, second)
	if out, err := api.policy.RaiseFloor(api.ctx, &apiv1.RaiseFloorRequest{Group: "web", Revision: "#2", Reason: "CVE-2026-1"}); err != nil || len(out.GetSlots()) != 0 {
		t.Fatalf("floor: %v, %v", out, err)
	}
	apply("one")
	h.says(api, "REVISION_BELOW_FLOOR")
	h.Eventually("the refusal of a lower floor", func() error {
		_, err := api.policy.RaiseFloor(api.ctx, &apiv1.RaiseFloorRequest{Group: "web", Revision: "#1"})
		if status.Code(err) != codes.FailedPrecondition {
			return fmt.Errorf("a lower floor: %w", err)
		}
		return nil
	})
	if err := h.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}
