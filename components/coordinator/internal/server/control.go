package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/compose/lint"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// maxReason bounds an operator's text.
const maxReason = store.MaxReason

// RestartInstance implements ClusterService.
func (s *Server) RestartInstance(ctx context.Context, req *apiv1.RestartInstanceRequest) (*apiv1.RestartInstanceResponse, error) {
	c, err := s.decider(ctx, store.QueuePrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	record, err := c.mayChangeSlot(ctx, "slot", req.GetSlot())
	if err != nil {
		return nil, err
	}
	if req.GetService() != "" {
		if err := c.mayRestartService(record.Slot, req.GetService()); err != nil {
			return nil, err
		}
	}
	id, err := c.enqueue(ctx, store.QueueRequest{
		ID: req.GetRequestId(), Kind: store.RequestRestart, Group: record.Group, Slot: req.GetSlot(), Service: req.GetService(), Reason: req.GetReason(),
		VMUUID: record.VMUUID, InstanceID: record.InstanceID,
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.RestartInstanceResponse{RequestId: id}, nil
}

// UpdateInstance implements ClusterService.
func (s *Server) UpdateInstance(ctx context.Context, req *apiv1.UpdateInstanceRequest) (*apiv1.UpdateInstanceResponse, error) {
	c, err := s.decider(ctx, store.QueuePrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	record, err := c.mayChangeSlot(ctx, "slot", req.GetSlot())
	if err != nil {
		return nil, err
	}
	id, err := c.enqueue(ctx, store.QueueRequest{
		ID: req.GetRequestId(), Kind: store.RequestUpdate, Group: record.Group, Slot: req.GetSlot(), Reason: req.GetReason(),
		VMUUID: record.VMUUID, InstanceID: record.InstanceID,
	})
	if err != nil {
		return nil, err
	}
	return &apiv1.UpdateInstanceResponse{RequestId: id}, nil
}

// mayRestartService rejects at once a request that the Slot's agent would refuse or could not
// receive.
func (c *caller) mayRestartService(slot, service string) error {
	admission, ok := c.view.Admissions[slot]
	heard, reported := c.server.cfg.Reports.Of(slot)
	late := c.server.cfg.Now().Sub(heard.At) > c.server.cfg.Timing.OrDefault().StaleAfter
	if !ok || !reported || heard.BootID != admission.Value.BootID || late {
		return status.Errorf(codes.FailedPrecondition, "service: the agent of %s does not report, and cannot receive an order to restart %q: `cadre instance restart %s` restarts its CVM", slot, service, slot)
	}
	// This is the Revision that the Boot was measured with. If it is not recorded any more, the
	// agent decides.
	runs, ok := c.view.Revisions[admission.Value.Revision]
	if !ok || runs.Value.Template.Compose == "" {
		return nil
	}
	if why := lint.Restartable(runs.Value.Template.Compose, service); why != "" {
		return status.Errorf(codes.FailedPrecondition, "service: %s; `cadre instance restart %s` restarts its CVM", why, slot)
	}
	return nil
}

// callerFor authenticates a call about an existing group.
func (s *Server) callerFor(ctx context.Context, name, reason string) (*caller, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if len(reason) > maxReason {
		return nil, status.Errorf(codes.InvalidArgument, "reason: at most %d bytes", maxReason)
	}
	if err := c.mayRead(ctx, name); err != nil {
		return nil, err
	}
	if _, ok := c.view.Specs[name]; !ok {
		return nil, status.Error(codes.NotFound, "no such group: "+name)
	}
	return c, nil
}
