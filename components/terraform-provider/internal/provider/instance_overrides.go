package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

// An operator's overrides on one slot (docs/guides/control.md) are records of their own, which no group's
// spec names: the block of this resource is one hand more that sets and takes them back.

// slotOverride is a block of the resource, and its override.
type slotOverride struct {
	kind client.OverrideKind
	// said is the block as it is configured or known; null: there is none.
	said types.Object
}

// attributes are the attributes of the block of a kind.
func (k slotOverride) attributes() map[string]attr.Type {
	out := map[string]attr.Type{"reason": types.StringType, "until": types.StringType}
	if k.kind == client.OverrideExclude {
		out["from"] = types.SetType{ElemType: types.StringType}
	}
	return out
}

// sameTime is the permitted difference between the end of an override and the requested end: the
// time without any coordinator does not count.
const sameTime = 2 * time.Minute

func overrideBlock(text string) schema.SingleNestedBlock {
	return schema.SingleNestedBlock{
		MarkdownDescription: text,
		Attributes: map[string]schema.Attribute{
			// Required would refuse resources that have no such block: validate asks for it.
			"reason": schema.StringAttribute{Optional: true, MarkdownDescription: "Reason, which the override shows. A block without it is refused."},
			"until":  schema.StringAttribute{Optional: true, MarkdownDescription: "When it expires, such as `2026-05-04T14:00:00Z`. Default: when the block is taken out. Once it is over, a plan shows the block as missing and refuses to set it again: take it out, or give it more time."},
		},
	}
}

// excludeBlock is the block that also lists the excluded activities.
func excludeBlock(text string) schema.SingleNestedBlock {
	out := overrideBlock(text)
	out.Attributes["from"] = schema.SetAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "The activities that leave the slot out: `rollout`, `healing`. Default: both."}
	return out
}

// overrideAt returns the field of the block of a kind; nil: no such block.
func (m *instance) overrideAt(kind client.OverrideKind) *types.Object {
	switch kind {
	case client.OverrideProtect:
		return &m.Protect
	case client.OverrideDrain:
		return &m.Drain
	case client.OverrideExclude:
		return &m.Exclude
	case client.OverridePause, client.OverrideFreeze, client.OverrideHold: // it is of no slot
	}
	return nil
}

// overrides are the blocks of m. A configuration has either a drain or a protection; an import may
// find both.
func (m instance) overrides() []slotOverride {
	var out []slotOverride
	for _, kind := range []client.OverrideKind{client.OverrideProtect, client.OverrideDrain, client.OverrideExclude} {
		out = append(out, slotOverride{kind, *m.overrideAt(kind)})
	}
	return out
}

// from lists the activities that the block excludes; known is false while they are unknown.
func (k slotOverride) from() (words []string, known bool) {
	set, ok := k.said.Attributes()["from"].(types.Set)
	if !ok {
		return nil, true
	}
	if set.IsUnknown() {
		return nil, false
	}
	for _, one := range set.Elements() {
		word, ok := one.(types.String)
		if !ok || word.IsUnknown() {
			return nil, false
		}
		words = append(words, word.ValueString())
	}
	return words, true
}

// keepsFromRollout: the block surely leaves its slot out of rollouts.
func (k slotOverride) keepsFromRollout() bool {
	words, known := k.from()
	return k.kind == client.OverrideExclude && k.sure() && known && group.ExclusionOf(words).Rollout
}

func (k slotOverride) text(name string) types.String {
	text, ok := k.said.Attributes()[name].(types.String)
	if !ok {
		return types.StringNull()
	}
	return text
}

// until is when the override is to end; zero: when it is taken back, or it is not known yet.
func (k slotOverride) until() (time.Time, error) {
	text := k.text("until").ValueString()
	if text == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, text)
}

// validateOverrides rejects invalid overrides, and a drain that would never finish: the leader
// holds the drain of a protected slot while the protection exists.
func (m instance) validateOverrides(diags *diag.Diagnostics) {
	for _, k := range m.overrides() {
		k.validate(diags)
		if k.keepsFromRollout() && !m.Revision.IsNull() {
			diags.AddAttributeError(path.Root("revision"), "revision and exclude are both set",
				"A slot that is excluded from rollouts stays at the revision that it has. Take one of them out, or exclude it from healing alone.")
		}
		if k.keepsFromRollout() && !m.Pinned.IsNull() {
			diags.AddAttributeError(path.Root("pinned_revision"), "pinned_revision and exclude are both set", "One moves the slot, the other keeps it where it is. Take one of them out, or exclude it from healing alone.")
		}
	}
	if (slotOverride{client.OverrideDrain, m.Drain}).sure() && (slotOverride{client.OverrideProtect, m.Protect}).sure() {
		diags.AddAttributeError(path.Root(string(client.OverrideDrain)), "drain and protect are both set",
			"A protection holds the drain, and the slot would never be drained. Take one of them out: drain takes the slot out of service, and nothing else is done about it meanwhile; protect keeps it in service.")
	}
}

// sure: the block exists. A block that a dynamic block may or may not make has an unknown reason.
func (k slotOverride) sure() bool {
	return !k.said.IsNull() && !k.said.IsUnknown() && !k.text("reason").IsUnknown()
}

// validate rejects invalid overrides.
func (k slotOverride) validate(diags *diag.Diagnostics) {
	if k.said.IsNull() || k.said.IsUnknown() {
		return
	}
	at := path.Root(string(k.kind))
	if reason := k.text("reason"); !reason.IsUnknown() && strings.TrimSpace(reason.ValueString()) == "" {
		diags.AddAttributeError(at.AtName("reason"), "A "+string(k.kind)+" without a reason", "reason: is missing. The override shows it.")
	}
	words, _ := k.from()
	for _, word := range words {
		if word != group.FromRollout && word != group.FromHealing {
			diags.AddAttributeError(at.AtName("from"), "Excluded from an unknown activity", fmt.Sprintf("from: %q: name %s, %s or both, or leave it out for both.", word, group.FromRollout, group.FromHealing))
		}
	}
	if _, err := k.until(); err != nil {
		diags.AddAttributeError(at.AtName("until"), "No time", fmt.Sprintf("until: %q is no time: write it like 2026-05-04T14:00:00Z, or leave it out.", k.text("until").ValueString()))
	}
}

// refuseOver refuses an override that is to be set and has ended already.
func (k slotOverride) refuseOver(slot string, had slotOverride, diags *diag.Diagnostics) {
	until, err := k.until()
	if k.said.IsNull() || k.said.Equal(had.said) || err != nil || until.IsZero() || until.After(time.Now()) {
		return
	}
	diags.AddAttributeError(path.Root(string(k.kind)).AtName("until"), fmt.Sprintf("The %s of slot %s is over", k.kind, slot),
		fmt.Sprintf("until: %s has passed, and the override has expired. Take the block out, or give it more time.", k.text("until").ValueString()))
}

// refuseEnded refuses overrides that the plan would set and that have ended.
func (m instance) refuseEnded(had instance, diags *diag.Diagnostics) {
	before := had.overrides()
	for i, k := range m.overrides() {
		k.refuseOver(m.slot(), before[i], diags)
	}
}

// stands reports whether the stored override equals the block.
func (k slotOverride) stands(found client.Override) bool {
	until, err := k.until()
	from, _ := k.from()
	same := k.kind != client.OverrideExclude || group.ExclusionOf(from) == group.ExclusionOf(found.From)
	return err == nil && same && found.Reason == k.text("reason").ValueString() && sameEnd(endOf(found), until)
}

// endOf is the end of a stored override by this machine's clock, which the configuration uses as
// well.
func endOf(m client.Override) time.Time {
	if m.Until.IsZero() || m.LeftSeconds == 0 {
		return m.Until // the coordinator's version does not report the remaining time
	}
	return time.Now().Add(time.Duration(m.LeftSeconds) * time.Second)
}

func sameEnd(a, b time.Time) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero() && b.IsZero()
	}
	return a.Sub(b).Abs() <= sameTime
}

// known is the block of the present override: null once the override has ended or was removed.
func (k slotOverride) known(active []client.Override, slot string) types.Object {
	if k.said.IsNull() {
		return types.ObjectNull(k.attributes())
	}
	at := k.find(active, slot)
	if at < 0 {
		return types.ObjectNull(k.attributes())
	}
	if k.stands(active[at]) {
		return k.said
	}
	return k.block(active[at])
}

// knownOverrides reads the present overrides of this configuration. It reads no other override.
func (m *instance) knownOverrides(ctx context.Context, cl *client.Client) error {
	var active []client.Override
	if m.marked() {
		var err error
		if active, err = cl.Overrides(ctx, m.Group.ValueString()); err != nil {
			return err
		}
	}
	for _, k := range m.overrides() {
		*m.overrideAt(k.kind) = k.known(active, m.slot())
	}
	return nil
}

// marked: the resource says something of the slot's overrides.
func (m instance) marked() bool {
	return slices.ContainsFunc(m.overrides(), func(k slotOverride) bool { return !k.said.IsNull() })
}

func (k slotOverride) find(active []client.Override, slot string) int {
	return slices.IndexFunc(active, func(m client.Override) bool { return m.Kind == k.kind && m.Name == slot })
}

// block returns the block of a present override, from any owner.
func (k slotOverride) block(m client.Override) types.Object {
	values := map[string]attr.Value{"reason": types.StringValue(m.Reason), "until": types.StringNull()}
	if end := endOf(m); !end.IsZero() {
		values["until"] = types.StringValue(end.UTC().Format(time.RFC3339))
	}
	if k.kind == client.OverrideExclude {
		var words []attr.Value
		for _, word := range m.From {
			words = append(words, types.StringValue(word))
		}
		values["from"] = types.SetNull(types.StringType)
		if len(words) > 0 {
			values["from"] = types.SetValueMust(types.StringType, words)
		}
	}
	return types.ObjectValueMust(k.attributes(), values)
}

// clearOverride takes back the overrides that this resource had set and sets no more, in left too.
func (r *instanceResource) clearOverride(ctx context.Context, cl *client.Client, want, had instance, left *instance, lost func(error)) error {
	now := want.overrides()
	for i, k := range had.overrides() {
		if k.said.IsNull() || !now[i].said.IsNull() {
			continue
		}
		err := client.Poll(ctx, func(ctx context.Context) (bool, error) {
			_, err := cl.ClearOverride(ctx, k.kind, had.slot())
			if client.KindOf(err) == client.NotFound {
				err = nil // the slot is gone, and its override with it
			}
			return err == nil, err
		}, lost)
		if err != nil {
			return err
		}
		*left.overrideAt(k.kind) = types.ObjectNull(k.attributes())
	}
	return nil
}

// override sets the configured override of the slot, unless it exists, and waits for the drain
// where configured. left records the override that was set.
func (r *instanceResource) override(ctx context.Context, cl *client.Client, want instance, left *instance, lost func(error)) error {
	for _, k := range want.overrides() {
		if k.said.IsNull() {
			continue
		}
		err := client.Poll(ctx, func(ctx context.Context) (bool, error) {
			err := k.set(ctx, cl, want, left)
			return err == nil, err
		}, lost)
		if err != nil {
			return err
		}
	}
	if want.Drain.IsNull() {
		return nil
	}
	return drained(ctx, cl, want.slot(), lost)
}

func (k slotOverride) set(ctx context.Context, cl *client.Client, want instance, left *instance) error {
	slot := want.slot()
	active, err := cl.Overrides(ctx, want.Group.ValueString())
	if err != nil {
		return err
	}
	at := k.find(active, slot)
	if at >= 0 && k.stands(active[at]) {
		return nil
	}
	until, err := k.until()
	if err != nil {
		return err
	}
	var length time.Duration
	if !until.IsZero() {
		if length = time.Until(until); length <= 0 {
			return fmt.Errorf("%s.until: %s has passed", k.kind, until.Format(time.RFC3339))
		}
	}
	from, _ := k.from()
	_, err = cl.SetOverride(ctx, k.kind, slot, length, k.text("reason").ValueString(), from...)
	// A new resource that fails removes its override. An override that existed before, with another
	// reason, belongs to another owner.
	if mayStand(err) && (at < 0 || !left.ID.IsNull()) {
		*left.overrideAt(k.kind) = k.said
	}
	return err
}

// drained waits until the slot is out of service, and reports the hold at the timeout.
func drained(ctx context.Context, cl *client.Client, slot string, lost func(error)) error {
	why := "the leader has not seen the drain yet"
	err := client.Poll(ctx, func(ctx context.Context) (bool, error) {
		i, err := cl.Instance(ctx, slot)
		switch {
		case err != nil:
			return false, err
		case i.Status.Drain == nil:
			return false, nil
		case i.Status.State == client.StateDrained:
			return true, nil
		case len(i.Status.Holds) > 0:
			why = i.Status.Holds[0].Predicate + ": " + i.Status.Holds[0].Message
		default:
			why = strings.TrimSpace(string(i.Status.State) + ": " + i.Status.Reason)
		}
		return false, nil
	}, lost)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it is not drained in the time of the timeouts block (%s); the drain continues: %w", why, err)
	}
	return err
}
