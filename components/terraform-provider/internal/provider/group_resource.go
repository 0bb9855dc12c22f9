package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

// defaultTimeout is how long is waited for a rollout, as `cadre group apply --wait` does.
const defaultTimeout = 30 * time.Minute

func newGroup() resource.Resource { return &groupResource{} }

type groupResource struct{ connection *connection }

var (
	_ resource.ResourceWithConfigure      = (*groupResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*groupResource)(nil)
	_ resource.ResourceWithValidateConfig = (*groupResource)(nil)
	_ resource.ResourceWithImportState    = (*groupResource)(nil)
)

func (r *groupResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_group"
}

func (r *groupResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.connection = configured(req.ProviderData)
}

// applying is one create or update.
type applying struct {
	client  *client.Client
	planned object
	written written
	timeout time.Duration
	diags   *diag.Diagnostics
}

// Create applies the spec of a new group. It adopts an existing group with this very spec: an
// earlier run ended while it waited.
func (r *groupResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	a, ok := r.begin(req.Plan.Raw, &resp.Diagnostics)
	if !ok {
		return
	}
	var t timeouts.Value
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(argTimeouts), &t)...)
	timeout, more := t.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	a.timeout = timeout
	name := a.written.spec.Name
	there, err := a.client.Group(ctx, name)
	switch {
	case err == nil && deleting(there):
		beingDeleted(name, &resp.Diagnostics)
	case err == nil && !unchanged(there.Spec, a.written.spec):
		existsAlready(name, &resp.Diagnostics)
	case err != nil && client.KindOf(err) != client.NotFound:
		addError(&resp.Diagnostics, "Group cannot be read", err)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if err == nil {
		resp.Diagnostics.AddWarning("Group "+name+" was there already, with this very spec",
			"It is adopted, like a group whose first apply failed. If another Terraform configuration created it, destroying it here destroys theirs.")
	}
	done, ok := a.applyBeside(ctx, there, there.Index, a.written.spec)
	if !ok {
		return
	}
	if !a.wait(ctx, done) {
		// The state stays empty: Terraform would delete a resource whose creation failed, with its
		// disks, and create it again. The next apply finds the existing group.
		resp.Diagnostics.AddError(fmt.Sprintf("Group %s exists, and its rollout continues without Terraform", name),
			"Its spec is stored with the coordinators. To continue, apply again: the same spec is adopted unchanged. "+
				"For a corrected one, import the group first:\n\n  terraform import cadre_group.<name> "+name+"\n\nTo be rid of it: cadre group delete "+name)
		return
	}
	resp.State.Raw = a.state(ctx, done).value(req.Plan.Raw)
}

// Update applies a changed spec, and waits for the rollout, also for the rollout of an interrupted
// earlier run.
func (r *groupResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	a, ok := r.begin(req.Plan.Raw, &resp.Diagnostics)
	if !ok {
		return
	}
	var t timeouts.Value
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(argTimeouts), &t)...)
	timeout, more := t.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	a.timeout = timeout
	before, err := objectOf(req.State.Raw)
	if err != nil || resp.Diagnostics.HasError() {
		addErrorIf(&resp.Diagnostics, "State cannot be read", err)
		return
	}
	was, _, err := writtenIn(before)
	there, unread := a.client.Group(ctx, a.written.spec.Name)
	if err = errors.Join(err, unread); err != nil {
		addError(&resp.Diagnostics, "Group "+a.written.spec.Name+" cannot be read", err)
		return
	}
	if deleting(there) {
		beingDeleted(a.written.spec.Name, &resp.Diagnostics)
		return
	}
	index := uint64(max(before.number(argIndex), 0))
	if unchanged(there.Spec, was.spec) {
		index = there.Index // a cadre_instance of the same run may have written its settings
	}
	done, ok := a.applyBeside(ctx, there, index, was.spec, a.written.spec)
	if !ok {
		return
	}
	// An unchanged group that was complete needs no wait: a slot that is down is not this run's
	// change.
	complete := !done.Changed && before.flag(argComplete, false) || a.wait(ctx, done)
	after := a.state(ctx, done)
	if !complete {
		after[argComplete] = flagValue(false)
	}
	resp.State.Raw = after.value(req.Plan.Raw)
}

// applyBeside applies the written spec with the settings that others than own have stored.
func (a applying) applyBeside(ctx context.Context, there client.Group, index uint64, own ...group.Spec) (client.Applied, bool) {
	spec, err := keeping(a.written.spec, there, own...)
	if err != nil {
		addError(a.diags, "Group "+spec.Name+" is not applied", err)
		return client.Applied{}, false
	}
	return a.apply(ctx, spec, index)
}

func addErrorIf(diags *diag.Diagnostics, summary string, err error) {
	if err != nil {
		addError(diags, summary, err)
	}
}

// begin reads the plan and opens the cluster; false: the reason was added.
func (r *groupResource) begin(plan tftypes.Value, diags *diag.Diagnostics) (applying, bool) {
	a := applying{diags: diags}
	planned, err := objectOf(plan)
	if err == nil {
		a.planned = planned
		var at path.Path
		if a.written, at, err = writtenIn(planned); err != nil {
			unread(a.written, at, err, diags)
			return a, false
		}
	}
	if err != nil {
		addError(diags, "Plan cannot be read", err)
		return a, false
	}
	if judge(a.written, nil, diags); diags.HasError() {
		return a, false
	}
	a.client = r.connection.use(diags)
	return a, a.client != nil
}

func existsAlready(name string, diags *diag.Diagnostics) {
	diags.AddAttributeError(path.Root("name"), fmt.Sprintf("Group %s exists already", name),
		"It has another spec than this one, and nothing was changed. To manage it here, import it:\n\n  terraform import cadre_group.<name> "+name)
}

// beingDeleted: a change would be deleted with the group.
func beingDeleted(name string, diags *diag.Diagnostics) {
	summary, detail := deletingText(name)
	diags.AddAttributeError(path.Root("name"), summary, detail)
}

func deletingText(name string) (summary, detail string) {
	return fmt.Sprintf("Group %s is being deleted", name), "Its deletion was begun, here or by `cadre group delete`, and has not ended: a change would be deleted with the group, and is refused.\n\n" +
		"To finish it, destroy the group (terraform destroy continues the deletion) and apply again. To keep the remaining instances:\n\n  cadre group delete " + name + " --cancel"
}

func deleting(g client.Group) bool { return g.Deleting != nil && *g.Deleting }

// apply writes the spec, unless it is stored already. index is the earlier read index. With 0 apply
// creates the group, and leaves a group alone that another client created meanwhile.
func (a applying) apply(ctx context.Context, spec group.Spec, index uint64) (client.Applied, bool) {
	name := spec.Name
	o := client.ApplyOptions{ExpectedIndex: index, ExpectAbsent: index == 0, DeleteDisks: a.planned.flag(argDisks, false)}
	if o.DeleteDisks {
		o.Reason = argDisks + " is set in Terraform"
	}
	done, err := a.client.ApplyGroupWith(ctx, spec, o)
	switch {
	case err == nil:
		return done, true
	case index == 0 && client.KindOf(err) == client.Conflict:
		existsAlready(name, a.diags)
	case client.KindOf(err) == client.Conflict:
		a.diags.AddAttributeError(path.Root("name"), fmt.Sprintf("Group %s was changed since it was read", name),
			"Another writer changed its spec, and nothing was overwritten. Plan again: the plan shows the changes.\n\n"+err.Error())
	default:
		addError(a.diags, "Group "+name+" is not applied", err)
	}
	return done, false
}

// wait waits for the rollout when that is asked for; false: it did not get there, and why
// was added.
func (a applying) wait(ctx context.Context, done client.Applied) bool {
	if !a.planned.flag(argWait, true) {
		return true
	}
	return waitFor(ctx, a.client, a.written, done, a.timeout, a.diags)
}

// state is the known state after the apply.
func (a applying) state(ctx context.Context, done client.Applied) object {
	out := object{}
	for k, v := range a.planned {
		out[k] = v
	}
	out[argID], out[argIndex], out[argDeleting] = textValue(a.written.spec.Name), numberValue(done.Index), flagValue(false)
	switch planned := a.planned.text(argRevision); planned {
	case "", done.Revision:
		out[argRevision] = textValue(done.Revision)
	default:
		// Terraform takes a value that differs from the plan for a broken provider, and would
		// create a new group again. The next plan reads the true value.
		a.diags.AddAttributeWarning(path.Root("name"), fmt.Sprintf("Group %s is at another revision than the plan said", a.written.spec.Name),
			fmt.Sprintf("The plan said %s; the coordinators, which are of another version than then, call it %s. The next plan shows it.", planned, done.Revision))
	}
	out[argComplete] = flagValue(settled(ctx, a.client, a.written.spec, done.Index))
	if a.planned.flag(argWait, true) {
		out[argComplete] = flagValue(true)
	}
	return out
}

// settled reports that the rollout of the stored spec is over; false also when no coordinator
// answers.
func settled(ctx context.Context, cl *client.Client, spec group.Spec, index uint64) bool {
	v, err := cl.Look(ctx, spec.Name)
	return err == nil && client.Settled(v, index)
}

// Read refreshes the state from the stored spec.
func (r *groupResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	before, err := objectOf(req.State.Raw)
	if err != nil {
		addError(&resp.Diagnostics, "State cannot be read", err)
		return
	}
	name := before.text("name")
	cl := r.connection.lookup("Group "+name, &resp.Diagnostics)
	if cl == nil {
		return
	}
	there, err := cl.Group(ctx, name)
	switch {
	case client.KindOf(err) == client.NotFound && err != nil:
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		addError(&resp.Diagnostics, "Group "+name+" cannot be read", err)
		return
	}
	was, _, err := writtenIn(before)
	known := was.spec
	if err != nil || before.text(argRevision) == "" {
		was = written{blocks: map[string]any{}, tree: map[string]any{}} // imported
		known = preserving(there.Spec)
	}
	values, extra, err := was.stored(alone(there.Spec, others(there.Spec, known)))
	if err != nil {
		addError(&resp.Diagnostics, "The stored spec of "+name+" cannot be read", err)
		return
	}
	for k, v := range values {
		before[k] = v
	}
	for k, v := range extra {
		before[k] = v
	}
	before[argID], before[argIndex], before[argDeleting] = textValue(name), numberValue(there.Index), flagValue(deleting(there))
	// The coordinators name the spec's revision, because their version may differ. Coordinators
	// that are too old to name it report the revision of their rollout.
	before[argRevision] = textValue(cmp.Or(there.Revision, there.Status.Target, before.text(argRevision)))
	before[argComplete] = flagValue(settled(ctx, cl, there.Spec, there.Index))
	before[argWait], before[argProtected] = flagValue(before.flag(argWait, true)), flagValue(before.flag(argProtected, false))
	resp.State.Raw = before.value(req.State.Raw)
}

// ImportState takes a group over by its name.
func (r *groupResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), req.ID)...)
}
