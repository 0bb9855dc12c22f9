package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// OverrideKind is the effect of an operator's override.
type OverrideKind string

const (
	// OverrideDrain takes a Slot out of service and stops further actions on it.
	OverrideDrain OverrideKind = "drain"
	// OverrideProtect stops all actions that disrupt a Slot or delete its disk.
	OverrideProtect OverrideKind = "protect"
	// OverrideExclude leaves a Slot out of rollouts, of healing, or of both.
	OverrideExclude OverrideKind = "exclude"
	// OverridePause stops new steps of a group's rollout and new removals.
	OverridePause OverrideKind = "pause"
	// OverrideFreeze stops all new actions in a group, or everywhere when the name is empty.
	OverrideFreeze OverrideKind = "freeze"
	// OverrideHold passes one named hold of a group; its name is GROUP/HOLD.
	OverrideHold OverrideKind = "override"
)

var overrideKinds = map[OverrideKind]apiv1.OverrideKind{
	OverrideDrain: apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, OverrideProtect: apiv1.OverrideKind_OVERRIDE_KIND_PROTECT, OverrideFreeze: apiv1.OverrideKind_OVERRIDE_KIND_FREEZE,
	OverridePause: apiv1.OverrideKind_OVERRIDE_KIND_PAUSE, OverrideExclude: apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE,
	OverrideHold: apiv1.OverrideKind_OVERRIDE_KIND_HOLD,
}

// Undo is the verb that clears an override of the kind.
func (k OverrideKind) Undo() string {
	switch k {
	case OverrideExclude:
		return "include"
	case OverridePause:
		return "resume"
	case OverrideHold:
		return "clear"
	case OverrideDrain, OverrideProtect, OverrideFreeze:
	}
	return "un" + string(k)
}

// Override is an override in effect. Name is a Slot, for a pause a group, for a freeze a group or
// empty for all, for a hold GROUP/HOLD.
type Override struct {
	Kind OverrideKind `json:"kind"`
	Name string       `json:"name,omitempty"`
	// From lists the activities that an exclusion covers; empty: both.
	From []string `json:"from,omitempty"`
	// Rollout is the rollout that an override of a hold belongs to; empty: the time without one.
	Rollout string    `json:"rollout,omitempty"`
	Reason  string    `json:"reason"`
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at,omitzero"`
	// Until is when the override ends automatically, by the clock of the coordinator that answered;
	// zero: when it is cleared.
	Until time.Time `json:"until,omitzero"`
	// LeftSeconds is the time that was left at the answer; it does not depend on the client's
	// clock.
	LeftSeconds int64 `json:"left_seconds,omitempty"`
	// Changed is false when the same override was in effect already.
	Changed bool `json:"changed,omitempty"`
}

// SetOverride sets an override for a time, or until it is cleared when length is 0. An existing
// override gets the new reason and time. from is for exclusions only.
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

// SetHoldOverride lets the steps of a group pass one named hold for a time.
func (c *Client) SetHoldOverride(ctx context.Context, r rollout.HoldOverrideRequest) (Override, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	name := r.Group + "/" + r.Hold
	req := &apiv1.SetOverrideRequest{Kind: overrideKinds[OverrideHold], Name: name, Reason: r.Reason, Confirm: r.Confirm, For: durationpb.New(r.For)}
	answer, err := apiv1.NewControlServiceClient(c.conn).SetOverride(ctx, req)
	if err != nil {
		return Override{}, c.wrap("override "+name, err)
	}
	out := overrideOf(answer.GetOverride())
	out.Changed = answer.GetChanged()
	return out, nil
}

// ClearOverride clears an override; changed is false when there was none.
func (c *Client) ClearOverride(ctx context.Context, kind OverrideKind, name string) (changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewControlServiceClient(c.conn).ClearOverride(ctx, &apiv1.ClearOverrideRequest{Kind: overrideKinds[kind], Name: name})
	return r.GetChanged(), c.wrap(kind.Undo()+" "+orEverything(name), err)
}

// Overrides lists the overrides in effect; of all groups when name is empty.
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
	out := Override{Name: m.GetName(), From: m.GetFrom(), Rollout: m.GetRollout(), Reason: m.GetReason(), By: m.GetBy()}
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

// StopOf returns the override that keeps new steps of a group from beginning: a freeze of the group or of everything, else
// the group's pause; nil: neither.
func StopOf(list []Override, group string) (stop *Override) {
	for i, o := range list {
		switch {
		case o.Kind == OverrideFreeze && (o.Name == group || o.Name == ""):
			return &list[i]
		case o.Kind == OverridePause && o.Name == group:
			stop = &list[i]
		}
	}
	return stop
}

func orEverything(name string) string {
	if name == "" {
		return "everything"
	}
	return name
}
