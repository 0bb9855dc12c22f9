package clienttest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// WayOut has a Server's answers to operators whose planner cannot continue automatically.
type WayOut struct {
	Replacement *apiv1.ReplaceInstanceResponse
	Retried     *apiv1.RetryRolloutResponse
	Promoted    *apiv1.PromoteRolloutResponse
	Deleted     *apiv1.DeleteGroupResponse
	Adoptable   []rollout.Adoptable
	Warnings    []string
	// HeldDisks of an apply of their group without DeleteDisks.
	HeldDisks []string
	// Carried maps the kind of a request to the Operation that carries it out.
	Carried map[string]operation.Operation
	// Waiting are the requests that have not begun.
	Waiting []client.Asked
}

// SetWayOut replaces the answers.
func (s *Server) SetWayOut(w WayOut) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wayOut = w
}

// askedLocked records a request. A repeated id is the same request, and rejected with other
// content.
func (s *Server) askedLocked(kind, id, what, reason string) error {
	if s.requests == nil {
		s.requests = map[string]string{}
	}
	text := kind + " " + what + ": " + reason
	if old, ok := s.requests[id]; ok && old != text {
		return status.Errorf(codes.InvalidArgument, "request_id: %s belongs to another request already", id)
	}
	if _, ok := s.requests[id]; !ok {
		s.decided = append(s.decided, text)
	}
	s.requests[id] = text
	return nil
}

// ListOperations implements OperationService.
func (s *Server) ListOperations(ctx context.Context, r *apiv1.ListOperationsRequest) (*apiv1.ListOperationsResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListOperations"); err != nil {
		return nil, err
	}
	out := &apiv1.ListOperationsResponse{}
	for _, name := range s.namesLocked() {
		for _, o := range s.groups[name].Operations {
			if r.GetGroup() != "" && r.GetGroup() != name || o.Phase.Ended() && !r.GetAll() {
				continue
			}
			out.OperationsJson = append(out.OperationsJson, encode(o))
		}
	}
	for _, q := range s.wayOut.Waiting {
		out.RequestsJson = append(out.RequestsJson, encode(q))
	}
	return out, nil
}

// CancelRequest implements OperationService.
func (s *Server) CancelRequest(ctx context.Context, r *apiv1.CancelRequestRequest) (*apiv1.CancelRequestResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "CancelRequest"); err != nil {
		return nil, err
	}
	before := len(s.wayOut.Waiting)
	s.wayOut.Waiting = slices.DeleteFunc(slices.Clone(s.wayOut.Waiting), func(q client.Asked) bool { return strings.HasPrefix(q.ID, r.GetRequestId()) })
	return &apiv1.CancelRequestResponse{Changed: len(s.wayOut.Waiting) < before}, nil
}

func (s *Server) operationLocked(id string) (operation.Operation, error) {
	for _, g := range s.groups {
		for _, o := range g.Operations {
			if o.ID == id {
				return o, nil
			}
		}
	}
	if text, ok := s.requests[id]; ok {
		var kind string
		if _, err := fmt.Sscan(text, &kind); err == nil {
			if o, ok := s.wayOut.Carried[kind]; ok {
				return o, nil
			}
		}
	}
	return operation.Operation{}, status.Errorf(codes.NotFound, "no such operation: %s", id)
}

// GetOperation implements OperationService.
func (s *Server) GetOperation(ctx context.Context, r *apiv1.GetOperationRequest) (*apiv1.GetOperationResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "GetOperation"); err != nil {
		return nil, err
	}
	o, err := s.operationLocked(r.GetOperation())
	if err != nil {
		return nil, err
	}
	return &apiv1.GetOperationResponse{OperationJson: encode(o)}, nil
}

// ResolveOperation implements OperationService.
func (s *Server) ResolveOperation(ctx context.Context, r *apiv1.ResolveOperationRequest) (*apiv1.ResolveOperationResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ResolveOperation"); err != nil {
		return nil, err
	}
	o, err := s.operationLocked(r.GetOperation())
	if err != nil {
		return nil, err
	}
	out := &apiv1.ResolveOperationResponse{RequestId: "resolve-1", OperationJson: encode(o), Warnings: s.wayOut.Warnings}
	if r.GetDryRun() {
		return out, nil
	}
	return out, s.askedLocked("resolve", r.GetRequestId(), o.ID+" as "+r.GetAs(), r.GetReason())
}

// ReplaceInstance implements OperationService.
func (s *Server) ReplaceInstance(ctx context.Context, r *apiv1.ReplaceInstanceRequest) (*apiv1.ReplaceInstanceResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ReplaceInstance"); err != nil {
		return nil, err
	}
	out := s.wayOut.Replacement
	if out == nil {
		return nil, status.Errorf(codes.NotFound, "no such slot: %s", r.GetSlot())
	}
	out.RequestId = r.GetRequestId()
	if r.GetDryRun() {
		return out, nil
	}
	return out, s.askedLocked("replace", r.GetRequestId(), r.GetSlot(), r.GetReason())
}

// RetryRollout implements OperationService.
func (s *Server) RetryRollout(ctx context.Context, r *apiv1.RetryRolloutRequest) (*apiv1.RetryRolloutResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "RetryRollout"); err != nil {
		return nil, err
	}
	out := s.wayOut.Retried
	if out == nil {
		return nil, status.Errorf(codes.NotFound, "no such group: %s", r.GetGroup())
	}
	out.RequestId = r.GetRequestId()
	return out, s.askedLocked("retry", r.GetRequestId(), r.GetGroup(), r.GetReason())
}

// PromoteRollout implements OperationService.
func (s *Server) PromoteRollout(ctx context.Context, r *apiv1.PromoteRolloutRequest) (*apiv1.PromoteRolloutResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "PromoteRollout"); err != nil {
		return nil, err
	}
	out := s.wayOut.Promoted
	if out == nil {
		return nil, status.Errorf(codes.NotFound, "no such group: %s", r.GetGroup())
	}
	out.RequestId = r.GetRequestId()
	return out, s.askedLocked("promote", r.GetRequestId(), r.GetGroup(), r.GetReason())
}

// DeleteGroup implements OperationService.
func (s *Server) DeleteGroup(ctx context.Context, r *apiv1.DeleteGroupRequest) (*apiv1.DeleteGroupResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "DeleteGroup"); err != nil {
		return nil, err
	}
	out := s.wayOut.Deleted
	if out == nil {
		return nil, status.Errorf(codes.NotFound, "no such group: %s", r.GetGroup())
	}
	if !r.GetDryRun() {
		s.decideLocked("delete", r.GetGroup(), fmt.Sprintf("keep_cvms=%v delete_disks=%v cancel=%v", r.GetKeepCvms(), r.GetDeleteDisks(), r.GetCancel()), r.GetReason())
		delete(s.groups, r.GetGroup())
	}
	return out, nil
}

// ListAdoptable implements OperationService.
func (s *Server) ListAdoptable(ctx context.Context, _ *apiv1.ListAdoptableRequest) (*apiv1.ListAdoptableResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListAdoptable"); err != nil {
		return nil, err
	}
	out := &apiv1.ListAdoptableResponse{}
	for _, a := range s.wayOut.Adoptable {
		out.AdoptableJson = append(out.AdoptableJson, encode(a))
	}
	return out, nil
}

// AdoptGroup implements OperationService.
func (s *Server) AdoptGroup(ctx context.Context, r *apiv1.AdoptGroupRequest) (*apiv1.AdoptGroupResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "AdoptGroup"); err != nil {
		return nil, err
	}
	out := &apiv1.AdoptGroupResponse{}
	text := ""
	for _, m := range r.GetMembers() {
		out.Slots = append(out.Slots, m.GetSlot())
		text += fmt.Sprintf(" %s=%s/%s", m.GetSlot(), m.GetInstanceId(), m.GetComposeHash())
	}
	out.Changed = s.decideLocked("adopt", r.GetGroup()+text, r.GetReason())
	return out, nil
}
