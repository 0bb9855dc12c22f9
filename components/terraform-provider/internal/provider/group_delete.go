package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

// deletion is how a group may be destroyed; false: it may not, and why was added.
func deletion(o object, diags *diag.Diagnostics) (client.Deletion, bool) {
	name := o.text("name")
	w, _, err := writtenIn(o)
	switch {
	case err != nil:
		addError(diags, "State cannot be read", err)
		return client.Deletion{}, false
	case o.flag(argProtected, false):
		diags.AddAttributeError(path.Root(argProtected), fmt.Sprintf("Group %s is protected from deletion", name),
			"To destroy it, set deletion_protection = false and apply that first.")
		return client.Deletion{}, false
	case o.flag(argKeep, false):
		return client.Deletion{KeepCVMs: true, Reason: "destroyed by Terraform, keep_cvms is set"}, true
	case w.spec.PreservesDisks() && !o.flag(argDisks, false):
		diags.AddAttributeError(preservedAt(w), fmt.Sprintf("Group %s preserves disks", name),
			"Destroying the group would delete the disks of all its slots, and the spec preserves "+preservedText(w)+". Set one of these and apply it first: delete_disks = true deletes the disks permanently, keep_cvms = true leaves the CVMs on the platform.")
		return client.Deletion{}, false
	}
	return client.Deletion{DeleteDisks: true, Reason: "destroyed by Terraform"}, true
}

// preservedAt is the argument that keeps disks, and preservedText lists the kept ones.
func preservedAt(w written) path.Path {
	if w.spec.PreservedState.Disk != "" {
		return path.Root("preserved_state").AtName("disk")
	}
	return path.Root("instance")
}

func preservedText(w written) string {
	if disk := w.spec.PreservedState.Disk; disk != "" {
		return fmt.Sprintf("the disk %q of each", disk)
	}
	var slots []string
	for _, one := range w.spec.Instances {
		if one.PreservedState.Disk != "" {
			slots = append(slots, group.SlotName(w.spec.Name, one.Ordinal))
		}
	}
	return "those of " + strings.Join(slots, ", ")
}

// losesDisks refuses a deletion with disks of a group whose stored spec preserves some, also
// where Terraform knows nothing of it: a slot's settings may have been written by others.
func losesDisks(stored group.Spec, o object, d client.Deletion, diags *diag.Diagnostics) bool {
	if d.KeepCVMs || o.flag(argDisks, false) || !stored.PreservesDisks() {
		return false
	}
	w := written{spec: stored}
	diags.AddAttributeError(path.Root(argDisks), fmt.Sprintf("Group %s preserves disks", stored.Name),
		"The stored spec preserves "+preservedText(w)+", at another owner's request, and destroying the group would delete them. Set one of these and apply it first: delete_disks = true deletes the disks permanently, keep_cvms = true leaves the CVMs on the platform.")
	return true
}

// planDelete rejects a forbidden destroy while planning, and lists the slots that would go.
func (r *groupResource) planDelete(ctx context.Context, before object, diags *diag.Diagnostics) {
	d, ok := deletion(before, diags)
	cl, err := r.connection.open()
	if !ok || err != nil {
		return
	}
	d.DryRun = true
	name := before.text("name")
	if r.inDocument(ctx, name, diags) {
		return
	}
	if there, err := cl.Group(ctx, name); err == nil && losesDisks(there.Spec, before, d, diags) {
		return
	}
	out, err := cl.DeleteGroup(ctx, name, d)
	if k := client.KindOf(err); err != nil && (k == client.NotFound || k == client.Unavailable || k == client.Timeout) {
		return // it is gone already, or applying will say it
	}
	if err != nil {
		addError(diags, "Group "+name+" cannot be destroyed", err)
		return
	}
	end := "They are deleted with their disks."
	if d.KeepCVMs {
		end = "Their CVMs stay on the platform as they are."
	}
	if before.flag(argDeleting, false) {
		end += " Its deletion has begun already; destroying continues it."
	}
	if len(out.Slots) > 0 {
		diags.AddWarning(fmt.Sprintf("Group %s is taken down: %s", name, strings.Join(out.Slots, ", ")), lines(append([]string{end}, out.Warnings...)...))
	}
}

// Delete takes the group down and waits until nothing of it is left.
func (r *groupResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	before, err := objectOf(req.State.Raw)
	if err != nil {
		addError(&resp.Diagnostics, "State cannot be read", err)
		return
	}
	var t timeouts.Value
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root(argTimeouts), &t)...)
	timeout, more := t.Delete(ctx, defaultTimeout)
	resp.Diagnostics.Append(more...)
	d, ok := deletion(before, &resp.Diagnostics)
	if !ok || resp.Diagnostics.HasError() {
		return
	}
	cl := r.connection.use(&resp.Diagnostics)
	if cl == nil {
		return
	}
	name := before.text("name")
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	there, err := cl.Group(ctx, name)
	was, _, unread := writtenIn(before)
	if err == nil && there.Index != uint64(max(before.number(argIndex), 0)) && (unread != nil || !unchanged(there.Spec, was.spec)) {
		resp.Diagnostics.AddError("The spec of group "+name+" was changed since it was read", "Another writer changed it, perhaps to keep what destroying would lose. Plan again and look at the losses.")
		return
	}
	if err == nil && losesDisks(there.Spec, before, d, &resp.Diagnostics) {
		return
	}
	if err == nil {
		_, err = cl.DeleteGroup(ctx, name, d)
	}
	if err == nil {
		var p progress
		err = cl.WaitGone(ctx, name, p.message(ctx), p.lost(ctx))
	}
	notGone(name, timeout, err, &resp.Diagnostics)
}

// notGone adds why the wait for the end of a group ended; nothing if the group is gone.
func notGone(name string, timeout time.Duration, err error, diags *diag.Diagnostics) {
	switch {
	case err == nil, client.KindOf(err) == client.NotFound:
	case errors.Is(err, context.DeadlineExceeded):
		diags.AddError(fmt.Sprintf("Group %s is not gone after %s", name, timeout),
			fmt.Sprintf("Its deletion continues. Destroy again to keep waiting, give it more time in the timeouts block, or see `cadre rollout plan %s` for each slot's hold.", name))
	case errors.Is(err, context.Canceled):
		diags.AddError(fmt.Sprintf("The wait for the end of group %s has ended", name), "Its deletion continues. Destroy again to keep waiting, or keep the remaining instances: cadre group delete "+name+" --cancel")
	case errors.Is(err, client.ErrDeletionCancelled):
		diags.AddError(fmt.Sprintf("Group %s is not deleted: its deletion was cancelled", name),
			"An operator ran `cadre group delete "+name+" --cancel`. Slots that were gone by then are made again. Ask the operators whether the group is needed before you destroy it again.")
	default:
		addError(diags, "Group "+name+" is not deleted", err)
	}
}
