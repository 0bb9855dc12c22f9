package server

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// overrideHold is SetOverride for a hold. All problems of the request are in one answer. The record
// names the rollout that it belongs to, so that it passes nothing of a later one (R141).
func (s *Server) overrideHold(ctx context.Context, req *apiv1.SetOverrideRequest) (*apiv1.SetOverrideResponse, error) {
	of, hold, _ := strings.Cut(req.GetName(), "/")
	asked := rollout.HoldOverrideRequest{Group: of, Hold: hold, Reason: req.GetReason(), For: req.GetFor().AsDuration(), Confirm: req.GetConfirm()}
	var problems []string
	for _, p := range asked.Problems() {
		problems = append(problems, p.String())
	}
	if len(req.GetFrom()) > 0 {
		problems = append(problems, "from: is for exclusions only; leave it out")
	}
	if len(problems) > 0 {
		return nil, status.Error(codes.InvalidArgument, strings.Join(problems, "\n"))
	}
	key, err := overrideKey(req.GetKind(), req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.decider(ctx, key, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	if err := c.mayReadNamed(ctx, of); err != nil {
		return nil, err
	}
	override := store.Override{Reason: req.GetReason(), By: c.by, At: c.now()}
	override.Until = override.At.Add(asked.For)
	if all := c.view.RolloutsOf(of); len(all) > 0 {
		override.Rollout = rollout.CurrentRollout(&all[0].Value)
	}
	changed, err := c.setOverride(ctx, string(store.OverrideHold), key, override)
	if err != nil {
		return nil, err
	}
	s.cfg.Log.Info("override set", "kind", req.GetKind(), "name", req.GetName(), "until", override.Until, "rollout", override.Rollout, "by", c.by, "reason", override.Reason)
	return &apiv1.SetOverrideResponse{Changed: changed, Override: c.wireOverride(req.GetKind(), req.GetName(), override)}, nil
}
