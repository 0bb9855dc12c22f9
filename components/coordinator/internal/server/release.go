package server

import (
	"context"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// ReleaseSlot implements PolicyService. It queues a request for the leader; a Slot that is not held
// needs no release.
func (s *Server) ReleaseSlot(ctx context.Context, req *apiv1.ReleaseSlotRequest) (*apiv1.ReleaseSlotResponse, error) {
	c, err := s.decider(ctx, store.QueuePrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	record, err := c.mayReadSlot(ctx, req.GetSlot())
	if err != nil {
		return nil, err
	}
	if req.GetReason() == "" {
		return nil, status.Error(codes.InvalidArgument, "reason: is missing: the slot's decisions record it")
	}
	if !c.view.Admissions[req.GetSlot()].Value.Contest.Reserved() {
		return &apiv1.ReleaseSlotResponse{}, nil
	}
	id, err := c.enqueue(ctx, store.QueueRequest{Kind: store.RequestRelease, Group: record.Group, Slot: req.GetSlot(), Reason: req.GetReason()})
	if err != nil {
		return nil, err
	}
	return &apiv1.ReleaseSlotResponse{Changed: true, RequestId: id}, nil
}
