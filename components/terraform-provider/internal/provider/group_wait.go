package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// waitFor waits for a rollout like `cadre group apply --wait`, and logs its progress. false: the
// rollout did not complete; the reason and each slot's hold were added.
func waitFor(ctx context.Context, cl *client.Client, w written, done client.Applied, timeout time.Duration, diags *diag.Diagnostics) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	name := w.spec.Name
	var p progress
	err := cl.Wait(ctx, name, client.WaitOptions{Index: done.Index, Revision: done.Revision, See: p.see(ctx), Lost: p.lost(ctx)})
	var stopped *client.RolloutError
	switch {
	case err == nil:
		return true
	case errors.Is(err, context.DeadlineExceeded):
		diags.AddAttributeError(path.Root(argWait), fmt.Sprintf("Group %s is not complete after %s", name, timeout),
			fmt.Sprintf("The rollout continues. Apply again to keep waiting, or see `cadre rollout status %s`. Give it more time in the timeouts block.", name))
	case errors.As(err, &stopped):
		diags.AddAttributeError(path.Root(argWait), stopped.Error(), onward(stopped.State, name))
	case errors.Is(err, context.Canceled):
		diags.AddAttributeError(path.Root(argWait), fmt.Sprintf("The wait for group %s has ended", name), "The rollout continues. Apply again to keep waiting.")
	default:
		addError(diags, "Waiting for group "+name+" failed", err)
	}
	if p.last != nil {
		addHolds(diags, w, p.last.Plan, time.Now())
	}
	return false
}

// onward is the operator's next action after a rollout that stopped.
func onward(state operation.RolloutState, name string) string {
	command := "cadre rollout resume " + name
	switch {
	case state == operation.SupersededState: // the newer rollout goes on, and no command resumes the older one
		return fmt.Sprintf("A newer spec replaced it. See `cadre rollout status %s`, and plan again: the plan shows the changes.", name)
	case state.Failed():
		command = "cadre rollout retry " + name + " --reason WHY"
	}
	return fmt.Sprintf("See `cadre rollout status %s`. Apply a corrected spec to move on, or, once the cause is mended, `%s` and apply again.", name, command)
}

// addHolds lists the holds of each slot's next step, at the argument that causes the hold where
// there is one.
func addHolds(diags *diag.Diagnostics, w written, p rollout.Plan, now time.Time) {
	for _, a := range p.Actions {
		for _, h := range a.Holds {
			summary := fmt.Sprintf("Slot %s waits: %s", a.Slot, h.Predicate)
			detail := format.Step(a, now)
			if field := heldBy(w, h.Predicate); field != "" {
				if at, ok := w.at(field); ok {
					diags.AddAttributeWarning(at, summary, detail)
					continue
				}
			}
			diags.AddWarning(summary, detail)
		}
		if a.Operation != "" {
			diags.AddWarning(fmt.Sprintf("Slot %s is in a step", a.Slot), format.Step(a, now))
		}
	}
}

// heldBy is the field of the spec that a hold follows from; "" when an operator, the
// platform or the workload itself holds.
func heldBy(w written, predicate string) string {
	switch predicate {
	case rollout.HoldMaxUnavailable:
		if w.spec.UpdatePolicy.MaxUnavailablePercent != nil {
			return "update_policy.max_unavailable_percent"
		}
		return "update_policy.max_unavailable_fixed"
	case rollout.HoldOpportunistic:
		return "update_policy.type"
	case rollout.HoldInterruption, rollout.HoldWouldLoseQuorum:
		return "update_policy.interruption"
	case rollout.HoldVoterCap:
		return "update_policy.parallel_voters"
	case rollout.HoldNotApproved:
		return "update_policy.require_approval"
	case rollout.HoldSecretNoValue:
		return "secret"
	case rollout.HoldPredecessor:
		return "management_policy"
	case rollout.HoldMaxCreating:
		return "update_policy.max_creating"
	case rollout.HoldGroupStopped:
		return "stopped"
	case rollout.HoldPreservedState:
		return "preserved_state.disk"
	case rollout.HoldQuorum, rollout.HoldQuorumUnknown, rollout.HoldMayDisrupt, rollout.HoldVoterScaleIn:
		return "workload.kind"
	case rollout.HoldActionNotAllowed:
		return "update_policy.most_disruptive_allowed_action"
	case rollout.HoldTargetUnproven:
		return "update_policy.minimal_action"
	case rollout.HoldLeaderNeedsApproval:
		return "update_policy.leader"
	case rollout.HoldIrreversible:
		return "update_policy.irreversible"
	case rollout.HoldVersionStep:
		return "template.compose"
	case rollout.HoldAfterGroup:
		return "after"
	case rollout.HoldGateClosed:
		return "gate"
	case rollout.HoldStepDelay:
		return "update_policy.step_delay"
	case rollout.HoldStage, rollout.HoldStageBaking, rollout.HoldStagePromotion:
		return "update_policy.stage"
	case rollout.HoldOutsideWindow:
		return "update_policy.window"
	case rollout.HoldRolloutFailed:
		return "update_policy.on_failure"
	case rollout.HoldDeleteDisks, rollout.HoldScaleInOrder:
		return "replicas"
	}
	return ""
}

// stepsText is a plan in lines, "" when there is nothing to do.
func stepsText(p rollout.Plan, now time.Time) string {
	return strings.Join(append(format.Steps(p, now), format.Moves(p)...), "\n")
}
