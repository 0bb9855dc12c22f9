package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
)

// unendedKey marks a resource whose last update did not complete. Its written settings are in
// state, so without the mark the next apply would find no difference to wait for.
const unendedKey = "unended"

// unended has the plan update a resource again whose last update did not get there.
func unended(ctx context.Context, want instance, configured types.String, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	kept, more := req.Private.GetKey(ctx, unendedKey)
	resp.Diagnostics.Append(more...)
	if len(kept) == 0 {
		return
	}
	if req.State.Raw.IsNull() { // a new resource is a new apply
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, unendedKey, nil)...)
		return
	}
	// As with any other difference, the results of an update are unknown before it.
	unknown := []string{"instance_id", "vip", "preserved_disk"}
	if configured.IsNull() {
		unknown = append(unknown, "revision")
	}
	for _, name := range unknown {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), types.StringUnknown())...)
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("meta"), types.MapUnknown(types.StringType))...)
	resp.Diagnostics.AddWarning("Slot "+want.slot()+" is waited for again", "The previous apply did not complete. Its settings are stored, and applying continues it.")
}

// warnOfSteps warns of the slot's steps in addition to the requested revision.
func (m instance) warnOfSteps(had instance, target string, i group.InstanceStatus, diags *diag.Diagnostics) {
	m.warnOfOwn(had, diags)
	m.warnOfPin(had, i, diags)
	if had.Excluded.ValueBool() && !m.Excluded.IsUnknown() && !m.Excluded.ValueBool() && m.Pinned.IsNull() && target != i.Observed {
		diags.AddAttributeWarning(path.Root("exclude_from_rollout"), "Slot "+m.slot()+" goes with its group again: revision "+format.Arrow(i.Observed, target), "The rollout that it was kept from takes it, by all its rules.")
	}
}

// warnOfOwn warns of the cost of a change of the slot's env or size.
func (m instance) warnOfOwn(had instance, diags *diag.Diagnostics) {
	for _, one := range []struct {
		name, gets string
		same       bool
	}{
		{"env", "It is given other values", m.Env.IsNull() && had.Env.IsNull() || m.Env.Equal(had.Env)},
		{"instance_type", "Its CVM gets another size", m.InstanceType.IsNull() && had.InstanceType.IsNull() || m.InstanceType.Equal(had.InstanceType)},
	} {
		if !one.same {
			diags.AddAttributeWarning(path.Root(one.name), "Slot "+m.slot()+" is restarted for its "+one.name, one.gets+", by the rules of an update of this slot alone, and the slot stays at its revision.")
		}
	}
}

// warnOfPin says where a change of its pin moves the slot.
func (m instance) warnOfPin(had instance, i group.InstanceStatus, diags *diag.Diagnostics) {
	at := path.Root("pinned_revision")
	switch pin := m.Pinned.ValueString(); {
	case m.Pinned.Equal(had.Pinned):
	case m.Pinned.IsNull() && had.Pinned.ValueString() == "": // taken back by another hand already
	case m.Pinned.IsNull():
		diags.AddAttributeWarning(at, "Slot "+m.slot()+" is not pinned any more", "It goes back to the revision of its group, by the rules of a rollout. Where updates are OPPORTUNISTIC it waits to be asked for. Nothing waits for it here.")
	case m.Pinned.IsUnknown():
		diags.AddAttributeWarning(at, "Slot "+m.slot()+" is moved to a revision of its own", "Which one is known when it is applied. It is moved by the rules of an update of this slot alone, and stays there.")
	case pin == i.Observed:
	default:
		diags.AddAttributeWarning(at, "Slot "+m.slot()+" is moved to a revision of its own: "+format.Arrow(i.Observed, pin), "By the rules of an update of this slot alone, and it stays there: its group's rollout is not complete without it.")
	}
}

// warnOfEnd warns of the consequences when the resource removes its slot's settings.
func (m instance) warnOfEnd(diags *diag.Diagnostics) {
	var out []string
	for _, one := range []struct {
		given bool
		text  string
	}{
		{len(m.Env.Elements()) > 0, "env: it is restarted without the values of its own."},
		{m.InstanceType.ValueString() != "", "instance_type: it is restarted with the size of its group's template."},
		{m.Pinned.ValueString() != "", "pinned_revision: it is moved back to the revision of its group."},
		{m.Excluded.ValueBool(), "exclude_from_rollout: it goes with the rollouts of its group again."},
		{m.Unhealed.ValueBool(), "exclude_from_healing: it is healed again where its group says so."},
		{!m.Drain.IsNull(), "drain: it goes back into service."},
		{!m.Protect.IsNull(), "protect: the protection's held steps begin."},
		{!m.Exclude.IsNull(), "exclude: it is rolled and healed with its group again."},
	} {
		if one.given {
			out = append(out, one.text)
		}
	}
	if len(out) == 0 {
		return
	}
	diags.AddWarning("Slot "+m.slot()+" is given back to its group", lines(append(out,
		"Each step of it goes by the rules of a rollout, and waits to be asked for where updates are OPPORTUNISTIC. If the group goes in the same run, so does the slot.")...))
}

// noSlot says that the group has no slot of that ordinal, and which ones it has.
func noSlot(ctx context.Context, cl *client.Client, m instance, diags *diag.Diagnostics) {
	name, ordinal := m.Group.ValueString(), int(m.Ordinal.ValueInt64())
	g, err := cl.Group(ctx, name)
	if err != nil {
		groupUnread(name, err, diags)
		return
	}
	why := fmt.Sprintf("its ordinals are %s. Raise replicas of the group", ranges(g.Spec.Ordinals()))
	switch {
	case g.Spec.HasOrdinal(ordinal):
		why = fmt.Sprintf("it is to have it, and it is not made yet: see `cadre rollout plan %s`, and apply again", name)
	case slices.Contains(g.Spec.Without, m.slot()):
		why = fmt.Sprintf("its spec leaves it out. Take %s out of `without` of the group", m.slot())
	}
	diags.AddAttributeError(path.Root("ordinal"), "No such slot", fmt.Sprintf("Group %s has no slot of ordinal %d: %s, or take this resource out.", name, ordinal, why))
}

// ranges are numbers in their order as people write them: "0, 2 to 4".
func ranges(numbers []int) string {
	var out []string
	for at := 0; at < len(numbers); {
		end := at
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		switch end - at {
		case 0:
			out = append(out, strconv.Itoa(numbers[at]))
		case 1:
			out = append(out, strconv.Itoa(numbers[at]), strconv.Itoa(numbers[end]))
		default:
			out = append(out, fmt.Sprintf("%d to %d", numbers[at], numbers[end]))
		}
		at = end + 1
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}
