package clienttest

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/client"
	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// marksAt is when every mark is set, unless MarksNow says otherwise.
var marksAt = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// SetMark implements ControlService.
func (s *Server) SetMark(ctx context.Context, r *apiv1.SetMarkRequest) (*apiv1.SetMarkResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "SetMark"); err != nil {
		return nil, err
	}
	if strings.TrimSpace(r.GetReason()) == "" {
		return nil, status.Error(codes.InvalidArgument, "reason: is missing: it stands in the record of what was done")
	}
	m := &apiv1.Mark{Kind: r.GetKind(), Name: r.GetName(), Reason: r.GetReason(), By: "operator", At: timestamppb.New(marksAt)}
	if s.MarksNow {
		m.At = timestamppb.Now()
	}
	if r.GetFor() != nil {
		m.Until = timestamppb.New(m.GetAt().AsTime().Add(r.GetFor().AsDuration()))
	}
	s.clearMarkLocked(r.GetKind(), r.GetName())
	s.marks = append(s.marks, m)
	s.obeyLocked(r.GetKind(), r.GetName(), true)
	return &apiv1.SetMarkResponse{Changed: true, Mark: m}, nil
}

// ClearMark implements ControlService.
func (s *Server) ClearMark(ctx context.Context, r *apiv1.ClearMarkRequest) (*apiv1.ClearMarkResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ClearMark"); err != nil {
		return nil, err
	}
	return &apiv1.ClearMarkResponse{Changed: s.clearMarkLocked(r.GetKind(), r.GetName())}, nil
}

// ListMarks implements ControlService.
func (s *Server) ListMarks(ctx context.Context, _ *apiv1.ListMarksRequest) (*apiv1.ListMarksResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListMarks"); err != nil {
		return nil, err
	}
	return &apiv1.ListMarksResponse{Marks: s.marks}, nil
}

func (s *Server) clearMarkLocked(kind apiv1.MarkKind, name string) bool {
	for i, m := range s.marks {
		if m.GetKind() == kind && m.GetName() == name {
			s.marks = append(s.marks[:i:i], s.marks[i+1:]...)
			s.obeyLocked(kind, name, false)
			return true
		}
	}
	return false
}

// EndMarks lets the time of all marks be over.
func (s *Server) EndMarks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = nil
}

// StandingMarks are the marks that stand.
func (s *Server) StandingMarks() []*apiv1.Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.marks)
}

// obeyLocked has a slot do at once what its drain asks for, where MarksNow says so.
func (s *Server) obeyLocked(kind apiv1.MarkKind, name string, drained bool) {
	if kind != apiv1.MarkKind_MARK_KIND_DRAIN || !s.MarksNow {
		return
	}
	for _, g := range s.groups {
		for i := range g.Status.Instances {
			one := &g.Status.Instances[i]
			switch {
			case one.Slot != name:
			case drained:
				one.State, one.Drain = client.StateDrained, &group.Mark{Reason: "obeyed"}
			default:
				one.State, one.Drain = client.StateAvailable, nil
			}
		}
	}
}
