package clienttest

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// queueServer serves QueueService: limits that can be set, and a queue that the test gives.
type queueServer struct {
	apiv1.UnimplementedQueueServiceServer
	s *Server
}

// SetQueue sets the answer of ListQueue. Its limits are the ones of SetLimits.
func (s *Server) SetQueue(used *apiv1.LimitsUsed, entries ...*apiv1.QueueEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue, s.used = entries, used
}

// GetLimits implements QueueService.
func (q queueServer) GetLimits(ctx context.Context, _ *apiv1.GetLimitsRequest) (*apiv1.GetLimitsResponse, error) {
	defer q.s.mu.Unlock()
	if err := q.s.enter(ctx, "GetLimits"); err != nil {
		return nil, err
	}
	return &apiv1.GetLimitsResponse{Limits: q.s.limits, Used: q.s.used}, nil
}

// SetLimits implements QueueService.
func (q queueServer) SetLimits(ctx context.Context, r *apiv1.SetLimitsRequest) (*apiv1.SetLimitsResponse, error) {
	defer q.s.mu.Unlock()
	if err := q.s.enter(ctx, "SetLimits"); err != nil {
		return nil, err
	}
	if strings.TrimSpace(r.GetReason()) == "" {
		return nil, status.Error(codes.InvalidArgument, "reason: is missing: the record of the action needs it")
	}
	q.s.limits = &apiv1.Limits{Steps: r.GetSteps(), Rollouts: r.GetRollouts(), Creations: r.GetCreations(), Reason: r.GetReason(), By: "operator", At: timestamppb.New(overridesAt)}
	return &apiv1.SetLimitsResponse{Changed: true, Limits: q.s.limits}, nil
}

// ClearLimits implements QueueService.
func (q queueServer) ClearLimits(ctx context.Context, _ *apiv1.ClearLimitsRequest) (*apiv1.ClearLimitsResponse, error) {
	defer q.s.mu.Unlock()
	if err := q.s.enter(ctx, "ClearLimits"); err != nil {
		return nil, err
	}
	changed := q.s.limits != nil
	q.s.limits = nil
	return &apiv1.ClearLimitsResponse{Changed: changed}, nil
}

// ListQueue implements QueueService.
func (q queueServer) ListQueue(ctx context.Context, _ *apiv1.ListQueueRequest) (*apiv1.ListQueueResponse, error) {
	defer q.s.mu.Unlock()
	if err := q.s.enter(ctx, "ListQueue"); err != nil {
		return nil, err
	}
	return &apiv1.ListQueueResponse{Entries: q.s.queue, Limits: q.s.limits, Used: q.s.used}, nil
}
