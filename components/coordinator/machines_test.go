package coordinator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// TestIDN14_TwoMembersOnOneMachineOfAWholeCluster: a platform that lists no nodes starts both members of
// a group on one machine. The second one is refused until the platform starts it elsewhere.
func TestIDN14_TwoMembersOnOneMachineOfAWholeCluster(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	h := newHarness(t)
	var second atomic.Int64
	h.Machine = func(cvm string) int {
		if strings.HasSuffix(cvm, "-1") {
			return int(second.Load())
		}
		return 0
	}
	h.Start()
	api := h.dial(h.OperatorToken)
	h.Eventually("the first answer", func() error {
		_, err := api.GetCluster(api.ctx, &apiv1.GetClusterRequest{})
		return err
	})
	var spec group.Spec
	if err := json.Unmarshal(specJSON(t, "one"), &spec); err != nil {
		t.Fatal(err)
	}
	spec.Replicas, spec.Placement = 2, group.Placement{Spread: group.SpreadMachine, Verified: true}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: raw})
	if err != nil {
		t.Fatal(err)
	}
	explained := func(slot string) (e policy.Explanation, err error) {
		out, err := api.policy.ExplainAdmission(api.ctx, &apiv1.ExplainAdmissionRequest{Slot: slot})
		if err != nil {
			return e, err
		}
		return e, json.Unmarshal(out.GetExplanationJson(), &e)
	}
	h.Eventually("the refusal of the second member", func() error {
		first, err := explained("web-0")
		if err != nil {
			return err
		}
		e, err := explained("web-1")
		if err != nil || e.Code != policy.CodeMachineShared || e.BootID != "" {
			return fmt.Errorf("%s %s %s, %w", e.State, e.Code, e.Why, err)
		}
		if first.BootID == "" || len(first.Machine) != policy.MachineDigits || !strings.Contains(e.Why, first.Machine[:16]+" has web-0") {
			t.Errorf("the first on %s, the second: %s", first.Machine, e.Why)
		}
		return nil
	})
	second.Store(1)
	h.Eventually("the admission of the second member on another machine", func() error {
		first, err := explained("web-0")
		if err != nil {
			return err
		}
		e, err := explained("web-1")
		if err != nil || e.State != policy.StateAdmitted {
			return fmt.Errorf("%s %s %s, %w", e.State, e.Code, e.Why, err)
		}
		if e.Machine == "" || e.Machine == first.Machine || len(e.SharesMachine) > 0 {
			t.Errorf("on another machine: %+v", e.AdmissionStatus)
		}
		if !slices.ContainsFunc(e.Decisions, func(d policy.DecisionEntry) bool { return d.Code == policy.CodeMachineShared }) {
			t.Errorf("the refusal is not among the decisions: %+v", e.Decisions)
		}
		return nil
	})
}
