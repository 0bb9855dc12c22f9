package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

// ValidateConfig rejects contradicting settings: a slot that stays and goes.
func (r *instanceResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m instance
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if name, ok := m.PreservedState.Attributes()["disk"].(types.String); ok && !name.IsUnknown() {
		if problem := group.NameProblem(name.ValueString()); problem != "" {
			resp.Diagnostics.AddAttributeError(path.Root("preserved_state").AtName("disk"), "preserved_state names no disk",
				fmt.Sprintf("disk: %q %s. Name the disk that the slot keeps, for example \"data\", or take the block out.", name.ValueString(), problem))
		}
	}
	if m.Excluded.ValueBool() && !m.Revision.IsNull() {
		resp.Diagnostics.AddAttributeError(path.Root("revision"), "revision and exclude_from_rollout are both set",
			"A slot that is excluded from rollouts stays at the revision that it has. Take one of them out.")
	}
	m.validatePin(&resp.Diagnostics)
	m.validateTexts(&resp.Diagnostics)
	m.validateOverrides(&resp.Diagnostics)
}

// validatePin rejects a pin that is no revision, and a pin with contradicting settings.
func (m instance) validatePin(diags *diag.Diagnostics) {
	at := path.Root("pinned_revision")
	if m.Pinned.IsNull() {
		return
	}
	if problem := group.RevisionProblem(m.Pinned.ValueString()); problem != "" && !m.Pinned.IsUnknown() {
		diags.AddAttributeError(at, "pinned_revision is no revision", "pinned_revision: "+problem)
	}
	if !m.Revision.IsNull() {
		diags.AddAttributeError(at, "pinned_revision and revision are both set", "A slot that is pinned does not go to its group's revision. Take one of them out.")
	}
	if m.Excluded.ValueBool() {
		diags.AddAttributeError(at, "pinned_revision and exclude_from_rollout are both set", "One moves the slot, the other keeps it where it is. Take one of them out.")
	}
}

// settings merges the resource's settings over the stored ones. An argument that is not set, and
// was not set before, belongs to another owner.
func (m instance) settings(ctx context.Context, had instance, stored group.InstanceSettings) (group.InstanceSettings, error) {
	var err error
	if !m.Metadata.IsNull() || !had.Metadata.IsNull() {
		stored.Metadata, err = textsOf(ctx, "metadata", m.Metadata)
	}
	if !m.Env.IsNull() || !had.Env.IsNull() {
		var bad error
		stored.Env, bad = textsOf(ctx, "env", m.Env)
		err = errors.Join(err, bad)
	}
	if !m.InstanceType.IsNull() || !had.InstanceType.IsNull() {
		stored.InstanceType = m.InstanceType.ValueString()
	}
	if !m.Excluded.IsNull() || !had.Excluded.IsNull() {
		stored.ExcludeFromRollout = m.Excluded.ValueBool()
	}
	if !m.Unhealed.IsNull() || !had.Unhealed.IsNull() {
		stored.ExcludeFromHealing = m.Unhealed.ValueBool()
	}
	if !m.Pinned.IsNull() || !had.Pinned.IsNull() {
		stored.PinnedRevision = m.Pinned.ValueString()
	}
	if !m.PreservedState.IsNull() || !had.PreservedState.IsNull() {
		stored.PreservedState.Disk = m.disk()
	}
	return stored, err
}

// textsOf is a map of the configuration; empty where it is null.
func textsOf(ctx context.Context, name string, m types.Map) (map[string]string, error) {
	out := map[string]string{}
	if m.IsNull() {
		return out, nil
	}
	if d := m.ElementsAs(ctx, &out, false); d.HasError() {
		return nil, errors.New(name + ": " + d[0].Detail())
	}
	return out, nil
}

// sets reports whether the resource says anything of the slot's own settings.
func (m instance) sets() bool {
	return !m.Metadata.IsNull() || !m.Env.IsNull() || !m.InstanceType.IsNull() || !m.Excluded.IsNull() || !m.Unhealed.IsNull() || !m.Pinned.IsNull() || !m.PreservedState.IsNull()
}

// disk is the name that the resource preserves the slot's disk by, "" for none.
func (m instance) disk() string {
	name, _ := m.PreservedState.Attributes()["disk"].(types.String)
	return name.ValueString()
}

// preserved is the block of that disk; "" is a block without one, which shows as a change.
func preserved(disk string) types.Object {
	name := types.StringNull()
	if disk != "" {
		name = types.StringValue(disk)
	}
	return types.ObjectValueMust(map[string]attr.Type{"disk": types.StringType}, map[string]attr.Value{"disk": name})
}

// known reads the stored settings of the slot for the arguments that are set.
func (m *instance) known(ctx context.Context, stored group.InstanceSettings) diag.Diagnostics {
	if !m.Excluded.IsNull() {
		m.Excluded = types.BoolValue(stored.ExcludeFromRollout)
	}
	if !m.Unhealed.IsNull() {
		m.Unhealed = types.BoolValue(stored.ExcludeFromHealing)
	}
	if !m.InstanceType.IsNull() {
		m.InstanceType = types.StringValue(stored.InstanceType)
	}
	if !m.Pinned.IsNull() {
		m.Pinned = types.StringValue(stored.PinnedRevision)
	}
	if !m.PreservedState.IsNull() {
		m.PreservedState = preserved(stored.PreservedState.Disk)
	}
	var diags diag.Diagnostics
	keep := func(said *types.Map, there map[string]string) {
		if said.IsNull() {
			return
		}
		if there == nil {
			there = map[string]string{}
		}
		var more diag.Diagnostics
		*said, more = types.MapValueFrom(ctx, types.StringType, there)
		diags.Append(more...)
	}
	keep(&m.Metadata, stored.Metadata)
	keep(&m.Env, stored.Env)
	return diags
}

// settleTries bounds how often a write is tried again that another one came before.
const settleTries = 5

// settle writes the slot's own settings into the spec of its group, unless they are stored already,
// and records the written ones in left. Kind NotFound: the slot does not exist.
func (r *instanceResource) settle(ctx context.Context, cl *client.Client, want, had instance, left *instance, lost func(error)) error {
	if !want.sets() && !had.sets() {
		return nil
	}
	tries := 0
	return client.Poll(ctx, func(ctx context.Context) (bool, error) {
		if _, err := cl.Instance(ctx, want.slot()); err != nil {
			return false, err
		}
		err := r.write(ctx, cl, want, had, left)
		tries++
		// Another client wrote the spec in between, so it is read again. The tries are bounded, so
		// that a client that writes all the time is reported before the timeout.
		again := client.KindOf(err) == client.Conflict && tries < settleTries
		return !again, unless(again, err)
	}, lost)
}

func unless(passed bool, err error) error {
	if passed {
		return nil
	}
	return err
}

// write changes the settings of one slot in the stored spec, and nothing else. In a group of a deployment it changes nothing:
// the document has the settings.
func (r *instanceResource) write(ctx context.Context, cl *client.Client, want, had instance, left *instance) error {
	g, err := cl.Group(ctx, want.Group.ValueString())
	if err != nil {
		return err
	}
	spec, before, now, err := want.with(ctx, had, g)
	if taken := replacedBy(before, now); err == nil && len(taken) > 0 && had.ID.IsNull() {
		return &takenError{want.slot(), taken}
	}
	if err != nil || equal(before, now) {
		return err
	}
	switch of, err := deploymentOf(ctx, cl, spec.Name); {
	case err != nil:
		return err
	case of != "" && want.sets():
		return want.settingsInDocument(of)
	case of != "":
		return nil // the document keeps the settings that this resource gives up
	}
	_, err = cl.ApplyGroupWith(ctx, spec, client.ApplyOptions{ExpectedIndex: g.Index})
	if mayStand(err) {
		left.wrote(want, before, now)
	}
	return err
}

// mayStand: with that answer the request was carried out, or its effect is unknown.
func mayStand(err error) bool {
	if err == nil {
		return true
	}
	switch client.KindOf(err) {
	case client.Invalid, client.Denied, client.NotFound, client.Conflict, client.Untrusted:
		return false
	case client.Internal, client.Unavailable, client.Timeout:
	}
	return true
}

// wrote records the settings of want that were written. A setting that was equal before belongs to
// another owner. A setting that want removes stays recorded until its step was seen.
func (m *instance) wrote(want instance, before, now group.InstanceSettings) {
	if !want.Metadata.IsNull() && !maps.Equal(before.Metadata, now.Metadata) {
		m.Metadata = want.Metadata
	}
	if !want.Env.IsNull() && !maps.Equal(before.Env, now.Env) {
		m.Env = want.Env
	}
	if !want.InstanceType.IsNull() && before.InstanceType != now.InstanceType {
		m.InstanceType = want.InstanceType
	}
	if !want.Excluded.IsNull() && before.ExcludeFromRollout != now.ExcludeFromRollout {
		m.Excluded = want.Excluded
	}
	if !want.Unhealed.IsNull() && before.ExcludeFromHealing != now.ExcludeFromHealing {
		m.Unhealed = want.Unhealed
	}
	if !want.Pinned.IsNull() && before.PinnedRevision != now.PinnedRevision {
		m.Pinned = want.Pinned
	}
	if !want.PreservedState.IsNull() && before.PreservedState != now.PreservedState {
		m.PreservedState = want.PreservedState
	}
}

func equal(a, b group.InstanceSettings) bool {
	return a.Ordinal == b.Ordinal && a.ExcludeFromRollout == b.ExcludeFromRollout && a.ExcludeFromHealing == b.ExcludeFromHealing &&
		a.InstanceType == b.InstanceType && a.PinnedRevision == b.PinnedRevision && a.PreservedState == b.PreservedState && maps.Equal(a.Metadata, b.Metadata) && maps.Equal(a.Env, b.Env)
}

// deleteTime bounds how long is tried to take the settings of a slot back.
const deleteTime = 5 * time.Minute

// Delete takes back the settings and overrides that the resource gave the slot, but the preservation of its
// disk, and forgets it: the slot is the group's. A disk is given up by its own word, not
// because it goes in the same run as its group.
func (r *instanceResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var had instance
	resp.Diagnostics.Append(req.State.Get(ctx, &had)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if disk := had.disk(); disk != "" {
		resp.Diagnostics.AddWarning("The disk of slot "+had.slot()+" stays preserved", fmt.Sprintf(
			"The group's spec still names it (%s). To give it up, take preserved_state out of this resource and apply before you take the resource out, or set delete_disks in the group.", disk))
	}
	if cl := r.connection.use(&resp.Diagnostics); cl != nil {
		r.takeBack(ctx, cl, had, &resp.Diagnostics)
	}
}

// takeBack removes the settings and overrides that the resource gave its slot; a disk stays preserved.
func (r *instanceResource) takeBack(ctx context.Context, cl *client.Client, had instance, diags *diag.Diagnostics) {
	had.ID, had.PreservedState = types.StringValue(had.slot()), types.ObjectNull(nil)
	if !had.sets() && !had.marked() {
		return
	}
	turn := r.connection.turn(had.Group.ValueString())
	if err := turn.take(ctx); err != nil {
		addError(diags, "Settings of slot "+had.slot()+" are not taken back", err)
		return
	}
	defer turn.pass()
	ctx, cancel := context.WithTimeout(ctx, deleteTime)
	defer cancel()
	gone, left := instance{Group: had.Group, Ordinal: had.Ordinal}, had // all else of gone is null
	var p progress
	if err := r.clearOverride(ctx, cl, gone, had, &left, p.lost(ctx)); err != nil && client.KindOf(err) != client.NotFound {
		addError(diags, "Overrides of slot "+had.slot()+" are not taken back", err)
	}
	g, err := cl.Group(ctx, had.Group.ValueString())
	if err == nil && deleting(g) {
		return // they go with the group
	}
	if err == nil {
		err = r.settle(ctx, cl, gone, had, &left, p.lost(ctx))
	}
	if err != nil && client.KindOf(err) != client.NotFound {
		addError(diags, "Settings of slot "+had.slot()+" are not taken back", err)
	}
}
