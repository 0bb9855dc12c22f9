package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/operation"
	"cadre.dev/core/queue"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// queueService serves QueueService.
type queueService struct {
	apiv1.UnimplementedQueueServiceServer
	s *Server
}

// GetLimits implements QueueService.
func (q queueService) GetLimits(ctx context.Context, _ *apiv1.GetLimitsRequest) (*apiv1.GetLimitsResponse, error) {
	c, err := q.s.caller(ctx)
	if err != nil {
		return nil, err
	}
	// Consul refuses the read of one key also where it is missing, and answers a list of nothing.
	if _, err := c.store.Get(ctx, store.LimitsKey()); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, wire(err)
	}
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	return &apiv1.GetLimitsResponse{Limits: wireLimits(c.view.Limits), Used: limitsUsed(c.view)}, nil
}

// SetLimits implements QueueService.
func (q queueService) SetLimits(ctx context.Context, req *apiv1.SetLimitsRequest) (*apiv1.SetLimitsResponse, error) {
	c, err := q.s.decider(ctx, store.LimitsKey(), "", "")
	if err != nil {
		return nil, err
	}
	limits := store.Limits{Steps: int(req.GetSteps()), Rollouts: int(req.GetRollouts()), Creations: int(req.GetCreations()), Reason: req.GetReason(), By: c.by, At: c.now()}
	var problems []string
	if err := limits.Check(); err != nil {
		problems = append(problems, err.Error())
	}
	if limits.Steps == 0 && limits.Rollouts == 0 && limits.Creations == 0 {
		problems = append(problems, "steps, rollouts, creations: set at least one; to remove all limits: cadre limits clear")
	}
	if err := needReason(req.GetReason()); err != nil {
		problems = append(problems, status.Convert(err).Message())
	}
	if len(problems) > 0 {
		return nil, status.Error(codes.InvalidArgument, strings.Join(problems, "; "))
	}
	before, index, err := store.Read[store.Limits](ctx, c.store, store.LimitsKey())
	if err != nil && !errors.Is(err, store.ErrNotFound) && index == 0 {
		return nil, wire(err)
	}
	after := before
	after.By, after.At = limits.By, limits.At
	if err == nil && after == limits {
		return &apiv1.SetLimitsResponse{Limits: wireLimits(view.Limits{Value: before, Set: true})}, nil
	}
	op, err := store.Put(store.LimitsKey(), limits, index)
	if err != nil {
		return nil, wire(err)
	}
	if err := c.act(ctx, "set-limits", "", limits.Reason, op); err != nil {
		return nil, wire(err)
	}
	q.s.cfg.Log.Info("limits set", "steps", limits.Steps, "rollouts", limits.Rollouts, "creations", limits.Creations, "by", c.by, "reason", limits.Reason)
	return &apiv1.SetLimitsResponse{Changed: true, Limits: wireLimits(view.Limits{Value: limits, Set: true})}, nil
}

// ClearLimits implements QueueService.
func (q queueService) ClearLimits(ctx context.Context, req *apiv1.ClearLimitsRequest) (*apiv1.ClearLimitsResponse, error) {
	c, err := q.s.decider(ctx, store.LimitsKey(), "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	changed, err := c.remove(ctx, "clear-limits", req.GetReason(), store.LimitsKey())
	if err == nil && changed {
		q.s.cfg.Log.Info("limits removed", "by", c.by, "reason", req.GetReason())
	}
	return &apiv1.ClearLimitsResponse{Changed: changed}, err
}

// entry is one step of the queue.
type entry struct {
	wire *apiv1.QueueEntry
	// rank orders the states; group and wait order the groups.
	rank  int
	group queue.Group
	wait  queue.Wait
}

// The states of an entry, in their order.
var entryStates = []string{"running", "begins", "waits", "held"}

// ListQueue implements QueueService. Consul decides which groups the caller may read.
func (q queueService) ListQueue(ctx context.Context, _ *apiv1.ListQueueRequest) (*apiv1.ListQueueResponse, error) {
	c, err := q.s.caller(ctx)
	if err != nil {
		return nil, err
	}
	readable, err := c.readable(ctx)
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListQueueResponse{Limits: wireLimits(c.view.Limits), Used: limitsUsed(c.view)}
	var entries []entry
	for _, name := range c.view.Groups() {
		if !readable[name] {
			continue
		}
		plan, err := q.s.plan(ctx, c.view, name, nil)
		if err != nil {
			out.Problems = append(out.Problems, &apiv1.QueueProblem{Group: name, Message: status.Convert(err).Message()})
			continue
		}
		entries = append(entries, entriesOf(plan, c.view)...)
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(a.rank-b.rank, queue.Compare(a.group, b.group, a.wait, b.wait))
	})
	for _, e := range entries {
		out.Entries = append(out.Entries, e.wire)
	}
	return out, nil
}

// entriesOf lists the steps of a group's plan.
func entriesOf(plan rollout.Plan, v *view.View) (out []entry) {
	spec, _, _ := v.InForce(plan.Group)
	g := queue.Group{Name: plan.Group, Priority: spec.PriorityOrDefault()}
	if plan.Status.Queue != nil {
		g.Place = *plan.Status.Queue
	}
	for _, a := range plan.Actions {
		e := entry{group: g, rank: rankOf(a), wire: &apiv1.QueueEntry{
			Group: plan.Group, Slot: a.Slot, Kind: string(a.Kind), Actor: string(a.Actor), By: a.Request.By, Priority: int32(g.Priority),
			Operation: a.Operation, Phase: string(a.Phase),
		}}
		e.wire.State = entryStates[e.rank]
		if a.Actor == operation.ActorRollout || a.Actor == operation.ActorScaling {
			e.wire.By = v.Accepted[plan.Group].By
		}
		for _, h := range a.Holds {
			e.wire.Holds = append(e.wire.Holds, &apiv1.QueueHold{Predicate: h.Predicate, Message: h.Message})
			if h.Predicate == rollout.HoldClusterLimit {
				if e.wait = g.Step; a.Kind == operation.Create {
					e.wait = g.Create
				}
			}
		}
		if !e.wait.Since.IsZero() {
			e.wire.Since = timestamppb.New(e.wait.Since)
		}
		out = append(out, e)
	}
	return out
}

func rankOf(a rollout.Action) int {
	switch {
	case a.Operation != "":
		return 0
	case a.Execute:
		return 1
	case len(a.Holds) == 1 && a.Holds[0].Predicate == rollout.HoldClusterLimit:
		return 2
	}
	return 3
}

func wireLimits(l view.Limits) *apiv1.Limits {
	if !l.Set {
		return nil
	}
	v := l.Value
	out := &apiv1.Limits{Steps: int32(v.Steps), Rollouts: int32(v.Rollouts), Creations: int32(v.Creations), Reason: v.Reason, By: v.By, Unread: l.Unread}
	if !v.At.IsZero() {
		out.At = timestamppb.New(v.At.Truncate(time.Millisecond))
	}
	return out
}

func limitsUsed(v *view.View) *apiv1.LimitsUsed {
	out := &apiv1.LimitsUsed{}
	for _, g := range observe.Places(v) {
		out.Steps, out.Creations = out.Steps+int32(g.Steps), out.Creations+int32(g.Creations)
		if g.Rollout {
			out.Rollouts++
		}
	}
	return out
}
