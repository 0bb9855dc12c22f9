package server

import (
	"bytes"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Times of the answers: the maximum age of the platform's list, and how often a watch checks
// sources outside of the records (reports, the platform, the clock).
const (
	listAge    = 5 * time.Second
	watchEvery = time.Second
	// recheckEvery is how often a watch asks Consul again whether its caller may read.
	recheckEvery = 30 * time.Second
)

// PlanRollout implements ClusterService.
func (s *Server) PlanRollout(ctx context.Context, req *apiv1.PlanRolloutRequest) (*apiv1.PlanRolloutResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.mayRead(ctx, req.GetGroup()); err != nil {
		return nil, err
	}
	var instead *group.Spec
	if len(req.GetSpecJson()) > 0 {
		spec, err := view.DecodeSpec(req.GetSpecJson(), req.GetGroup())
		if err == nil {
			err = s.cfg.Validator.Edit(c.view, spec)
		}
		if err != nil {
			return nil, refused(err)
		}
		instead = &spec
	}
	plan, err := s.plan(ctx, c.view, req.GetGroup(), instead)
	if err != nil {
		return nil, err
	}
	text, err := encode(plan)
	if err != nil {
		return nil, err
	}
	return &apiv1.PlanRolloutResponse{PlanJson: text}, nil
}

// plan computes the leader's current decision.
func (s *Server) plan(ctx context.Context, v *view.View, name string, instead *group.Spec) (rollout.Plan, error) {
	stored, ok := v.Specs[name]
	spec := stored.Value
	switch {
	case instead != nil:
		spec = *instead
	case !ok:
		return rollout.Plan{}, status.Error(codes.NotFound, "no such group: "+name)
	default:
		if err := s.cfg.Validator.Stored(v, name); err != nil {
			return rollout.Plan{}, status.Error(codes.FailedPrecondition, string(specvalidate.Code(err))+": "+err.Error())
		}
	}
	seen := observe.Group(v, spec, s.cfg.Cluster, s.cfg.Platform.List(ctx, spec.Name, listAge), s.cfg.Reports)
	seen.Now.Queue = observe.Queue(v)
	plan := rollout.Decide(seen.Spec, seen.Records, seen.Now, s.cfg.Now().UTC(), s.cfg.Timing)
	if r := plan.Rollout; r != nil && v.Rollouts[r.ID].Index == 0 {
		r.By, r.Request = "", "" // the caller of the spec in force did not ask for this spec
	}
	return plan, nil
}

// WatchGroup implements ClusterService. It sends the current View at once, then each change.
func (s *Server) WatchGroup(req *apiv1.WatchGroupRequest, stream grpc.ServerStreamingServer[apiv1.WatchGroupResponse]) error {
	ctx := stream.Context()
	c, err := s.caller(ctx)
	if err != nil {
		return err
	}
	if err := c.mayRead(ctx, req.GetGroup()); err != nil {
		return err
	}
	select {
	case s.watches <- struct{}{}:
		defer func() { <-s.watches }()
	default:
		return status.Errorf(codes.ResourceExhausted, "OVERLOADED: %d watches are open already", maxWatches)
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var last *apiv1.WatchGroupResponse
	checked := s.cfg.Now()
	for {
		if s.cfg.Now().Sub(checked) >= recheckEvery {
			// The token may have been revoked or have lost the right meanwhile. After a restored
			// snapshot the records are older than the last read.
			c.view = nil
			if err := c.mayRead(ctx, req.GetGroup()); err != nil {
				return err
			}
			checked = s.cfg.Now()
		}
		v, changed := s.cfg.Views.Latest()
		if v == nil || v.Index < c.view.Index {
			v = c.view // the watcher lags behind the caller's own last write
		}
		next, err := s.snapshot(ctx, v, req.GetGroup())
		if err != nil {
			return err
		}
		if last == nil || !bytes.Equal(last.GetStatusJson(), next.GetStatusJson()) || !bytes.Equal(last.GetPlanJson(), next.GetPlanJson()) {
			if err := stream.Send(next); err != nil {
				return err
			}
			last = next
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-ticker.C:
		}
	}
}

// snapshot returns one message of a watch. For an invalid spec it has the recorded status with the
// fault.
func (s *Server) snapshot(ctx context.Context, v *view.View, name string) (*apiv1.WatchGroupResponse, error) {
	out := &apiv1.WatchGroupResponse{At: timestamppb.New(s.cfg.Now())}
	recorded := v.Statuses[name].Value
	plan, err := s.plan(ctx, v, name, nil)
	switch {
	case status.Code(err) == codes.FailedPrecondition:
		plan.Status = recorded
	case err != nil:
		return nil, err
	}
	// A new planning time alone is no change.
	plan.Status.At, plan.Status.Term = recorded.At, recorded.Term
	for _, c := range recorded.Conditions {
		if c.Type == rollout.ConditionUnexplainedMembers {
			// Only the leader looks for them.
			plan.Status.Conditions = append(plan.Status.Conditions, c)
		}
	}
	if out.StatusJson, err = encode(plan.Status); err != nil {
		return nil, err
	}
	if out.PlanJson, err = encode(plan); err != nil {
		return nil, err
	}
	return out, nil
}
