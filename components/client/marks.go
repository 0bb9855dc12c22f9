package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// MarkKind is what an operator's mark asks for.
type MarkKind string

const (
	// MarkDrain takes a Slot out of service and leaves it alone.
	MarkDrain MarkKind = "drain"
	// MarkProtect begins nothing that disrupts a Slot or costs its disk.
	MarkProtect MarkKind = "protect"
	// MarkExclude leaves a Slot out of rollouts, of healing, or of both.
	MarkExclude MarkKind = "exclude"
	// MarkFreeze begins nothing in a group, or anywhere where the name is empty.
	MarkFreeze MarkKind = "freeze"
)

var markKinds = map[MarkKind]apiv1.MarkKind{
	MarkDrain: apiv1.MarkKind_MARK_KIND_DRAIN, MarkProtect: apiv1.MarkKind_MARK_KIND_PROTECT, MarkFreeze: apiv1.MarkKind_MARK_KIND_FREEZE,
	MarkExclude: apiv1.MarkKind_MARK_KIND_EXCLUDE,
}

// Undo is the verb that takes a mark of the kind back.
func (k MarkKind) Undo() string {
	if k == MarkExclude {
		return "include"
	}
	return "un" + string(k)
}

// SlotMark is a mark that stands. Name is a Slot, or for a freeze a group, empty for all.
type SlotMark struct {
	Kind MarkKind `json:"kind"`
	Name string   `json:"name,omitempty"`
	// From is what an exclusion leaves the Slot out of; empty: of both.
	From   []string  `json:"from,omitempty"`
	Reason string    `json:"reason"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// Until is when it ends by itself, by the clock of the coordinator that answered; zero: when
	// it is taken back.
	Until time.Time `json:"until,omitzero"`
	// LeftSeconds is how much of its time was left at the answer, whoever's clock is right.
	LeftSeconds int64 `json:"left_seconds,omitempty"`
	// Changed is false when the same mark stood already.
	Changed bool `json:"changed,omitempty"`
}

// Mark sets a mark for a time, or until it is taken back when length is 0. One that stands
// gets the new reason and time. Only an exclusion is from something.
func (c *Client) Mark(ctx context.Context, kind MarkKind, name string, length time.Duration, reason string, from ...string) (SlotMark, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	req := &apiv1.SetMarkRequest{Kind: markKinds[kind], Name: name, From: from, Reason: reason}
	if length != 0 {
		req.For = durationpb.New(length)
	}
	r, err := apiv1.NewControlServiceClient(c.conn).SetMark(ctx, req)
	if err != nil {
		return SlotMark{}, c.wrap(string(kind)+" "+orEverything(name), err)
	}
	out := markOf(r.GetMark())
	out.Kind, out.Name, out.Changed = kind, name, r.GetChanged()
	return out, nil
}

// Unmark takes a mark back; changed is false when there was none.
func (c *Client) Unmark(ctx context.Context, kind MarkKind, name string) (changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewControlServiceClient(c.conn).ClearMark(ctx, &apiv1.ClearMarkRequest{Kind: markKinds[kind], Name: name})
	return r.GetChanged(), c.wrap(kind.Undo()+" "+orEverything(name), err)
}

// Marks lists the marks that stand; of all groups when name is empty.
func (c *Client) Marks(ctx context.Context, name string) ([]SlotMark, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewControlServiceClient(c.conn).ListMarks(ctx, &apiv1.ListMarksRequest{Group: name})
	if err != nil {
		return nil, c.wrap("list marks", err)
	}
	out := []SlotMark{}
	for _, m := range r.GetMarks() {
		out = append(out, markOf(m))
	}
	return out, nil
}

func markOf(m *apiv1.Mark) SlotMark {
	out := SlotMark{Name: m.GetName(), From: m.GetFrom(), Reason: m.GetReason(), By: m.GetBy()}
	for kind, wire := range markKinds {
		if wire == m.GetKind() {
			out.Kind = kind
		}
	}
	if m.GetAt() != nil {
		out.At = m.GetAt().AsTime()
	}
	if m.GetUntil() != nil {
		out.Until, out.LeftSeconds = m.GetUntil().AsTime(), m.GetLeft().GetSeconds()
	}
	return out
}

func orEverything(name string) string {
	if name == "" {
		return "everything"
	}
	return name
}
