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
)

// An operator's marks on one slot (docs/control.md) are records of their own, which no group's
// spec names: the block of this resource is one hand more that sets and takes them back.

// slotMark is a block of the resource, and the mark that it stands for.
type slotMark struct {
	kind client.MarkKind
	// said is the block as it is configured or known; null: there is none.
	said types.Object
}

var markAttributes = map[string]attr.Type{"reason": types.StringType, "until": types.StringType}

// sameTime is how far the end of a mark may be from the one that was asked for: coordinators
// count it from their own clock.
const sameTime = 2 * time.Minute

func markBlock(text string) schema.SingleNestedBlock {
	return schema.SingleNestedBlock{
		MarkdownDescription: text,
		Attributes: map[string]schema.Attribute{
			// Required would refuse resources that have no such block: validate asks for it.
			"reason": schema.StringAttribute{Optional: true, MarkdownDescription: "Why, for whoever finds it so. A block without it is refused."},
			"until":  schema.StringAttribute{Optional: true, MarkdownDescription: "When it ends by itself, such as `2026-05-04T14:00:00Z`. Default: when the block is taken out. Once it is over, a plan shows the block as missing and refuses to set it again: take it out, or give it more time."},
		},
	}
}

// setMark puts the block of a kind, or takes it out.
func (m *instance) setMark(kind client.MarkKind, said types.Object) {
	if kind == client.MarkDrain {
		m.Drain = said
		return
	}
	m.Protect = said
}

// marks are the blocks of m. A configuration has one of them at most; an import may find both.
func (m instance) marks() []slotMark {
	return []slotMark{{client.MarkProtect, m.Protect}, {client.MarkDrain, m.Drain}}
}

func (k slotMark) text(name string) types.String {
	text, ok := k.said.Attributes()[name].(types.String)
	if !ok {
		return types.StringNull()
	}
	return text
}

// until is when the mark is to end; zero: when it is taken back, or it is not known yet.
func (k slotMark) until() (time.Time, error) {
	text := k.text("until").ValueString()
	if text == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, text)
}

// validateMarks refuses what can be no mark, and a drain that would be waited for in vain: the
// leader holds the drain of a protected slot for as long as the protection stands.
func (m instance) validateMarks(diags *diag.Diagnostics) {
	both := true
	for _, k := range m.marks() {
		k.validate(diags)
		both = both && k.sure()
	}
	if both {
		diags.AddAttributeError(path.Root(string(client.MarkDrain)), "drain and protect are both set",
			"A protection holds the drain, and the slot would never be drained. Take one of them out: drain takes the slot out of service, and nothing else is done about it meanwhile; protect keeps it in service.")
	}
}

// sure: the block is there. One that a dynamic block may make, or not, comes with its reason unknown.
func (k slotMark) sure() bool {
	return !k.said.IsNull() && !k.said.IsUnknown() && !k.text("reason").IsUnknown()
}

// validate refuses what can be no mark.
func (k slotMark) validate(diags *diag.Diagnostics) {
	if k.said.IsNull() || k.said.IsUnknown() {
		return
	}
	at := path.Root(string(k.kind))
	if reason := k.text("reason"); !reason.IsUnknown() && strings.TrimSpace(reason.ValueString()) == "" {
		diags.AddAttributeError(at.AtName("reason"), "A "+string(k.kind)+" without a reason", "reason: is missing. Say why, for whoever finds the slot so.")
	}
	if _, err := k.until(); err != nil {
		diags.AddAttributeError(at.AtName("until"), "No time", fmt.Sprintf("until: %q is no time: write it like 2026-05-04T14:00:00Z, or leave it out.", k.text("until").ValueString()))
	}
}

// refuseOver refuses a mark that is to be set and has ended already.
func (k slotMark) refuseOver(slot string, had slotMark, diags *diag.Diagnostics) {
	until, err := k.until()
	if k.said.IsNull() || k.said.Equal(had.said) || err != nil || until.IsZero() || until.After(time.Now()) {
		return
	}
	diags.AddAttributeError(path.Root(string(k.kind)).AtName("until"), fmt.Sprintf("The %s of slot %s is over", k.kind, slot),
		fmt.Sprintf("until: %s has passed, and the mark is gone by itself. Take the block out, or give it more time.", k.text("until").ValueString()))
}

// refuseOverMarks refuses marks that the plan would set and that have ended.
func (m instance) refuseOverMarks(had instance, diags *diag.Diagnostics) {
	before := had.marks()
	for i, k := range m.marks() {
		k.refuseOver(m.slot(), before[i], diags)
	}
}

// stands reports whether the mark is the one that is said.
func (k slotMark) stands(found client.SlotMark) bool {
	until, err := k.until()
	return err == nil && found.Reason == k.text("reason").ValueString() && sameEnd(found.Until, until)
}

func sameEnd(a, b time.Time) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero() && b.IsZero()
	}
	return a.Sub(b).Abs() <= sameTime
}

// known is the block as the mark stands now: one that ended, or was taken back, is none.
func (k slotMark) known(standing []client.SlotMark, slot string) types.Object {
	if k.said.IsNull() {
		return types.ObjectNull(markAttributes)
	}
	at := k.find(standing, slot)
	if at < 0 {
		return types.ObjectNull(markAttributes)
	}
	if k.stands(standing[at]) {
		return k.said
	}
	return blockOf(standing[at])
}

// knownMarks takes over how the marks stand that are said here; nobody is asked about others.
func (m *instance) knownMarks(ctx context.Context, cl *client.Client) error {
	var standing []client.SlotMark
	if m.marked() {
		var err error
		if standing, err = cl.Marks(ctx, m.Group.ValueString()); err != nil {
			return err
		}
	}
	m.Protect = slotMark{client.MarkProtect, m.Protect}.known(standing, m.slot())
	m.Drain = slotMark{client.MarkDrain, m.Drain}.known(standing, m.slot())
	return nil
}

// marked: the resource says something of the slot's marks.
func (m instance) marked() bool { return !m.Drain.IsNull() || !m.Protect.IsNull() }

func (k slotMark) find(standing []client.SlotMark, slot string) int {
	return slices.IndexFunc(standing, func(m client.SlotMark) bool { return m.Kind == k.kind && m.Name == slot })
}

func blockOf(m client.SlotMark) types.Object {
	until := types.StringNull()
	if !m.Until.IsZero() {
		until = types.StringValue(m.Until.UTC().Format(time.RFC3339))
	}
	return types.ObjectValueMust(markAttributes, map[string]attr.Value{"reason": types.StringValue(m.Reason), "until": until})
}

// unmark takes back the marks that this resource had set and sets no more, in left too.
func (r *instanceResource) unmark(ctx context.Context, cl *client.Client, want, had instance, left *instance, lost func(error)) error {
	now := want.marks()
	for i, k := range had.marks() {
		if k.said.IsNull() || !now[i].said.IsNull() {
			continue
		}
		err := client.Poll(ctx, func(ctx context.Context) (bool, error) {
			_, err := cl.Unmark(ctx, k.kind, had.slot())
			return err == nil, err
		}, lost)
		if err != nil {
			return err
		}
		left.setMark(k.kind, types.ObjectNull(markAttributes))
	}
	return nil
}

// mark sets what is said of the slot, unless it stands, and waits until it is drained where
// that is said. left gets what it set.
func (r *instanceResource) mark(ctx context.Context, cl *client.Client, want instance, left *instance, lost func(error)) error {
	for _, k := range want.marks() {
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

func (k slotMark) set(ctx context.Context, cl *client.Client, want instance, left *instance) error {
	slot := want.slot()
	standing, err := cl.Marks(ctx, want.Group.ValueString())
	if err != nil {
		return err
	}
	at := k.find(standing, slot)
	if at >= 0 && k.stands(standing[at]) {
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
	_, err = cl.Mark(ctx, k.kind, slot, length, k.text("reason").ValueString())
	// A new resource that fails takes back what it set. A mark that stood before, for another
	// reason, was set by another hand that still means it.
	if mayStand(err) && (at < 0 || !left.ID.IsNull()) {
		left.setMark(k.kind, k.said)
	}
	return err
}

// drained waits until the slot is out of service, and says what holds that when the time is over.
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
		return fmt.Errorf("it is not drained in the time of the timeouts block (%s); it goes on: %w", why, err)
	}
	return err
}
