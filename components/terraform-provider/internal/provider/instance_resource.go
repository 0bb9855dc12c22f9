package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

func newInstance() resource.Resource { return &instanceResource{} }

// instanceResource is one Slot. Its group's spec decides the revision. Where the group's updates
// are OPPORTUNISTIC, this resource decides when the slot takes a new revision.
type instanceResource struct{ connection *connection }

var (
	_ resource.ResourceWithConfigure      = (*instanceResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*instanceResource)(nil)
	_ resource.ResourceWithValidateConfig = (*instanceResource)(nil)
	_ resource.ResourceWithImportState    = (*instanceResource)(nil)
)

// instance is a Slot as Terraform has it.
type instance struct {
	ID             types.String   `tfsdk:"id"`
	Group          types.String   `tfsdk:"group"`
	Ordinal        types.Int64    `tfsdk:"ordinal"`
	Revision       types.String   `tfsdk:"revision"`
	Metadata       types.Map      `tfsdk:"metadata"`
	Env            types.Map      `tfsdk:"env"`
	InstanceType   types.String   `tfsdk:"instance_type"`
	Excluded       types.Bool     `tfsdk:"exclude_from_rollout"`
	Unhealed       types.Bool     `tfsdk:"exclude_from_healing"`
	Pinned         types.String   `tfsdk:"pinned_revision"`
	Drain          types.Object   `tfsdk:"drain"`
	Protect        types.Object   `tfsdk:"protect"`
	Exclude        types.Object   `tfsdk:"exclude"`
	PreservedState types.Object   `tfsdk:"preserved_state"`
	PreservedDisk  types.String   `tfsdk:"preserved_disk"`
	Meta           types.Map      `tfsdk:"meta"`
	InstanceID     types.String   `tfsdk:"instance_id"`
	VIP            types.String   `tfsdk:"vip"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

func (m instance) slot() string {
	return group.SlotName(m.Group.ValueString(), int(m.Ordinal.ValueInt64()))
}

func (r *instanceResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_instance"
}

func (r *instanceResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.connection = configured(req.ProviderData)
}

func (r *instanceResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replaceText := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "One slot of a group, and which revision it runs. In a group whose updates are `OPPORTUNISTIC`, applying it brings exactly this slot to the group's revision, waits until it is available, " +
			"and refuses with the reason when the quorum does not bear it: the same as `cadre instance update`. In a group whose updates are `PROACTIVE` it only waits. With `metadata`, `env`, `instance_type`, `pinned_revision`, `exclude_from_rollout`, `exclude_from_healing` or `preserved_state` it sets the slot's own settings in its group's spec, and `drain`, `protect` and `exclude` are an operator's overrides on it. Destroying it removes all settings except the preserved disk: the slot belongs to the group, and a plan lists the resulting steps.",
		Attributes: map[string]schema.Attribute{
			"id":      schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the slot, such as `consul-1`.", PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
			"group":   schema.StringAttribute{Required: true, MarkdownDescription: "Name of the group.", PlanModifiers: replaceText},
			"ordinal": schema.Int64Attribute{Required: true, MarkdownDescription: "Which of the group's slots, from 0.", PlanModifiers: []planmodifier.Int64{int64planmodifier.RequiresReplace()}},
			"revision": schema.StringAttribute{Optional: true, Computed: true,
				MarkdownDescription: "Revision that the slot must run: the `revision` of its `cadre_group`, the only possible one. Default: the present revision, so that nothing is updated."},
			"preserved_disk": schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the disk that `preserved_state` here or in the group preserves; empty if none."},
			"metadata": schema.MapAttribute{Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Passed to the workload of this slot with the group's `meta`, and overrides it. The group's spec stores it; set the settings of one slot here or in an `instance` block of its `cadre_group`, not in both. In a group of a deployment the document has the settings, and other ones here are refused."},
			"env": schema.MapAttribute{Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Values of this slot for names of its group's `template.env`; they override the group's values. No place for a secret. A change is a step of this slot alone, by the rules of an update; it stays at its revision. Applying it waits until the CVM has them; a slot that is excluded or below the partition keeps its present values, and a warning reports that. Removing the argument is such a step too."},
			"instance_type": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Size of this slot's CVM in place of `template.instance_type` of its group. A change is a step of this slot alone, by the rules of an update; it stays at its revision. Applying it waits until the CVM has the size; a slot that is excluded or below the partition keeps its present size, and a warning reports that. Removing the argument is such a step too."},
			"exclude_from_rollout": schema.BoolAttribute{Optional: true,
				MarkdownDescription: "Keep the slot at the revision that it has. It counts in every budget and quorum all the same, and the rollout is not complete without it. Not with `revision`."},
			"exclude_from_healing": schema.BoolAttribute{Optional: true,
				MarkdownDescription: "Exclude the slot from automatic repair, despite its group's `auto_healing_policies`."},
			"pinned_revision": schema.StringAttribute{Optional: true,
				MarkdownDescription: "Run this recorded revision, all 32 digits, instead of the group's template, and stay there. Applying it moves the slot and waits until it is available at it. Not with `revision` or `exclude_from_rollout`. Without it again the slot goes back with the group's rollout."},
			"meta":        schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The workload's metadata: the group's `meta`, overridden by `metadata`."},
			"instance_id": schema.StringAttribute{Computed: true, MarkdownDescription: "Instance that fills the slot."},
			"vip":         schema.StringAttribute{Computed: true, MarkdownDescription: "Virtual address of the slot, the same for its whole life."},
		},
		Blocks: map[string]schema.Block{
			"preserved_state": schema.SingleNestedBlock{
				MarkdownDescription: "Disk of this slot that is kept as by `preserved_state` of its group, whose other disks need not be. Destroying the resource does not take it back: the disk stays until `delete_disks` of the group gives it up.",
				Attributes:          map[string]schema.Attribute{"disk": schema.StringAttribute{Optional: true, MarkdownDescription: "Name of the data disk."}},
			},
			"drain":    overrideBlock("Take the slot out of service and leave it alone, as `cadre instance drain` does: it hands leadership over, runs its `PRE_TERMINATE` hooks, and its CVM runs on. Applying it waits until the slot is drained. Meanwhile it is neither updated nor healed. Taking the block out puts the slot back into service. Not with `protect`, which would hold the drain."),
			"protect":  overrideBlock("Begin nothing that would disrupt the slot or cost its disk, as `cadre instance protect` does. An update of the slot is held with it. Not with `drain`."),
			"exclude":  excludeBlock("Leave the slot out of rollouts, of healing, or of both, as `cadre instance exclude` does: with a reason, and an end if it is to have one. `exclude_from_rollout` and `exclude_from_healing` say the same in the group's spec, without either. From rollouts not with `revision` or `pinned_revision`."),
			"timeouts": timeouts.Block(ctx, timeouts.Opts{Create: true, Update: true}),
		},
	}
}

// ModifyPlan reports the effect of the slot's update, and rejects an impossible one.
func (r *instanceResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var had, want instance
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &had)...)
	}
	if req.Plan.Raw.IsNull() {
		had.warnOfEnd(&resp.Diagnostics)
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &want)...)
	if resp.Diagnostics.HasError() || want.Group.IsUnknown() || want.Ordinal.IsUnknown() {
		return
	}
	if n := want.Ordinal.ValueInt64(); n < 0 || n >= group.MaxReplicas {
		resp.Diagnostics.AddAttributeError(path.Root("ordinal"), "No such slot", fmt.Sprintf("ordinal: is %d: must be 0 to %d", n, group.MaxReplicas-1))
		return
	}
	want.refuseEnded(had, &resp.Diagnostics)
	r.claim(ctx, want, req, resp)
	var configured types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("revision"), &configured)...)
	moved := !had.ID.IsNull() && had.slot() != want.slot()
	if moved { // it is replaced: the slot of before is given back, and nothing else says so
		had.warnOfEnd(&resp.Diagnostics)
	} else {
		unended(ctx, want, configured, req, resp)
	}
	want.ID = types.StringValue(want.slot())
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("id"), want.ID)...)
	cl, err := r.connection.open()
	if err != nil {
		return
	}
	before := had
	if moved {
		before = instance{}
	}
	want.warnOfRefusal(ctx, cl, before, &resp.Diagnostics)
	v, err := cl.Look(ctx, want.Group.ValueString())
	if err != nil {
		return // the group is made in the same run; applying will say if not
	}
	i, ok := slotOf(v.Status, want.slot())
	if !ok {
		return
	}
	if !moved {
		want.warnOfSteps(had, v.Status.Target, i, &resp.Diagnostics)
	}
	if configured.IsNull() {
		// Nothing is asked for: it stays where it is, or goes where its group takes it.
		if !req.Plan.Raw.Equal(req.State.Raw) {
			resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("revision"), types.StringUnknown())...)
		}
		return
	}
	if want.Revision.IsUnknown() || want.Revision.ValueString() == i.Observed {
		return
	}
	resp.Diagnostics.AddWarning(fmt.Sprintf("Slot %s is updated: revision %s", i.Slot, format.Arrow(i.Observed, want.Revision.ValueString())), updateText(asked(v, i.Slot), i))
}

// asked returns v as after the request for the slot's update, which the apply makes: the hold for a
// missing request is then gone.
func asked(v client.View, slot string) client.View {
	v.Plan.Actions = slices.Clone(v.Plan.Actions)
	for n, a := range v.Plan.Actions {
		holds := slices.DeleteFunc(slices.Clone(a.Holds), func(h rollout.Hold) bool { return h.Predicate == rollout.HoldOpportunistic })
		if a.Slot == slot && len(holds) < len(a.Holds) {
			a.Holds, a.Execute = holds, len(holds) == 0
			v.Plan.Actions[n] = a
		}
	}
	return v
}

// updateText describes the coordinators' plan for one slot.
func updateText(v client.View, i group.InstanceStatus) string {
	for _, a := range v.Plan.Actions {
		if a.Slot == i.Slot {
			return format.Step(a, time.Now())
		}
	}
	return format.OneLine(fmt.Sprintf("%s: %s, %s", i.Slot, i.State, i.Health))
}

func slotOf(s group.Status, slot string) (group.InstanceStatus, bool) {
	for _, i := range s.Instances {
		if i.Slot == slot {
			return i, true
		}
	}
	return group.InstanceStatus{}, false
}

// Create brings the slot to its revision, and gives it its settings.
func (r *instanceResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var want instance
	resp.Diagnostics.Append(req.Plan.Get(ctx, &want)...)
	timeout, more := want.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("revision"), &want.Revision)...)
	if resp.Diagnostics.HasError() {
		return
	}
	left := instance{Group: want.Group, Ordinal: want.Ordinal}
	switch r.bring(ctx, &want, instance{}, &left, timeout, &resp.Diagnostics) {
	case brought:
		resp.Diagnostics.Append(resp.State.Set(ctx, want)...)
		return
	case refused:
		return
	case failed:
	}
	// Without state Terraform would not remove the written settings.
	if cl := r.connection.use(&resp.Diagnostics); cl != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		r.takeBack(ctx, cl, left, &resp.Diagnostics)
	}
}

// Update brings the slot to another revision, and gives it other settings.
func (r *instanceResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var had, want instance
	resp.Diagnostics.Append(req.State.Get(ctx, &had)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &want)...)
	timeout, more := want.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("revision"), &want.Revision)...)
	if resp.Diagnostics.HasError() {
		return
	}
	left := had
	if r.bring(ctx, &want, had, &left, timeout, &resp.Diagnostics) == brought {
		resp.Diagnostics.Append(resp.State.Set(ctx, want)...)
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, unendedKey, nil)...)
		return
	}
	// The state gets the written settings, so that removing them from the configuration removes
	// them.
	resp.Diagnostics.Append(resp.State.Set(ctx, left)...)
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, unendedKey, []byte("true"))...)
}

// outcome is the result of bring.
type outcome int

const (
	// failed: some of it may be written.
	failed outcome = iota
	// refused: nothing is written, since another resource owns the slot.
	refused
	// brought: all of it is as it should be.
	brought
)

// bring writes the slot's settings, updates the slot when a revision is asked for, and reads the
// result. It changes one slot of a group at a time, so that each change finds the others in place.
// A leading slot goes after the other slots of the run. left records the written settings, starting
// from the earlier ones, also for a failed run.
func (r *instanceResource) bring(ctx context.Context, want *instance, had instance, left *instance, timeout time.Duration, diags *diag.Diagnostics) outcome {
	cl := r.connection.use(diags)
	if cl == nil {
		return failed
	}
	turn := r.connection.turn(want.Group.ValueString())
	err := turn.take(ctx)
	for err == nil {
		var again bool
		if again, err = r.try(ctx, cl, turn, want, had, left, timeout, diags); err == nil && !again {
			turn.pass()
			if diags.HasError() {
				return failed
			}
			return brought
		}
		if _, is := errors.AsType[*takenError](err); is {
			turn.pass()
			diags.AddError("Slot "+want.slot()+" has settings already", err.Error())
			return refused
		}
	}
	addError(diags, "Slot "+want.slot()+" did not have its turn", err)
	return failed
}

// goFirst is how long a leading slot waits for requests of other slots of its group. Terraform
// begins ready resources within moments.
const goFirst = 3 * time.Second

// try is one attempt of bring, in the slot's turn. again: others went first, and it is the slot's
// turn again. An error: the turn is gone, or, of a *takenError, nothing was written.
func (r *instanceResource) try(ctx context.Context, cl *client.Client, turn *turn, want *instance, had instance, left *instance, timeout time.Duration, diags *diag.Diagnostics) (again bool, err error) {
	// The timeout counts this slot's own time, without the slots before it.
	own, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var p progress
	err = r.clearOverride(own, cl, *want, had, left, p.lost(own))
	if err == nil {
		err = r.settle(own, cl, *want, had, left, p.lost(own))
	}
	if _, is := errors.AsType[*takenError](err); is {
		return false, err
	}
	if err != nil {
		if client.KindOf(err) == client.NotFound {
			noSlot(ctx, cl, *want, diags)
			return false, nil
		}
		addError(diags, "Slot "+want.slot()+" does not get its settings", err)
		return false, nil
	}
	reached, err := r.update(own, cl, *want, had, &p)
	if held, is := errors.AsType[*client.HeldError](err); is && held.By(rollout.HoldLeaderLast) {
		given, gone := turn.yield(ctx, goFirst)
		if given || gone != nil {
			return true, gone
		}
	}
	if err != nil {
		updateFailed(want.slot(), timeout, p.last, err, diags)
		return false, nil
	}
	if reached != nil && want.Drain.IsNull() {
		for _, name := range reached.Unapplied() {
			diags.AddAttributeWarning(path.Root(name), "Slot "+want.slot()+" keeps the "+name+" that it has", "The group's spec stores the new one, and its CVM gets it by its next step: it is excluded from rollouts, below the partition, or waits for an unrequested update. `cadre instance describe "+want.slot()+"` says when it has it.")
		}
	}
	if err = r.override(own, cl, *want, left, p.lost(own)); err != nil {
		addError(diags, "Slot "+want.slot()+" does not get its overrides", err)
		return false, nil
	}
	found := false
	err = client.Poll(own, func(ctx context.Context) (bool, error) {
		var err error
		found, err = r.read(ctx, cl, want, reached)
		return true, err
	}, p.lost(own))
	switch {
	case err != nil:
		addError(diags, "Slot "+want.slot()+" cannot be read", err)
	case !found:
		noSlot(ctx, cl, *want, diags)
	}
	return false, nil
}

// update brings the slot to the revision that is asked for, with its own env and size, and gives
// where it ended; nil: none of them is asked for.
func (r *instanceResource) update(ctx context.Context, cl *client.Client, want, had instance, p *progress) (*group.InstanceStatus, error) {
	revision, pin := want.Revision.ValueString(), want.Pinned.ValueString()
	own := revision == "" && pin == ""
	if own && want.Env.IsNull() && had.Env.IsNull() && want.InstanceType.IsNull() && had.InstanceType.IsNull() {
		return nil, nil
	}
	if i, err := cl.Instance(ctx, want.slot()); !want.Drain.IsNull() && err == nil && (own || i.Status.Observed == cmp.Or(pin, revision)) {
		return nil, nil // an update of a slot that is out of service is not awaited
	}
	// The coordinator must first have seen the earlier writes of this resource and of the group.
	var index uint64
	if g, err := cl.Group(ctx, want.Group.ValueString()); err == nil {
		index = g.Index
	}
	i, err := cl.UpdateInstance(ctx, want.slot(), client.UpdateOptions{Revision: revision, Pinned: pin, Own: own, Index: index, Reason: "updated by Terraform", See: p.see(ctx), Lost: p.lost(ctx)})
	if err != nil {
		return nil, err
	}
	return &i, nil
}

func updateFailed(slot string, timeout time.Duration, last *client.View, err error, diags *diag.Diagnostics) {
	late := errors.Is(err, context.DeadlineExceeded)
	if !late && !errors.Is(err, context.Canceled) {
		addError(diags, "Slot "+slot+" is not updated", err)
		return
	}
	text := "The operation continues. Apply again to keep waiting, or see `cadre instance describe " + slot + "`."
	if last != nil {
		if i, ok := slotOf(last.Status, slot); ok {
			text += "\n\n" + updateText(*last, i)
		}
	}
	if !late {
		diags.AddError(fmt.Sprintf("The wait for slot %s has ended", slot), text)
		return
	}
	diags.AddError(fmt.Sprintf("Slot %s is not available at its revision after %s", slot, timeout), text+"\n\nGive it more time in the timeouts block.")
}

// read fills in the known values of the slot; false: the slot does not exist. reached is the result
// of an update, which the answering coordinator may not have seen yet.
func (r *instanceResource) read(ctx context.Context, cl *client.Client, m *instance, reached *group.InstanceStatus) (bool, error) {
	if reached == nil {
		one, err := cl.Instance(ctx, m.slot())
		if err != nil {
			return false, unlessAbsent(err)
		}
		reached = &one.Status
	}
	g, err := cl.Group(ctx, m.Group.ValueString())
	if err != nil {
		return false, err
	}
	m.ID, m.Revision = types.StringValue(m.slot()), types.StringValue(reached.Observed)
	m.InstanceID, m.VIP = types.StringValue(reached.InstanceID), types.StringValue(reached.VIP)
	ordinal := int(m.Ordinal.ValueInt64())
	m.PreservedDisk = types.StringValue(g.Spec.PreservedDisk(ordinal))
	meta, diags := types.MapValueFrom(ctx, types.StringType, g.Spec.MetaOf(ordinal))
	m.Meta = meta
	diags.Append(m.known(ctx, g.Spec.Instance(ordinal))...)
	if err := m.knownOverrides(ctx, cl); err != nil {
		return false, err
	}
	if diags.HasError() {
		return false, errors.New(diags[0].Detail())
	}
	return true, nil
}

// unlessAbsent is nil for an error which says that there is no such thing.
func unlessAbsent(err error) error {
	if client.KindOf(err) == client.NotFound {
		return nil
	}
	return err
}

// Read refreshes the state: a slot at another revision than the applied one shows as a change.
func (r *instanceResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m instance
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	cl := r.connection.lookup("Slot "+m.slot(), &resp.Diagnostics)
	if cl == nil {
		return
	}
	found, err := r.read(ctx, cl, &m, nil)
	switch {
	case err != nil:
		addError(&resp.Diagnostics, "Slot "+m.slot()+" cannot be read", err)
	case !found:
		resp.State.RemoveResource(ctx)
	default:
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// ImportState imports a slot by its name, with its present overrides and its pin.
func (r *instanceResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	name, ordinal, err := group.ParseSlot(req.ID)
	if err != nil {
		resp.Diagnostics.AddError("No such slot", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("group"), name)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("ordinal"), int64(ordinal))...)
	cl := r.connection.lookup("Slot "+req.ID, &resp.Diagnostics)
	if cl == nil {
		return
	}
	g, err := cl.Group(ctx, name)
	var active []client.Override
	if err == nil {
		active, err = cl.Overrides(ctx, name)
	}
	if err != nil {
		addError(&resp.Diagnostics, "Slot "+req.ID+" cannot be read", err)
		return
	}
	if pin := g.Spec.Instance(ordinal).PinnedRevision; pin != "" {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("pinned_revision"), pin)...)
	}
	for _, m := range active {
		if m.Name == req.ID && (&instance{}).overrideAt(m.Kind) != nil {
			resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(string(m.Kind)), slotOverride{kind: m.Kind}.block(m))...)
		}
	}
}
