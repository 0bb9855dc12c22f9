package server

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// ListAdmissions implements PolicyService.
func (s *Server) ListAdmissions(ctx context.Context, req *apiv1.ListAdmissionsRequest) (*apiv1.ListAdmissionsResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	readable, err := c.readable(ctx)
	if err != nil {
		return nil, err
	}
	if name := req.GetGroup(); name != "" && !readable[name] {
		return nil, status.Error(codes.NotFound, "no such group: "+name)
	}
	out := &apiv1.ListAdmissionsResponse{Simulated: s.cfg.Simulated}
	now := s.cfg.Now().UTC()
	for _, name := range c.view.Groups() {
		if !readable[name] || req.GetGroup() != "" && req.GetGroup() != name {
			continue
		}
		for _, record := range c.view.SlotsOf(name) {
			admissionStatus := policy.StatusOf(s.facts(c.view, record, c.view.Decisions(ctx, record.Slot)), now)
			admissionStatus.Simulated = admissionStatus.Simulated || s.cfg.Simulated
			if err := appendJSON(&out.AdmissionStatusesJson, admissionStatus); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// ExplainAdmission implements PolicyService.
func (s *Server) ExplainAdmission(ctx context.Context, req *apiv1.ExplainAdmissionRequest) (*apiv1.ExplainAdmissionResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	record, decided, gone, err := c.mayReadDecided(ctx, req.GetSlot())
	if err != nil {
		return nil, err
	}
	e := policy.Explain(s.facts(c.view, record, decided), s.cfg.Now().UTC())
	if gone {
		// The decisions have the last refusal; no action is possible for a removed slot.
		e.Code, e.Why, e.Next = policy.CodeSlotUnknown, "the slot was removed; its decisions are kept for 30 days", nil
	}
	e.Simulated = e.Simulated || s.cfg.Simulated
	text, err := encode(e)
	if err != nil {
		return nil, err
	}
	return &apiv1.ExplainAdmissionResponse{ExplanationJson: text, Simulated: s.cfg.Simulated}, nil
}

// facts returns the records about one Slot, with the policy that admission would apply now. That is
// the policy as the leader folded it, with every revocation.
func (s *Server) facts(v *view.View, record group.SlotRecord, decided policy.Decisions) policy.Facts {
	f := policy.Facts{Group: record.Group, Slot: record.Slot, Images: v.Judging(s.cfg.Images), Gate: v.Gate.Groups[record.Group].Value}
	f.Policy = v.Policies[record.Slot].Value.Revoking(v.Gate.Revocations)
	f.Decisions = decided
	if a, ok := v.Admissions[record.Slot]; ok {
		f.Admission = &a.Value
	}
	if m, ok := v.MachineOf(record.Slot); ok {
		f.Machine, f.Sharing = m, v.OnMachineOf(record.Group, record.Slot)
	}
	if r, ok := v.Refusals[record.Slot]; ok {
		f.Refusal = &r.Value
	}
	return f
}

// cutOff lists the Slots that lose their admission when v turns into after.
func cutOff(v, after *view.View) []string {
	var out []string
	for slot, a := range v.Admissions {
		before := policy.Barred(a.Value, v.Folded(v.Policies[slot].Value))
		then := policy.Barred(a.Value, after.Folded(after.Policies[slot].Value))
		if before.Code == "" && then.Code != "" {
			out = append(out, slot)
		}
	}
	slices.Sort(out)
	return out
}
