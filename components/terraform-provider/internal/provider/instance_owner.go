package provider

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"cadre.dev/core/group"
)

// One slot has one cadre_instance. Planning detects two of one configuration. Across two
// configurations the second one finds settings that it did not write.

// ownerKey is the private state with the resource's own name: Terraform does not give a provider
// the address of the resource.
const ownerKey = "owner"

// claim notes that the resource of a plan is about the slot, and refuses a second one.
func (r *instanceResource) claim(ctx context.Context, want instance, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if r.connection == nil {
		return
	}
	kept, more := req.Private.GetKey(ctx, ownerKey)
	resp.Diagnostics.Append(more...)
	var owner string
	if json.Unmarshal(kept, &owner) != nil || owner == "" {
		owner = rand.Text()
	}
	text, err := json.Marshal(owner)
	if err != nil {
		resp.Diagnostics.AddError("Slot "+want.slot()+" cannot be planned", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, ownerKey, text)...)
	if !r.connection.claim(want.slot(), owner) {
		resp.Diagnostics.AddAttributeError(path.Root("ordinal"), "Slot "+want.slot()+" has two resources", fmt.Sprintf(
			"Another cadre_instance is of group %s and ordinal %d as well, and each would undo what the other sets. Keep one of them, with the arguments of both.", want.Group.ValueString(), want.Ordinal.ValueInt64()))
	}
}

// claim records the owner of a slot, and reports whether no other resource owned it.
func (c *connection) claim(slot, owner string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners[slot] == "" {
		c.owners[slot] = owner
	}
	return c.owners[slot] == owner
}

// takenError is the reason why a new resource does not overwrite the stored settings of its slot.
type takenError struct {
	slot string
	// settings are the settings of another owner, by name.
	settings []string
}

func (e *takenError) Error() string {
	return fmt.Sprintf("The group's spec has %s of it with other values, and this resource did not write them: an instance block of its cadre_group, another configuration or a person did. "+
		"Say them in one place. To take the slot over as it is: terraform import ADDRESS %s, and apply again.", strings.Join(e.settings, ", "), e.slot)
}

// replacedBy are the settings that are stored and would be other ones. A disk that stays preserved
// when its resource is destroyed is not among them.
func replacedBy(stored, now group.InstanceSettings) []string {
	var out []string
	for _, one := range []struct {
		name  string
		other bool
	}{
		{"metadata", len(stored.Metadata) > 0 && !maps.Equal(stored.Metadata, now.Metadata)},
		{"env", len(stored.Env) > 0 && !maps.Equal(stored.Env, now.Env)},
		{"instance_type", stored.InstanceType != "" && stored.InstanceType != now.InstanceType},
		{"exclude_from_rollout", stored.ExcludeFromRollout && !now.ExcludeFromRollout},
		{"exclude_from_healing", stored.ExcludeFromHealing && !now.ExcludeFromHealing},
		{"pinned_revision", stored.PinnedRevision != "" && stored.PinnedRevision != now.PinnedRevision},
	} {
		if one.other {
			out = append(out, one.name)
		}
	}
	return out
}
