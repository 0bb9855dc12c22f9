package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// OverrideKind is what an operator's override asks for.
type OverrideKind string

const (
	// OverrideDrain takes a Slot out of service and leaves it alone.
	OverrideDrain OverrideKind = "drain"
	// OverrideProtect begins nothing that disrupts a Slot or costs its disk.
	OverrideProtect OverrideKind = "protect"
	// OverrideExclude leaves a Slot out of rollouts, of healing, or of both.
	OverrideExclude OverrideKind = "exclude"
	// OverridePause begins no step of a group's rollout and no removal.
	OverridePause OverrideKind = "pause"
	// OverrideFreeze begins nothing in a group, or anywhere where the name is empty.
	OverrideFreeze OverrideKind = "freeze"
)

var overrideKinds = map[OverrideKind]apiv1.OverrideKind{
	OverrideDrain: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, OverrideProtect: apiv1.OverrideKind_OVERRIDE_KIND_PROTECT, OverrideFreeze: apiv1.OverrideKind_OVERRIDE_KIND_FREEZE,
	OverridePause: apiv1.OverrideKind_OVERRIDE_KIND_PAUSE, OverrideExclude: apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE,
}

// Undo is the verb that takes an override of the kind back.
func (k OverrideKind) Undo() string {
	switch k {
	case OverrideExclude:
		return "include"
	case OverridePause:
		return "resume"
	case OverrideDrain, OverrideProtect, OverrideFreeze:
	}
	return "un" + string(k)
}

// Override is an override that stands. Name is a Slot, for a pause a group, for a freeze a group or empty for all.
type Override struct {
	Kind OverrideKind `json:"kind"`
	Name string       `json:"name,omitempty"`
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
	// Changed is false when the same override stood already.
	Changed bool `json:"changed,omitempty"`
}

// SetOverride sets an override for a time, or until it is taken back when length is 0. One that stands
// gets the new reason and time. Only an exclusion is from something.
func (c *Client) SetOverride(ctx context.Context, kind OverrideKind, name string, length time.Duration, reason string, from ...string) (Override, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	req := &apiv1.SetOverrideRequest{Kind: overrideKinds[kind], Name: name, From: from, Reason: reason}
	if length != 0 {
		req.For = durationpb.New(length)
	}
	r, err := apiv1.NewControlServiceClient(c.conn).SetOverride(ctx, req)
	if err != nil {
		return Override{}, c.wrap(string(kind)+" "+orEverything(name), err)
	}
	out := overrideOf(r.GetOverride())
	out.Kind, out.Name, out.Changed = kind, name, r.GetChanged()
	return out, nil
}

// ClearOverride takes an override back; changed is false when there was none.
func (c *Client) ClearOverride(ctx context.Context, kind OverrideKind, name string) (changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewControlServiceClient(c.conn).ClearOverride(ctx, &apiv1.ClearOverrideRequest{Kind: overrideKinds[kind], Name: name})
	return r.GetChanged(), c.wrap(kind.Undo()+" "+orEverything(name), err)
}

// Overrides lists the overrides that stand; of all groups when name is empty.
func (c *Client) Overrides(ctx context.Context, name string) ([]Override, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewControlServiceClient(c.conn).ListOverrides(ctx, &apiv1.ListOverridesRequest{Group: name})
	if err != nil {
		return nil, c.wrap("list overrides", err)
	}
	out := []Override{}
	for _, m := range r.GetOverrides() {
		out = append(out, overrideOf(m))
	}
	return out, nil
}

func overrideOf(m *apiv1.Override) Override {
	out := Override{Name: m.GetName(), From: m.GetFrom(), Reason: m.GetReason(), By: m.GetBy()}
	for kind, wire := range overrideKinds {
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
