package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// GetGroup implements ClusterService.
func (s *Server) GetGroup(ctx context.Context, req *apiv1.GetGroupRequest) (*apiv1.GetGroupResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	raw, index, err := store.ReadRaw(ctx, c.store, store.GroupSpecKey(req.GetGroup()))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, status.Error(codes.NotFound, "no such group: "+req.GetGroup())
	case err != nil:
		return nil, wire(err)
	}
	out := &apiv1.GetGroupResponse{SpecJson: raw, SpecIndex: index}
	if spec, err := view.DecodeSpec(raw, req.GetGroup()); err == nil {
		out.Revision = spec.Revision()
	}
	if out.AppliedBy, out.AppliedRequestId, err = c.appliedBy(ctx, req.GetGroup(), index); err != nil {
		return nil, err
	}
	_, _, err = store.Read[store.DeleteGroup](ctx, s.cfg.Store, store.DeleteGroupKey(req.GetGroup()))
	if err != nil && !errors.Is(err, store.ErrNotFound) && len(store.RecordErrors(err)) == 0 {
		return nil, wire(err)
	}
	deleting := err == nil // the leader ignores an unreadable record
	out.Deleting = &deleting
	st, err := view.ReadStatus(ctx, c.store, req.GetGroup())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return out, nil
	case len(store.RecordErrors(err)) > 0:
		// The record may be of another version, which the caller may be able to decode.
		out.StatusJson, _, err = store.ReadRaw(ctx, c.store, store.GroupStatusKey(req.GetGroup()))
		return out, wire(err)
	case err != nil:
		return nil, wire(err)
	}
	out.StatusJson, err = encode(st)
	return out, err
}

// ListGroups implements ClusterService. Groups that the caller may not read are left out.
func (s *Server) ListGroups(ctx context.Context, _ *apiv1.ListGroupsRequest) (*apiv1.ListGroupsResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	readable, err := c.readable(ctx)
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListGroupsResponse{}
	for _, name := range c.view.Groups() {
		if !readable[name] {
			continue
		}
		spec, st := c.view.Specs[name], c.view.Statuses[name].Value
		summary := &apiv1.GroupSummary{
			Group: name, Replicas: uint32(max(spec.Value.Replicas, 0)), Available: uint32(max(st.Available, 0)), Updated: uint32(max(st.Updated, 0)),
			TargetRevision: st.Target, StableRevision: st.Stable, RolloutState: st.RolloutState, Message: st.Message,
		}
		if err := s.cfg.Validator.Stored(c.view, name); err != nil {
			summary.Replicas, summary.Message = uint32(max(st.Replicas, 0)), "the spec is not valid: "+err.Error()
		}
		out.Groups = append(out.Groups, summary)
	}
	return out, nil
}

// readable returns the groups whose spec the caller's token may list.
func (c *caller) readable(ctx context.Context) (map[string]bool, error) {
	entries, _, err := c.store.List(ctx, store.GroupsPrefix)
	if err != nil {
		return nil, wire(err)
	}
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, e := range entries {
		for name := range c.view.Specs {
			if e.Key == store.GroupSpecKey(name) {
				out[name] = true
			}
		}
	}
	return out, nil
}

// ListRollouts implements ClusterService.
func (s *Server) ListRollouts(ctx context.Context, req *apiv1.ListRolloutsRequest) (*apiv1.ListRolloutsResponse, error) {
	c, err := s.callerFor(ctx, req.GetGroup(), "")
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListRolloutsResponse{}
	for _, r := range c.view.RolloutsOf(req.GetGroup()) {
		text, err := encode(r.Value)
		if err != nil {
			return nil, err
		}
		out.RolloutsJson = append(out.RolloutsJson, text)
	}
	return out, nil
}

// instances returns a group's Slots as they are now, each with the hold of its next step. An
// invalid spec has no plan; then the leader's record is returned.
func (s *Server) instances(ctx context.Context, c *caller, name string) []group.InstanceStatus {
	plan, err := s.plan(ctx, c.view, name, nil)
	if err != nil {
		return c.view.Statuses[name].Value.Instances
	}
	held := plan.HoldsBySlot()
	for i := range plan.Status.Instances {
		one := &plan.Status.Instances[i]
		one.Holds = held[one.Slot]
		for _, m := range []*group.Override{one.Drain, one.Protection, one.Exclusion} {
			if m != nil && !m.Until.IsZero() {
				m.LeftSeconds = int64(max(m.Until.Sub(c.now()), 0) / time.Second)
			}
		}
	}
	return plan.Status.Instances
}

// ListInstances implements ClusterService; an empty group means all groups.
func (s *Server) ListInstances(ctx context.Context, req *apiv1.ListInstancesRequest) (*apiv1.ListInstancesResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	readable, err := c.readable(ctx)
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListInstancesResponse{}
	for _, name := range c.view.Groups() {
		if !readable[name] || req.GetGroup() != "" && req.GetGroup() != name {
			continue
		}
		for _, i := range s.instances(ctx, c, name) {
			text, err := encode(i)
			if err != nil {
				return nil, err
			}
			out.InstancesJson = append(out.InstancesJson, text)
		}
	}
	return out, nil
}

// DescribeInstance implements ClusterService.
func (s *Server) DescribeInstance(ctx context.Context, req *apiv1.DescribeInstanceRequest) (*apiv1.DescribeInstanceResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	record, err := c.mayReadSlot(ctx, req.GetSlot())
	if err != nil {
		return nil, err
	}
	name := record.Group
	out := &apiv1.DescribeInstanceResponse{}
	for _, i := range s.instances(ctx, c, name) {
		if i.Slot == req.GetSlot() {
			if out.InstanceJson, err = encode(i); err != nil {
				return nil, err
			}
		}
	}
	for _, o := range c.view.OperationsOf(req.GetSlot()) {
		text, err := encode(o.Value)
		if err != nil {
			return nil, err
		}
		out.OperationsJson = append(out.OperationsJson, text)
	}
	for _, past := range slices.Backward(record.Lineage) {
		if err := appendJSON(&out.LineageJson, past); err != nil {
			return nil, err
		}
	}
	if a, ok := c.view.Admissions[req.GetSlot()]; ok {
		// Accessors name tokens, and no reader of an admission needs them.
		a.Value.TokenAccessors = nil
		shown := struct {
			policy.Admission
			Machine       string   `json:"machine,omitempty"`
			SharesMachine []string `json:"shares_machine,omitempty"`
		}{Admission: a.Value}
		if m, ok := c.view.MachineOf(req.GetSlot()); ok {
			shown.Machine, shown.SharesMachine = m.Machine, c.view.OnMachineOf(name, req.GetSlot())
		}
		if err := appendJSON(&out.AdmissionsJson, shown); err != nil {
			return nil, err
		}
	}
	if r, ok := c.view.Refusals[req.GetSlot()]; ok {
		if err := appendJSON(&out.AdmissionsJson, r.Value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// GetCluster implements ClusterService.
func (s *Server) GetCluster(ctx context.Context, _ *apiv1.GetClusterRequest) (*apiv1.GetClusterResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	// Any read right on Cadre's records is enough to learn the leader.
	leader, term, err := c.store.Holder(ctx)
	if err != nil {
		return nil, wire(err)
	}
	out := &apiv1.GetClusterResponse{
		Cluster: s.cfg.Cluster, Version: s.cfg.Version, Leader: leader, Term: term, Self: s.cfg.Slot, Simulated: s.cfg.Simulated,
		ClusterId: s.cfg.Root.ClusterID(),
	}
	if now, err := s.cfg.Watermark.State(ctx); err == nil && now.Halted != nil {
		out.Halted = now.Halted.Error()
	}
	return out, nil
}

func appendJSON(into *[][]byte, value any) error {
	text, err := encode(value)
	if err == nil {
		*into = append(*into, text)
	}
	return err
}

func encode(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, status.Error(codes.Internal, fmt.Sprintf("encode answer: %v", err))
	}
	return text, nil
}
