package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Gate is the state of a gate of a group's spec, and the setting in effect. A gate per slot has one
// Gate for each slot with a step or a setting.
type Gate struct {
	Group string `json:"group"`
	Gate  string `json:"gate"`
	Slot  string `json:"slot,omitempty"`
	// On are the kinds of work that wait while it is closed. Per is "group" or "slot".
	On  []string `json:"on"`
	Per string   `json:"per"`
	// State is "open" or "closed", for the step of Slot where it is per slot.
	State string `json:"state"`
	// Step is the kind of the next or present step of Slot, and Ticket its ticket.
	Step   string `json:"step,omitempty"`
	Ticket string `json:"ticket,omitempty"`
	// Set: a setting is in effect, with its author and reason. Otherwise the gate has its default.
	Set    bool      `json:"set,omitempty"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// Until is the end of the setting by the coordinator's clock; zero: it has none. LeftSeconds was left
	// at the answer.
	Until       time.Time `json:"until,omitzero"`
	LeftSeconds int64     `json:"left_seconds,omitempty"`
	// Changed is false when the same setting was in effect already.
	Changed bool `json:"changed,omitempty"`
}

// GateSetting is a setting of a gate. Slot is for gates per slot, and Ticket opens them. Length 0: until
// the next setting.
type GateSetting struct {
	Group, Gate, Slot string
	// State is "open" or "closed".
	State, Ticket, Reason string
	Length                time.Duration
}

// SetGate gives a setting of a gate, in place of an earlier one.
func (c *Client) SetGate(ctx context.Context, w GateSetting) (Gate, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	req := &apiv1.SetGateRequest{Group: w.Group, Gate: w.Gate, Slot: w.Slot, State: w.State, Ticket: w.Ticket, Reason: w.Reason}
	if w.Length != 0 {
		req.For = durationpb.New(w.Length)
	}
	r, err := apiv1.NewGateServiceClient(c.conn).SetGate(ctx, req)
	if err != nil {
		return Gate{}, c.wrap("set gate "+w.Group+"/"+w.Gate, err)
	}
	out := gateOf(r.GetGate())
	out.Changed = r.GetChanged()
	return out, nil
}

// ClearGate takes a setting back; changed is false when there was none. slot is for gates per slot.
func (c *Client) ClearGate(ctx context.Context, group, gate, slot string) (changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewGateServiceClient(c.conn).ClearGate(ctx, &apiv1.ClearGateRequest{Group: group, Gate: gate, Slot: slot})
	return r.GetChanged(), c.wrap("clear gate "+group+"/"+gate, err)
}

// Gates lists the gates of a group, or of all groups when group is empty.
func (c *Client) Gates(ctx context.Context, group string) ([]Gate, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewGateServiceClient(c.conn).ListGates(ctx, &apiv1.ListGatesRequest{Group: group})
	if err != nil {
		return nil, c.wrap("list gates", err)
	}
	out := []Gate{}
	for _, g := range r.GetGates() {
		out = append(out, gateOf(g))
	}
	return out, nil
}

func gateOf(g *apiv1.Gate) Gate {
	out := Gate{
		Group: g.GetGroup(), Gate: g.GetGate(), Slot: g.GetSlot(), On: g.GetOn(), Per: g.GetPer(), State: g.GetState(), Step: g.GetStep(), Ticket: g.GetTicket(),
		Set: g.GetSet(), By: g.GetBy(), Reason: g.GetReason(),
	}
	if g.GetAt() != nil {
		out.At = g.GetAt().AsTime()
	}
	if g.GetUntil() != nil {
		out.Until, out.LeftSeconds = g.GetUntil().AsTime(), g.GetLeft().GetSeconds()
	}
	return out
}
