package client

import (
	"context"
	"time"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Limits are the limits for all groups together; 0: no limit.
type Limits struct {
	// Steps bounds the open steps of rollouts, Rollouts the groups with a rollout in work, Creations the open creations.
	Steps     int       `json:"steps,omitempty"`
	Rollouts  int       `json:"rollouts,omitempty"`
	Creations int       `json:"creations,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at,omitzero"`
	// Unread says why the record cannot be read: no limited work begins then.
	Unread string `json:"unread,omitempty"`
	// Changed is false when the same limits were in effect already.
	Changed bool `json:"changed,omitempty"`
}

// LimitsUsed counts the places in use.
type LimitsUsed struct {
	Steps     int `json:"steps"`
	Rollouts  int `json:"rollouts"`
	Creations int `json:"creations"`
}

// LimitsNow are the limits, nil without any, and the places in use.
type LimitsNow struct {
	Limits *Limits    `json:"limits,omitempty"`
	Used   LimitsUsed `json:"used"`
}

// Queue is everything that is planned in all groups, in the order in which it goes.
type Queue struct {
	LimitsNow
	Entries []QueueEntry `json:"entries"`
	// Problems are the groups whose plan cannot be made.
	Problems []QueueProblem `json:"problems,omitempty"`
}

// QueueEntry is one step that is in progress, begins now, or waits.
type QueueEntry struct {
	Group string `json:"group"`
	Slot  string `json:"slot"`
	Kind  string `json:"kind"`
	// Actor is rollout, operator, healing or scaling. By is the author of the request, or of the spec.
	Actor    string `json:"actor,omitempty"`
	By       string `json:"by,omitempty"`
	Priority int    `json:"priority"`
	// State is running, begins, waits (at a limit alone) or held.
	State string `json:"state"`
	// Since is when a limit first held such work of the group.
	Since     time.Time   `json:"since,omitzero"`
	Operation string      `json:"operation,omitempty"`
	Phase     string      `json:"phase,omitempty"`
	Holds     []QueueHold `json:"holds,omitempty"`
}

// QueueHold is one reason why a step waits.
type QueueHold struct {
	Predicate string `json:"predicate"`
	Message   string `json:"message"`
}

// QueueProblem is a group whose plan cannot be made.
type QueueProblem struct {
	Group   string `json:"group"`
	Message string `json:"message"`
}

// Limits returns the limits for all groups together, and the places in use.
func (c *Client) Limits(ctx context.Context) (LimitsNow, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewQueueServiceClient(c.conn).GetLimits(ctx, &apiv1.GetLimitsRequest{})
	if err != nil {
		return LimitsNow{}, c.wrap("read limits", err)
	}
	return limitsNow(r.GetLimits(), r.GetUsed()), nil
}

// SetLimits replaces the limits for all groups together.
func (c *Client) SetLimits(ctx context.Context, l Limits) (Limits, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewQueueServiceClient(c.conn).SetLimits(ctx, &apiv1.SetLimitsRequest{
		Steps: bounded32(l.Steps), Rollouts: bounded32(l.Rollouts), Creations: bounded32(l.Creations), Reason: l.Reason,
	})
	if err != nil {
		return Limits{}, c.wrap("set limits", err)
	}
	out := *limitsOf(r.GetLimits())
	out.Changed = r.GetChanged()
	return out, nil
}

// ClearLimits removes all limits; changed is false when there were none.
func (c *Client) ClearLimits(ctx context.Context, reason string) (changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewQueueServiceClient(c.conn).ClearLimits(ctx, &apiv1.ClearLimitsRequest{Reason: reason})
	return r.GetChanged(), c.wrap("clear limits", err)
}

// Queue lists everything that is planned in all groups that the caller may read.
func (c *Client) Queue(ctx context.Context) (Queue, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewQueueServiceClient(c.conn).ListQueue(ctx, &apiv1.ListQueueRequest{})
	if err != nil {
		return Queue{}, c.wrap("list the queue", err)
	}
	out := Queue{LimitsNow: limitsNow(r.GetLimits(), r.GetUsed()), Entries: []QueueEntry{}}
	for _, e := range r.GetEntries() {
		one := QueueEntry{
			Group: e.GetGroup(), Slot: e.GetSlot(), Kind: e.GetKind(), Actor: e.GetActor(), By: e.GetBy(), Priority: int(e.GetPriority()), State: e.GetState(),
			Operation: e.GetOperation(), Phase: e.GetPhase(),
		}
		if e.GetSince() != nil {
			one.Since = e.GetSince().AsTime()
		}
		for _, h := range e.GetHolds() {
			one.Holds = append(one.Holds, QueueHold{Predicate: h.GetPredicate(), Message: h.GetMessage()})
		}
		out.Entries = append(out.Entries, one)
	}
	for _, p := range r.GetProblems() {
		out.Problems = append(out.Problems, QueueProblem{Group: p.GetGroup(), Message: p.GetMessage()})
	}
	return out, nil
}

func limitsNow(l *apiv1.Limits, used *apiv1.LimitsUsed) LimitsNow {
	return LimitsNow{Limits: limitsOf(l), Used: LimitsUsed{Steps: int(used.GetSteps()), Rollouts: int(used.GetRollouts()), Creations: int(used.GetCreations())}}
}

func limitsOf(l *apiv1.Limits) *Limits {
	if l == nil {
		return nil
	}
	out := &Limits{Steps: int(l.GetSteps()), Rollouts: int(l.GetRollouts()), Creations: int(l.GetCreations()), Reason: l.GetReason(), By: l.GetBy(), Unread: l.GetUnread()}
	if l.GetAt() != nil {
		out.At = l.GetAt().AsTime()
	}
	return out
}

// bounded32 brings n into the range of the wire. A number that the server rejects stays such a number.
func bounded32(n int) int32 { return int32(max(min(n, 1<<30), -1)) }
