package clienttest

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Admission is what a Server knows about admission.
type Admission struct {
	Standings    []policy.Standing
	Explanations map[string]policy.Explanation
	// CutOff are the Slots that any revocation or floor names.
	CutOff   []string
	Warnings []string
}

// SetAdmission replaces what is known about admission.
func (s *Server) SetAdmission(a Admission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admission = a
}

// Decided lists what operators decided, in words, in order.
func (s *Server) Decided() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.decided)
}

// decideLocked notes what was decided and reports whether it is new.
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
	for _, one := range s.admission.Standings {
		if r.GetGroup() == "" || r.GetGroup() == one.Group {
			out.StandingsJson = append(out.StandingsJson, encode(one))
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
