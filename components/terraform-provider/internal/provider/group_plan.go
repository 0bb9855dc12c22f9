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
	"cadre.dev/client/format"
)

// ModifyPlan fills in the computed values and asks the coordinators for their plan. The plan lists
// the slots that move, their order, and the reason of each wait.
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
		unread(w, at, err, &resp.Diagnostics)
		return
	}
	if len(w.unknown) > 0 {
		return
	}
	name := w.spec.Name
	was, _, err := writtenIn(before)
	unchanged := err == nil && before != nil && reflect.DeepEqual(was.tree, w.tree)
	if !unchanged && r.inDocument(ctx, name, &resp.Diagnostics) {
		return
	}
	waits := planned.flag(argWait, true)
	disks := planned.flag(argDisks, false)
	planned[argID], planned[argDeleting] = textValue(name), flagValue(false)
	planned[argIndex] = tftypes.NewValue(tftypes.Number, tftypes.UnknownValue)
	planned[argRevision] = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	planned[argComplete] = tftypes.NewValue(tftypes.Bool, tftypes.UnknownValue)
	if waits {
		planned[argComplete] = flagValue(true)
	}
	if unchanged {
		planned[argIndex] = before[argIndex]
		if before.text(argRevision) != "" {
			planned[argRevision] = before[argRevision]
		}
		if !waits {
			planned[argComplete] = before[argComplete]
		}
	}
	if before != nil && before.text("name") != name {
		// It is replaced: the group of the old name goes, and nothing else says so.
		r.planDelete(ctx, before, &resp.Diagnostics)
	}
	if before != nil && before.text("name") == name && before.flag(argDeleting, false) {
		// No error: to destroy, Terraform plans as if to apply first.
		summary, detail := deletingText(name)
		resp.Diagnostics.AddAttributeWarning(path.Root("name"), summary, detail)
	} else if !unchanged || disks != before.flag(argDisks, false) || waits && !before.flag(argComplete, false) {
		if revision := r.askPlan(ctx, w, was, disks, &resp.Diagnostics); revision != "" {
			planned[argRevision] = textValue(revision)
		}
	} else {
		r.warnOfDrift(ctx, w, &resp.Diagnostics)
	}
	resp.Plan.Raw = planned.value(req.Plan.Raw)
}

// warnOfDrift lists the slots that are in a wrong state although nothing changed: no apply follows,
// since the coordinators repair them.
func (r *groupResource) warnOfDrift(ctx context.Context, w written, diags *diag.Diagnostics) {
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
			diags.AddWarning(fmt.Sprintf("Slot %s is %s", i.Slot, i.State), lines(updateText(v, i), format.Why(i)))
		}
	}
}

// askPlan has the coordinators judge the spec and returns their plan. It also returns the
// revision's name from the coordinators: the provider may be of another version. "" when no
// coordinator answers, or when the coordinators reject the spec; the reason was added then.
func (r *groupResource) askPlan(ctx context.Context, w, was written, disks bool, diags *diag.Diagnostics) string {
	cl, err := r.connection.open()
	if err != nil {
		noPlan(w.spec.Name, err, diags)
		return ""
	}
	name, spec := w.spec.Name, w.spec
	if there, err := cl.Group(ctx, name); err == nil {
		if spec, err = keeping(spec, there, was.spec, w.spec); err != nil {
			addError(diags, "Group "+name+" cannot be planned", err)
			return ""
		}
	}
	checked, err := cl.ApplyGroupWith(ctx, spec, client.ApplyOptions{DryRun: true, DeleteDisks: disks, Reason: argDisks + " is set in Terraform"})
	switch {
	case client.KindOf(err) == client.Unavailable && err != nil:
		noPlan(name, err, diags)
		return ""
	case err != nil:
		addError(diags, "The coordinators refuse the spec of "+name, err)
		return ""
	}
	for _, text := range checked.Warnings {
		diags.AddWarning("Group "+name, text)
	}
	if len(checked.Leaving) > 0 {
		diags.AddAttributeWarning(path.Root("replicas"), fmt.Sprintf("Slots leave group %s: %s", name, strings.Join(checked.Leaving, ", ")), leavingText(checked.HeldDisks, disks))
	}
	p, err := cl.Plan(ctx, name, &spec)
	if err != nil {
		// A spec must be appliable without a leader that has a view.
		noPlan(name, err, diags)
		return checked.Revision
	}
	if text := stepsText(p, time.Now()); text != "" {
		diags.AddWarning(planSummary(name, p.Target, p.Stable, len(p.Actions)), text)
	}
	return checked.Revision
}

// noPlan states why a plan does not list the slots that will move. The spec was judged all the
// same, as `cadre group validate` does.
func noPlan(name string, err error, diags *diag.Diagnostics) {
	diags.AddWarning("It is not known which slots of group "+name+" will move",
		"The coordinators could not be asked, so this plan does not show the steps of the rollout: "+err.Error()+".\n\nApplying asks them again, and fails before it changes anything if they refuse the spec.")
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
	return fmt.Sprintf("Group %s: %d %s to revision %s", name, steps, word, format.Arrow(stable, target))
}
