package server

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// ListAdoptable implements OperationService.
func (s *Server) ListAdoptable(ctx context.Context, req *apiv1.ListAdoptableRequest) (*apiv1.ListAdoptableResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.adoptable(ctx, req.GetGroup())
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListAdoptableResponse{}
	for _, a := range all {
		if err := appendJSON(&out.AdoptableJson, a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// adoptable evaluates the members of a group that the caller may read.
func (c *caller) adoptable(ctx context.Context, name string) ([]rollout.Adoptable, error) {
	if err := c.mayRead(ctx, name); err != nil {
		return nil, err
	}
	spec, _, ok := c.view.InForce(name)
	if !ok {
		return nil, status.Errorf(codes.NotFound, "no such group: %s; a group whose spec is lost is applied again first", name)
	}
	s := c.server
	return observe.Adoptable(c.view, spec, s.cfg.Cluster, s.cfg.Platform.List(ctx, name, listAge), c.view.Judging(s.cfg.Images), s.cfg.Now().UTC()), nil
}

// AdoptGroup implements OperationService. The leader evaluates each member again.
func (s *Server) AdoptGroup(ctx context.Context, req *apiv1.AdoptGroupRequest) (*apiv1.AdoptGroupResponse, error) {
	c, err := s.decider(ctx, store.AdoptPrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	name := req.GetGroup()
	all, err := c.adoptable(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := needReason(req.GetReason()); err != nil {
		return nil, err
	}
	if len(req.GetMembers()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "members: are missing: name each with the instance and compose hash that you saw")
	}
	request := store.Adoption{Group: name, Reason: req.GetReason(), By: c.by, At: c.now()}
	for _, m := range req.GetMembers() {
		a, err := seenAs(all, m)
		if err != nil {
			return nil, err
		}
		request.Members = append(request.Members, store.Adopted{
			Slot: a.Slot, InstanceID: a.InstanceID, ComposeHash: a.ComposeHash, Revision: a.Revision, VMUUID: a.VMUUID,
		})
	}
	out := &apiv1.AdoptGroupResponse{}
	for _, m := range request.Members {
		out.Slots = append(out.Slots, m.Slot)
	}
	key := store.AdoptKey(name)
	before, index, err := store.Read[store.Adoption](ctx, c.store, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) && index == 0 {
		return nil, wire(err)
	}
	if index != 0 && slices.Equal(before.Members, request.Members) {
		return out, nil
	}
	op, err := store.Put(key, request, index)
	if err != nil {
		return nil, wire(err)
	}
	if err := c.act(ctx, "adopt", "", request.Reason, op); err != nil {
		return nil, wire(err)
	}
	out.Changed = true
	s.cfg.Log.Info("adoption asked for", "group", name, "slots", strings.Join(out.GetSlots(), " "), "by", c.by, "reason", req.GetReason())
	return out, nil
}

// seenAs returns the member's current state if it can be adopted and equals the state that the
// caller saw.
func seenAs(all []rollout.Adoptable, m *apiv1.AdoptMember) (rollout.Adoptable, error) {
	i := slices.IndexFunc(all, func(a rollout.Adoptable) bool { return a.Slot == m.GetSlot() })
	switch {
	case i < 0:
		return rollout.Adoptable{}, status.Errorf(codes.FailedPrecondition, "members: %.80q is bound, or is no slot of the group: there is nothing to adopt", m.GetSlot())
	case all[i].Missing != "":
		return rollout.Adoptable{}, status.Errorf(codes.FailedPrecondition, "members: %s cannot be adopted: %s", m.GetSlot(), all[i].Missing)
	case all[i].InstanceID != m.GetInstanceId() || all[i].ComposeHash != m.GetComposeHash():
		return rollout.Adoptable{}, status.Errorf(codes.Aborted, "members: %s attested instance %.12s and compose hash %.12s since you looked", m.GetSlot(), all[i].InstanceID, all[i].ComposeHash)
	}
	return all[i], nil
}
