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
	"cadre.dev/core/rollout"
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
	m := &apiv1.Mark{Kind: r.GetKind(), Name: r.GetName(), From: r.GetFrom(), Reason: r.GetReason(), By: "operator", At: timestamppb.New(marksAt)}
	if s.MarksNow {
		m.At = timestamppb.Now()
	}
	if r.GetFor() != nil {
		m.Until, m.Left = timestamppb.New(m.GetAt().AsTime().Add(r.GetFor().AsDuration())), r.GetFor()
	}
	s.clearMarkLocked(r.GetKind(), r.GetName())
	s.marks = append(s.marks, m)
	s.obeyLocked(r.GetName())
	return &apiv1.SetMarkResponse{Changed: true, Mark: m}, nil
}

// ClearMark implements ControlService.
func (s *Server) ClearMark(ctx context.Context, r *apiv1.ClearMarkRequest) (*apiv1.ClearMarkResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ClearMark"); err != nil {
		return nil, err
	}
	changed := s.clearMarkLocked(r.GetKind(), r.GetName())
	if !changed && !s.hasLocked(r.GetName()) {
		return nil, status.Errorf(codes.NotFound, "no such slot or group: %s", r.GetName())
	}
	s.obeyLocked(r.GetName())
	return &apiv1.ClearMarkResponse{Changed: changed}, nil
}

// ListMarks implements ControlService.
func (s *Server) ListMarks(ctx context.Context, _ *apiv1.ListMarksRequest) (*apiv1.ListMarksResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListMarks"); err != nil {
		return nil, err
	}
	return &apiv1.ListMarksResponse{Marks: s.marks}, nil
}

// hasLocked: there is such a group, or such a slot of one; "" is everything.
func (s *Server) hasLocked(name string) bool {
	if owner, ordinal, err := group.ParseSlot(name); err == nil && s.groups[owner] != nil {
		return s.groups[owner].Spec.HasOrdinal(ordinal)
	}
	return name == "" || s.groups[name] != nil
}

func (s *Server) clearMarkLocked(kind apiv1.MarkKind, name string) bool {
	for i, m := range s.marks {
		if m.GetKind() == kind && m.GetName() == name {
			s.marks = append(s.marks[:i:i], s.marks[i+1:]...)
			return true
		}
	}
	return false
}

// EndMarks lets the time of all marks be over.
func (s *Server) EndMarks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.marks
	s.marks = nil
	for _, m := range ended {
		s.obeyLocked(m.GetName())
	}
}

// StandingMarks are the marks that stand.
func (s *Server) StandingMarks() []*apiv1.Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.marks)
}

// obeyLocked has a slot be at once what its marks ask for, where MarksNow says so. Like the
// leader it holds the drain of a protected slot; one that is drained already stays so.
func (s *Server) obeyLocked(slot string) {
	if !s.MarksNow {
		return
	}
	for _, g := range s.groups {
		for i := range g.Status.Instances {
			if one := &g.Status.Instances[i]; one.Slot == slot {
				one.Drain = s.markLocked(apiv1.MarkKind_MARK_KIND_DRAIN, slot)
				one.Protection = s.markLocked(apiv1.MarkKind_MARK_KIND_PROTECT, slot)
				one.Exclusion = s.markLocked(apiv1.MarkKind_MARK_KIND_EXCLUDE, slot)
				obey(one)
			}
		}
	}
}

func obey(one *group.InstanceStatus) {
	one.Holds = nil
	switch {
	case one.State == client.StateDrained && one.Drain == nil:
		one.State = client.StateAvailable
	case one.State == client.StateDrained || one.Drain == nil:
	case one.Protection != nil:
		one.Holds = []group.Hold{{Predicate: rollout.HoldProtected, Message: one.Slot + " is protected by an operator: " + one.Protection.Reason}}
	default:
		one.State = client.StateDrained
	}
}

// markLocked is the mark as the status of a slot has it; nil: it does not stand.
func (s *Server) markLocked(kind apiv1.MarkKind, name string) *group.Mark {
	for _, m := range s.marks {
		if m.GetKind() == kind && m.GetName() == name {
			out := &group.Mark{Reason: m.GetReason(), By: m.GetBy()}
			if kind == apiv1.MarkKind_MARK_KIND_EXCLUDE {
				out.From = group.ExclusionOf(m.GetFrom()).Words()
			}
			return out
		}
	}
	return nil
}
