package clienttest

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// SetOperators replaces the operators.
func (s *Server) SetOperators(all []*apiv1.Operator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operators = all
}

// TokenDigests lists the digests that AddOperator and RotateOperator received.
func (s *Server) TokenDigests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.digests)
}

func (s *Server) operatorLocked(name string) (*apiv1.Operator, error) {
	for _, one := range s.operators {
		if one.GetName() == name {
			return one, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "name: there is no operator %s; `cadre operator list` shows the operators", name)
}

// AddOperator implements OperatorService.
func (s *Server) AddOperator(ctx context.Context, r *apiv1.AddOperatorRequest) (*apiv1.AddOperatorResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "AddOperator"); err != nil {
		return nil, err
	}
	if _, err := s.operatorLocked(r.GetName()); err == nil {
		return nil, status.Errorf(codes.AlreadyExists, "name: operator %s exists already", r.GetName())
	}
	s.digests = append(s.digests, r.GetSha256())
	one := &apiv1.Operator{Name: r.GetName(), Role: r.GetRole(), Groups: r.GetGroups(), Expires: r.GetExpires(), By: "operator"}
	s.operators = append(s.operators, one)
	return &apiv1.AddOperatorResponse{Operator: one}, nil
}

// ListOperators implements OperatorService.
func (s *Server) ListOperators(ctx context.Context, _ *apiv1.ListOperatorsRequest) (*apiv1.ListOperatorsResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListOperators"); err != nil {
		return nil, err
	}
	return &apiv1.ListOperatorsResponse{Operators: s.operators}, nil
}

// RemoveOperator implements OperatorService.
func (s *Server) RemoveOperator(ctx context.Context, r *apiv1.RemoveOperatorRequest) (*apiv1.RemoveOperatorResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "RemoveOperator"); err != nil {
		return nil, err
	}
	one, err := s.operatorLocked(r.GetName())
	if err != nil {
		return nil, err
	}
	s.operators = slices.DeleteFunc(s.operators, func(o *apiv1.Operator) bool { return o == one })
	return &apiv1.RemoveOperatorResponse{Operator: one}, nil
}

// RotateOperator implements OperatorService.
func (s *Server) RotateOperator(ctx context.Context, r *apiv1.RotateOperatorRequest) (*apiv1.RotateOperatorResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "RotateOperator"); err != nil {
		return nil, err
	}
	one, err := s.operatorLocked(r.GetName())
	if err != nil {
		return nil, err
	}
	s.digests = append(s.digests, r.GetSha256())
	one.NextExpires = r.GetExpires()
	return &apiv1.RotateOperatorResponse{Operator: one}, nil
}

// ShowOperator implements OperatorService: the caller is the first operator.
func (s *Server) ShowOperator(ctx context.Context, _ *apiv1.ShowOperatorRequest) (*apiv1.ShowOperatorResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ShowOperator"); err != nil {
		return nil, err
	}
	if len(s.operators) == 0 {
		return &apiv1.ShowOperatorResponse{Operator: &apiv1.Operator{Name: "by hand"}}, nil
	}
	return &apiv1.ShowOperatorResponse{Operator: s.operators[0]}, nil
}
