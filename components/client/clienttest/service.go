package clienttest

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// AttestCoordinator implements ClusterService.
func (s *Server) AttestCoordinator(ctx context.Context, r *apiv1.AttestCoordinatorRequest) (*apiv1.AttestCoordinatorResponse, error) {
	if s.Attest == nil {
		return nil, status.Error(codes.Unimplemented, "no evidence in this test")
	}
	return s.Attest(ctx, r)
}

// AppliedBy is the server's name for the token of all callers.
const AppliedBy = "ann (0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11)"

// ApplyGroup implements ClusterService.
func (s *Server) ApplyGroup(ctx context.Context, r *apiv1.ApplyGroupRequest) (*apiv1.ApplyGroupResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ApplyGroup"); err != nil {
		return nil, err
	}
	spec, err := group.Decode(r.GetSpecJson())
	if err == nil {
		spec.Normalize()
		err = group.Validate(spec)
	}
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "SPEC_INVALID: "+err.Error())
	}
	g := s.groups[spec.Name]
	switch {
	case g == nil:
		g = &Group{}
	case g.Deleting:
		return nil, status.Errorf(codes.FailedPrecondition, "GROUP_DELETING: group %s is being deleted", spec.Name)
	case r.GetExpectAbsent():
		return nil, status.Errorf(codes.AlreadyExists, "GROUP_EXISTS: group %s exists already, with another spec", spec.Name)
	case r.GetExpectedIndex() != 0 && r.GetExpectedIndex() != g.Index:
		return nil, status.Errorf(codes.Aborted, "SPEC_CONFLICT: the spec has index %d, not %d", g.Index, r.GetExpectedIndex())
	}
	out := &apiv1.ApplyGroupResponse{Changed: true, Index: g.Index, Revision: s.revision(spec), Warnings: group.Warnings(spec)}
	for _, slot := range s.wayOut.HeldDisks {
		if of, _, err := group.ParseSlot(slot); err == nil && of == spec.Name {
			out.Leaving = append(out.Leaving, slot)
		}
	}
	if !r.GetDeleteDisks() {
		out.HeldDisks = out.Leaving
	} else {
		s.decideLocked("delete disks", spec.Name, r.GetReason())
	}
	if r.GetDryRun() {
		return out, nil
	}
	s.index++
	g.Before = g.Spec
	g.Spec, g.Stored, g.Index = spec, nil, s.index
	g.AppliedBy, g.AppliedRequest, g.AppliedReason = AppliedBy, r.GetRequestId(), r.GetReason()
	out.Index, out.By, out.RequestId = g.Index, g.AppliedBy, g.AppliedRequest
	s.groups[spec.Name] = g
	if s.OnApply != nil {
		s.OnApply(g)
	}
	s.wakeLocked()
	return out, nil
}

// GetGroup implements ClusterService.
func (s *Server) GetGroup(ctx context.Context, r *apiv1.GetGroupRequest) (*apiv1.GetGroupResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "GetGroup"); err != nil {
		return nil, err
	}
	g, err := s.groupLocked(r.GetGroup())
	if err != nil {
		return nil, err
	}
	stored := g.Stored
	if stored == nil {
		stored = encode(g.Spec)
	}
	return &apiv1.GetGroupResponse{SpecJson: stored, StatusJson: encode(g.Status), SpecIndex: g.Index, Revision: s.revision(g.Spec), Deleting: &g.Deleting,
		AppliedBy: g.AppliedBy, AppliedRequestId: g.AppliedRequest}, nil
}

// ListGroups implements ClusterService.
func (s *Server) ListGroups(ctx context.Context, _ *apiv1.ListGroupsRequest) (*apiv1.ListGroupsResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListGroups"); err != nil {
		return nil, err
	}
	out := &apiv1.ListGroupsResponse{}
	for _, name := range s.namesLocked() {
		st := s.groups[name].Status
		out.Groups = append(out.Groups, &apiv1.GroupSummary{Group: name, Replicas: uint32(max(0, st.Replicas)), Available: uint32(max(0, st.Available)),
			Updated: uint32(max(0, st.Updated)), TargetRevision: st.Target, StableRevision: st.Stable, RolloutState: st.RolloutState, Message: st.Message})
	}
	return out, nil
}

func (s *Server) namesLocked() []string {
	names := []string{}
	for name := range s.groups {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// PlanRollout implements ClusterService.
func (s *Server) PlanRollout(ctx context.Context, r *apiv1.PlanRolloutRequest) (*apiv1.PlanRolloutResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "PlanRollout"); err != nil {
		return nil, err
	}
	g, err := s.groupLocked(r.GetGroup())
	if err != nil {
		return nil, err
	}
	return &apiv1.PlanRolloutResponse{PlanJson: encode(g.Plan)}, nil
}

// WatchGroup implements ClusterService.
func (s *Server) WatchGroup(r *apiv1.WatchGroupRequest, stream grpc.ServerStreamingServer[apiv1.WatchGroupResponse]) error {
	for {
		err := s.enter(stream.Context(), "WatchGroup")
		var g *Group
		var reply *apiv1.WatchGroupResponse
		if err == nil {
			if g, err = s.groupLocked(r.GetGroup()); err == nil {
				reply = &apiv1.WatchGroupResponse{StatusJson: encode(g.Status), PlanJson: encode(g.Plan), At: timestamppb.Now()}
			}
		}
		changed := s.changed
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
		select {
		case s.watching <- struct{}{}:
		default:
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-changed:
		}
	}
}

// ListRollouts implements ClusterService.
func (s *Server) ListRollouts(ctx context.Context, r *apiv1.ListRolloutsRequest) (*apiv1.ListRolloutsResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListRollouts"); err != nil {
		return nil, err
	}
	g, err := s.groupLocked(r.GetGroup())
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListRolloutsResponse{}
	for _, one := range g.Rollouts {
		out.RolloutsJson = append(out.RolloutsJson, encode(one))
	}
	return out, nil
}

// ListInstances implements ClusterService.
func (s *Server) ListInstances(ctx context.Context, r *apiv1.ListInstancesRequest) (*apiv1.ListInstancesResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListInstances"); err != nil {
		return nil, err
	}
	out := &apiv1.ListInstancesResponse{}
	for _, name := range s.namesLocked() {
		if r.GetGroup() != "" && r.GetGroup() != name {
			continue
		}
		for _, i := range s.groups[name].Status.Instances {
			out.InstancesJson = append(out.InstancesJson, encode(i))
		}
	}
	return out, nil
}

// DescribeInstance implements ClusterService.
func (s *Server) DescribeInstance(ctx context.Context, r *apiv1.DescribeInstanceRequest) (*apiv1.DescribeInstanceResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "DescribeInstance"); err != nil {
		return nil, err
	}
	for _, g := range s.groups {
		for _, i := range g.Status.Instances {
			if i.Slot != r.GetSlot() {
				continue
			}
			out := &apiv1.DescribeInstanceResponse{InstanceJson: encode(i), AdmissionsJson: g.Admissions}
			for _, o := range g.Operations {
				if o.Slot == i.Slot {
					out.OperationsJson = append(out.OperationsJson, encode(o))
				}
			}
			return out, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "no such slot: %s", r.GetSlot())
}

// RestartInstance implements ClusterService.
func (s *Server) RestartInstance(ctx context.Context, r *apiv1.RestartInstanceRequest) (*apiv1.RestartInstanceResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "RestartInstance"); err != nil {
		return nil, err
	}
	before := len(s.decided)
	if err := s.askedLocked("restart", r.GetRequestId(), r.GetSlot(), r.GetReason()); err != nil {
		return nil, err
	}
	if len(s.decided) > before {
		what := r.GetSlot()
		if r.GetService() != "" {
			what += "/" + r.GetService()
		}
		s.restarts = append(s.restarts, what+": "+r.GetReason())
	}
	s.requests["req-1"] = s.requests[r.GetRequestId()]
	if name, _, err := group.ParseSlot(r.GetSlot()); err == nil && s.OnRestart != nil && s.groups[name] != nil {
		s.OnRestart(s.groups[name], r.GetSlot())
		s.wakeLocked()
	}
	return &apiv1.RestartInstanceResponse{RequestId: "req-1"}, nil
}

// UpdateInstance implements ClusterService.
func (s *Server) UpdateInstance(ctx context.Context, r *apiv1.UpdateInstanceRequest) (*apiv1.UpdateInstanceResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "UpdateInstance"); err != nil {
		return nil, err
	}
	if err := s.askedLocked("update", r.GetRequestId(), r.GetSlot(), r.GetReason()); err != nil {
		return nil, err
	}
	s.updates = append(s.updates, r.GetSlot()+": "+r.GetReason())
	if name, _, err := group.ParseSlot(r.GetSlot()); err == nil && s.OnUpdate != nil && s.groups[name] != nil {
		s.OnUpdate(s.groups[name], r.GetSlot())
		s.wakeLocked()
	}
	return &apiv1.UpdateInstanceResponse{RequestId: r.GetRequestId()}, nil
}

// GetCluster implements ClusterService.
func (s *Server) GetCluster(ctx context.Context, _ *apiv1.GetClusterRequest) (*apiv1.GetClusterResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "GetCluster"); err != nil {
		return nil, err
	}
	return &apiv1.GetClusterResponse{Cluster: "demo", Version: "test", Leader: "coordinator-1", Term: 7, Self: "coordinator-0", Simulated: true, ClusterId: s.clusterID}, nil
}
