package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"cadre.dev/client"
	"cadre.dev/client/tell"
)

// ModifyPlan fills in what follows from the spec and asks the coordinators what they would
// do, so that a plan says which slots move, in which order and why others wait.
func (r *groupResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	before, err := objectOf(req.State.Raw)
	planned, more := objectOf(req.Plan.Raw)
	if err = errors.Join(err, more); err != nil {
		addError(&resp.Diagnostics, "Plan cannot be read", err)
		return
	}
	if planned == nil {
		r.planDelete(ctx, before, &resp.Diagnostics)
		return
	}
	w, at, err := writtenIn(planned)
	if err != nil {
		resp.Diagnostics.AddAttributeError(at, "Group cannot be read", err.Error())
		return
	}
	if len(w.unknown) > 0 {
		return
	}
	was, _, err := writtenIn(before)
	unchanged := err == nil && before != nil && reflect.DeepEqual(was.tree, w.tree)
	full := w.complete()
	planned[argID], planned[argRevision] = textValue(w.spec.Name), textValue(full.Revision())
	planned[argIndex] = tftypes.NewValue(tftypes.Number, tftypes.UnknownValue)
	waits := planned.flag(argWait, true)
	planned[argComplete] = tftypes.NewValue(tftypes.Bool, tftypes.UnknownValue)
	if waits {
		planned[argComplete] = flagValue(true)
	}
	if unchanged {
		planned[argIndex] = before[argIndex]
		if !waits {
			planned[argComplete] = before[argComplete]
		}
	}
	resp.Plan.Raw = planned.value(req.Plan.Raw)
	if before != nil && before.text("name") != w.spec.Name {
		// It is replaced: the group of the old name goes, and nothing else says so.
		r.planDelete(ctx, before, &resp.Diagnostics)
	}
	disks := planned.flag(argDisks, false)
	if !unchanged || disks != before.flag(argDisks, false) || waits && !before.flag(argComplete, false) {
		r.askPlan(ctx, w, disks, &resp.Diagnostics)
		return
	}
	r.tellDrift(ctx, w, &resp.Diagnostics)
}

// tellDrift says which slots are not as they should be although nothing changed: nothing is
// applied for it, since the coordinators mend what they can.
func (r *groupResource) tellDrift(ctx context.Context, w written, diags *diag.Diagnostics) {
	cl, err := r.connection.open()
	if err != nil {
		return
	}
	v, err := cl.Look(ctx, w.spec.Name)
	if err != nil {
		return
	}
	for _, i := range v.Status.Instances {
		if i.State != client.StateAvailable {
			diags.AddWarning(fmt.Sprintf("Slot %s is %s", i.Slot, i.State), lines(updateText(v, i), tell.Why(i)))
		}
	}
}

// askPlan has the coordinators judge the spec and say what they would do.
func (r *groupResource) askPlan(ctx context.Context, w written, disks bool, diags *diag.Diagnostics) {
	cl, err := r.connection.open()
	if err != nil {
		if !errors.Is(err, errNotYet) {
			diags.AddWarning("No plan from the coordinators", err.Error())
		}
		return
	}
	name := w.spec.Name
	checked, err := cl.ApplyGroupWith(ctx, w.spec, client.ApplyOptions{DryRun: true, DeleteDisks: disks, Reason: argDisks + " is set in Terraform"})
	switch {
	case client.KindOf(err) == client.Unavailable && err != nil:
		diags.AddWarning("No plan from the coordinators", err.Error())
		return
	case err != nil:
		addError(diags, "The coordinators refuse the spec of "+name, err)
		return
	}
	for _, text := range checked.Warnings {
		diags.AddWarning("Group "+name, text)
	}
	if len(checked.Leaving) > 0 {
		diags.AddAttributeWarning(path.Root("replicas"), fmt.Sprintf("Slots leave group %s: %s", name, strings.Join(checked.Leaving, ", ")), leavingText(checked.HeldDisks, disks))
	}
	p, err := cl.Plan(ctx, name, &w.spec)
	if err != nil {
		// A spec must be appliable without a leader that has a view.
		diags.AddWarning("No plan from the coordinators", err.Error())
		return
	}
	if text := stepsText(p, time.Now()); text != "" {
		diags.AddWarning(planSummary(name, p.Target, p.Stable, len(p.Actions)), text)
	}
}

func leavingText(held []string, disks bool) string {
	switch {
	case disks:
		return "Their disks are deleted with them, as delete_disks says."
	case len(held) > 0:
		return "Their disks would be lost with them, so they stay, held, until delete_disks gives them up: " + strings.Join(held, ", ")
	}
	return "They are removed one after the other, the highest ordinal first."
}

func planSummary(name, target, stable string, steps int) string {
	word := "steps"
	if steps == 1 {
		word = "step"
	}
	return fmt.Sprintf("Group %s: %d %s to revision %s", name, steps, word, tell.Arrow(stable, target))
}
