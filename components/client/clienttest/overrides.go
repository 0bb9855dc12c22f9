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

// overridesAt is the time of every override, unless OverridesNow is set.
var overridesAt = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// SetOverride implements ControlService.
func (s *Server) SetOverride(ctx context.Context, r *apiv1.SetOverrideRequest) (*apiv1.SetOverrideResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "SetOverride"); err != nil {
		return nil, err
	}
	if strings.TrimSpace(r.GetReason()) == "" && r.GetKind() != apiv1.OverrideKind_OVERRIDE_KIND_PAUSE {
		return nil, status.Error(codes.InvalidArgument, "reason: is missing: the record of the action needs it")
	}
	m := &apiv1.Override{Kind: r.GetKind(), Name: r.GetName(), From: r.GetFrom(), Reason: r.GetReason(), By: "operator", At: timestamppb.New(overridesAt)}
	if s.OverridesNow {
		m.At = timestamppb.Now()
	}
	if r.GetFor() != nil {
		m.Until, m.Left = timestamppb.New(m.GetAt().AsTime().Add(r.GetFor().AsDuration())), r.GetFor()
	}
	s.clearOverrideLocked(r.GetKind(), r.GetName())
	s.overrides = append(s.overrides, m)
	s.pauseLocked(r.GetKind(), r.GetName(), true)
	s.obeyLocked(r.GetName())
	return &apiv1.SetOverrideResponse{Changed: true, Override: m}, nil
}

// ClearOverride implements ControlService.
func (s *Server) ClearOverride(ctx context.Context, r *apiv1.ClearOverrideRequest) (*apiv1.ClearOverrideResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ClearOverride"); err != nil {
		return nil, err
	}
	changed := s.clearOverrideLocked(r.GetKind(), r.GetName())
	changed = s.pauseLocked(r.GetKind(), r.GetName(), false) || changed
	if !changed && !s.hasLocked(r.GetName()) {
		return nil, status.Errorf(codes.NotFound, "no such slot or group: %s", r.GetName())
	}
	s.obeyLocked(r.GetName())
	return &apiv1.ClearOverrideResponse{Changed: changed}, nil
}

// ListOverrides implements ControlService.
func (s *Server) ListOverrides(ctx context.Context, _ *apiv1.ListOverridesRequest) (*apiv1.ListOverridesResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "ListOverrides"); err != nil {
		return nil, err
	}
	return &apiv1.ListOverridesResponse{Overrides: s.overrides}, nil
}

// pauseLocked writes a pause into the status of a group; changed: the status differed.
func (s *Server) pauseLocked(kind apiv1.OverrideKind, name string, stands bool) (changed bool) {
	g := s.groups[name]
	if kind != apiv1.OverrideKind_OVERRIDE_KIND_PAUSE || g == nil {
		return false
	}
	changed = g.Status.Paused != stands
	g.Status.Paused = stands
	s.wakeLocked()
	return changed
}

// hasLocked reports whether a group, or a slot of one, exists; "" means everything.
func (s *Server) hasLocked(name string) bool {
	if of, _, isHold := strings.Cut(name, "/"); isHold {
		return s.groups[of] != nil
	}
	if owner, ordinal, err := group.ParseSlot(name); err == nil && s.groups[owner] != nil {
		return s.groups[owner].Spec.HasOrdinal(ordinal)
	}
	return name == "" || s.groups[name] != nil
}

func (s *Server) clearOverrideLocked(kind apiv1.OverrideKind, name string) bool {
	for i, m := range s.overrides {
		if m.GetKind() == kind && m.GetName() == name {
			s.overrides = append(s.overrides[:i:i], s.overrides[i+1:]...)
			return true
		}
	}
	return false
}

// EndOverrides expires all overrides.
func (s *Server) EndOverrides() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.overrides
	s.overrides = nil
	for _, m := range ended {
		s.obeyLocked(m.GetName())
	}
}

// ActiveOverrides returns the overrides in effect.
func (s *Server) ActiveOverrides() []*apiv1.Override {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.overrides)
}

// obeyLocked applies a slot's overrides at once if OverridesNow is set. Like the leader it holds
// the drain of a protected slot; a slot that is drained already stays drained.
func (s *Server) obeyLocked(slot string) {
	if !s.OverridesNow {
		return
	}
	for _, g := range s.groups {
		for i := range g.Status.Instances {
			if one := &g.Status.Instances[i]; one.Slot == slot {
				one.Drain = s.overrideLocked(apiv1.OverrideKind_OVERRIDE_KIND_DRAIN, slot)
				one.Protection = s.overrideLocked(apiv1.OverrideKind_OVERRIDE_KIND_PROTECT, slot)
				one.Exclusion = s.overrideLocked(apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE, slot)
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

// overrideLocked returns the override in the form of a slot's status; nil: it is not in effect.
func (s *Server) overrideLocked(kind apiv1.OverrideKind, name string) *group.Override {
	for _, m := range s.overrides {
		if m.GetKind() == kind && m.GetName() == name {
			out := &group.Override{Reason: m.GetReason(), By: m.GetBy()}
			if kind == apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE {
				out.From = group.ExclusionOf(m.GetFrom()).Words()
			}
			return out
		}
	}
	return nil
}
