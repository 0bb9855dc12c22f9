package clienttest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Admission is a Server's state of admission.
type Admission struct {
	Statuses     []policy.AdmissionStatus
	Explanations map[string]policy.Explanation
	// CutOff are the Slots in the answer to any revocation or floor.
	CutOff   []string
	Warnings []string
	// TCB has the operators' decisions about machines.
	TCB policy.TCBOverview
}

// SetAdmission replaces the state of admission.
func (s *Server) SetAdmission(a Admission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admission = a
}

// Decided lists the operators' decisions as text, in order.
func (s *Server) Decided() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.decided)
}

// decideLocked records a decision and reports whether it is new.
func (s *Server) decideLocked(parts ...string) bool {
	text := strings.Join(parts, " ")
	if slices.Contains(s.decided, text) {
		return false
	}
	s.decided = append(s.decided, text)
	return true
}

// ListAdmissions implements PolicyService.
func (s *Server) ListAdmissions(ctx context.Context, r *apiv1.ListAdmissionsRequest) (*apiv1.ListAdmissionsResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListAdmissions"); err != nil {
		return nil, err
	}
	out := &apiv1.ListAdmissionsResponse{Simulated: true}
	for _, one := range s.admission.Statuses {
		if r.GetGroup() == "" || r.GetGroup() == one.Group {
			out.AdmissionStatusesJson = append(out.AdmissionStatusesJson, encode(one))
		}
	}
	return out, nil
}

// ExplainAdmission implements PolicyService.
func (s *Server) ExplainAdmission(ctx context.Context, r *apiv1.ExplainAdmissionRequest) (*apiv1.ExplainAdmissionResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ExplainAdmission"); err != nil {
		return nil, err
	}
	e, ok := s.admission.Explanations[r.GetSlot()]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "no such slot: %s", r.GetSlot())
	}
	return &apiv1.ExplainAdmissionResponse{ExplanationJson: encode(e), Simulated: true}, nil
}

// ApproveRevision implements PolicyService.
func (s *Server) ApproveRevision(ctx context.Context, r *apiv1.ApproveRevisionRequest) (*apiv1.ApproveRevisionResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ApproveRevision"); err != nil {
		return nil, err
	}
	verb := "approve"
	if r.GetWithdraw() {
		verb = "withdraw"
	}
	return &apiv1.ApproveRevisionResponse{
		Revision: r.GetRevision(), Group: "worker", Number: 7, ComposeHash: appcompose.Hash([]byte(Document)), Changed: s.decideLocked(verb, r.GetRevision(), r.GetGroup(), r.GetNote()), Warnings: s.admission.Warnings,
	}, nil
}

// Document is the app-compose.json of every Revision.
const Document = `{"docker_compose_file":"services: {}"}`

// GetAppCompose implements PolicyService.
func (s *Server) GetAppCompose(ctx context.Context, r *apiv1.GetAppComposeRequest) (*apiv1.GetAppComposeResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "GetAppCompose"); err != nil {
		return nil, err
	}
	out := &apiv1.GetAppComposeResponse{Revision: r.GetRevision(), Group: "worker", ComposeHash: appcompose.Hash([]byte(Document)), AppCompose: []byte(Document)}
	if r.GetRevision() == "edited" {
		out.AppCompose = []byte("{}")
	}
	return out, nil
}

// Revoke implements PolicyService.
func (s *Server) Revoke(ctx context.Context, r *apiv1.RevokeRequest) (*apiv1.RevokeResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "Revoke"); err != nil {
		return nil, err
	}
	out := &apiv1.RevokeResponse{Id: r.GetId(), Slots: s.admission.CutOff, Warnings: s.admission.Warnings, Changed: true}
	if !r.GetDryRun() {
		out.Changed = s.decideLocked("revoke", r.GetKind().String(), r.GetId(), r.GetReason())
	}
	return out, nil
}

// Unrevoke implements PolicyService.
func (s *Server) Unrevoke(ctx context.Context, r *apiv1.UnrevokeRequest) (*apiv1.UnrevokeResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "Unrevoke"); err != nil {
		return nil, err
	}
	return &apiv1.UnrevokeResponse{Id: r.GetId(), Changed: s.decideLocked("unrevoke", r.GetKind().String(), r.GetId())}, nil
}

// ReleaseSlot implements PolicyService.
func (s *Server) ReleaseSlot(ctx context.Context, r *apiv1.ReleaseSlotRequest) (*apiv1.ReleaseSlotResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ReleaseSlot"); err != nil {
		return nil, err
	}
	return &apiv1.ReleaseSlotResponse{Changed: s.decideLocked("release", r.GetSlot(), r.GetReason()), RequestId: "release-1"}, nil
}

// RaiseFloor implements PolicyService.
func (s *Server) RaiseFloor(ctx context.Context, r *apiv1.RaiseFloorRequest) (*apiv1.RaiseFloorResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "RaiseFloor"); err != nil {
		return nil, err
	}
	out := &apiv1.RaiseFloorResponse{Slots: s.admission.CutOff, Warnings: s.admission.Warnings, Changed: true}
	if r.GetGroup() != "" {
		out.Number, out.Revision = 7, "ffeeddccbbaa99887766554433221100"
	}
	if !r.GetDryRun() {
		out.Changed = s.decideLocked("floor", r.GetGroup(), r.GetRevision(), r.GetReason())
	}
	return out, nil
}

// ListTCB implements PolicyService.
func (s *Server) ListTCB(ctx context.Context, _ *apiv1.ListTCBRequest) (*apiv1.ListTCBResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListTCB"); err != nil {
		return nil, err
	}
	return &apiv1.ListTCBResponse{OverviewJson: encode(s.admission.TCB)}, nil
}

// GrantTCBException implements PolicyService.
func (s *Server) GrantTCBException(ctx context.Context, r *apiv1.GrantTCBExceptionRequest) (*apiv1.GrantTCBExceptionResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "GrantTCBException"); err != nil {
		return nil, err
	}
	s.decideLocked("tolerate", r.GetStatus(), strings.Join(r.GetAdvisories(), "+"), r.GetFmspc(), r.GetFor().AsDuration().String(), r.GetReason())
	return &apiv1.GrantTCBExceptionResponse{Id: "tcb-1", Until: timestamppb.New(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC).Add(r.GetFor().AsDuration()))}, nil
}

// RevokeTCBException implements PolicyService.
func (s *Server) RevokeTCBException(ctx context.Context, r *apiv1.RevokeTCBExceptionRequest) (*apiv1.RevokeTCBExceptionResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "RevokeTCBException"); err != nil {
		return nil, err
	}
	return &apiv1.RevokeTCBExceptionResponse{Changed: s.decideLocked("tolerate no more", r.GetId())}, nil
}

// LowerCollateral implements PolicyService.
func (s *Server) LowerCollateral(ctx context.Context, r *apiv1.LowerCollateralRequest) (*apiv1.LowerCollateralResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "LowerCollateral"); err != nil {
		return nil, err
	}
	return &apiv1.LowerCollateralResponse{Changed: s.decideLocked("lower", r.GetFmspc(), strconv.Itoa(int(r.GetEvaluation())), r.GetReason())}, nil
}
