package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"cadre.dev/client"
)

// deletion is how the deployment may be destroyed; false: it may not, and the reason was added. d is its state in the
// cluster. The stored specs count: a group that was edited alone may preserve a disk of which no version knows.
func (m deploymentModel) deletion(ctx context.Context, cl *client.Client, d client.DeploymentState, diags *diag.Diagnostics) (client.Deletion, bool) {
	name := m.ID.ValueString()
	switch {
	case m.Protected.ValueBool():
		diags.AddAttributeError(path.Root(argProtected), fmt.Sprintf("Deployment %s is protected from deletion", name), "To destroy it, set deletion_protection = false and apply that first.")
		return client.Deletion{}, false
	case m.Keep.ValueBool():
		return client.Deletion{KeepCVMs: true, Reason: "destroyed by Terraform, keep_cvms is set"}, true
	case m.Disks.ValueBool():
		return client.Deletion{DeleteDisks: true, Reason: "destroyed by Terraform, delete_disks is set"}, true
	}
	for _, spec := range d.Document.Groups {
		stored, err := cl.Group(ctx, spec.Name)
		if err != nil && client.KindOf(err) != client.NotFound {
			addError(diags, "Group "+spec.Name+" cannot be read", err)
			return client.Deletion{}, false
		}
		if spec.PreservesDisks() && err == nil || stored.Spec.PreservesDisks() {
			diags.AddAttributeError(path.Root("document"), fmt.Sprintf("Group %s preserves disks", spec.Name),
				"Its stored spec or the deployment's version preserves disks, and destroying the deployment would delete those of all its slots. Set one of these and apply it first: delete_disks = true deletes the disks permanently, keep_cvms = true leaves the CVMs on the platform.")
			return client.Deletion{}, false
		}
	}
	return client.Deletion{DeleteDisks: true, Reason: "destroyed by Terraform"}, true
}

// planDelete rejects a forbidden destroy while planning, and lists the slots that would go.
func (r *deploymentResource) planDelete(ctx context.Context, m deploymentModel, diags *diag.Diagnostics) {
	cl, err := r.connection.open()
	if err != nil {
		return
	}
	name := m.ID.ValueString()
	present, err := cl.Deployment(ctx, name, 0)
	if err != nil && client.KindOf(err) == client.NotFound {
		if left, err := m.left(ctx, cl); err == nil && len(left) > 0 {
			diags.AddWarning("The deletion of deployment "+name+" has begun", "Destroying waits until its groups are gone: "+strings.Join(left, ", ")+".")
		}
	}
	if err != nil {
		return // it is gone already, or the apply reports the error
	}
	d, ok := m.deletion(ctx, cl, present, diags)
	if !ok {
		return
	}
	d.DryRun = true
	out, err := cl.DeleteDeployment(ctx, name, present.Present().Number, d)
	if err != nil {
		addError(diags, "Deployment "+name+" cannot be destroyed", err)
		return
	}
	diags.AddWarning(fmt.Sprintf("Deployment %s is taken down: %s", name, strings.Join(out.Slots, ", ")), lines(append([]string{"Its groups: " + strings.Join(out.Groups, ", ") + "."}, out.Warnings...)...))
}

// Delete asks for the deletion of all groups, and waits until none is left.
func (r *deploymentResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m deploymentModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	timeout, more := m.Timeouts.Delete(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	cl := r.connection.use(&resp.Diagnostics)
	if cl == nil || resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	name := m.ID.ValueString()
	present, err := cl.Deployment(ctx, name, 0)
	switch {
	case err != nil && client.KindOf(err) == client.NotFound:
		left, err := m.left(ctx, cl)
		if err != nil {
			addError(&resp.Diagnostics, "The groups of deployment "+name+" cannot be read", err)
			return
		}
		untilGone(ctx, cl, left, timeout, &resp.Diagnostics)
		return
	case err != nil:
		addError(&resp.Diagnostics, "Deployment "+name+" cannot be read", err)
		return
	case int64(present.Present().Number) != m.Version.ValueInt64():
		resp.Diagnostics.AddError("Deployment "+name+" was changed since it was read", "Another writer changed it, perhaps to keep the disks. Plan again and look at the losses.")
		return
	}
	d, ok := m.deletion(ctx, cl, present, &resp.Diagnostics)
	if !ok {
		return
	}
	out, err := cl.DeleteDeployment(ctx, name, present.Present().Number, d)
	if err != nil {
		addError(&resp.Diagnostics, "Deployment "+name+" is not destroyed", err)
		return
	}
	untilGone(ctx, cl, out.Groups, timeout, &resp.Diagnostics)
}

// left are the groups of the state that are being deleted. The deletion of a deployment removes its record at once, and
// the leader then takes its groups down. A read refreshes the indexes alone, so they also have a group that another client
// added; a state of an older provider has the groups only.
func (m deploymentModel) left(ctx context.Context, cl *client.Client) (names []string, err error) {
	known := m.Indexes
	if known.IsNull() {
		known = m.Groups
	}
	for _, name := range slices.Sorted(maps.Keys(known.Elements())) {
		g, err := cl.Group(ctx, name)
		if err != nil && client.KindOf(err) != client.NotFound {
			return nil, err
		}
		if err == nil && deleting(g) {
			names = append(names, name)
		}
	}
	return names, nil
}

// goes reports whether the deployment of the state is gone, and groups of it are being deleted.
func (m deploymentModel) goes(ctx context.Context, cl *client.Client) bool {
	if m.ID.IsNull() {
		return false
	}
	if _, err := cl.Deployment(ctx, m.ID.ValueString(), 0); err == nil || client.KindOf(err) != client.NotFound {
		return false
	}
	left, err := m.left(ctx, cl)
	return err == nil && len(left) > 0
}

// untilGone waits until the groups are gone. An error keeps the deployment in the state, so that the next destroy waits
// again.
func untilGone(ctx context.Context, cl *client.Client, groups []string, timeout time.Duration, diags *diag.Diagnostics) {
	for _, group := range groups {
		var p progress
		notGone(group, timeout, cl.WaitGone(ctx, group, p.message(ctx), p.lost(ctx)), diags)
		if ctx.Err() != nil {
			return
		}
	}
}
