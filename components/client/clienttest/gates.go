package clienttest

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// gateServer serves GateService from the specs and the plans of the groups.
type gateServer struct {
	apiv1.UnimplementedGateServiceServer
	s *Server
}

// GateSettings lists the settings in effect.
func (s *Server) GateSettings() []*apiv1.Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.gateSettings)
}

func (g gateServer) gateLocked(name, gate string) (group.Gate, error) {
	of, ok := g.s.groups[name]
	if !ok {
		return group.Gate{}, status.Errorf(codes.NotFound, "no such group: %s", name)
	}
	found, ok := of.Spec.Gate(gate)
	if !ok {
		return found, status.Errorf(codes.NotFound, "gate: the spec of %s has no gate %s; `cadre gate list %s` shows its gates", name, gate, name)
	}
	return found, nil
}

func (g gateServer) takeLocked(name, gate, slot string) (taken *apiv1.Gate) {
	g.s.gateSettings = slices.DeleteFunc(g.s.gateSettings, func(w *apiv1.Gate) bool {
		is := w.GetGroup() == name && w.GetGate() == gate && w.GetSlot() == slot
		if is {
			taken = w
		}
		return is
	})
	return taken
}

// SetGate implements GateService.
func (g gateServer) SetGate(ctx context.Context, r *apiv1.SetGateRequest) (*apiv1.SetGateResponse, error) {
	defer g.s.mu.Unlock()
	if err := g.s.enter(ctx, "SetGate"); err != nil {
		return nil, err
	}
	gate, err := g.gateLocked(r.GetGroup(), r.GetGate())
	switch {
	case err != nil:
		return nil, err
	case strings.TrimSpace(r.GetReason()) == "":
		return nil, status.Error(codes.InvalidArgument, "reason: is missing: the record of the action needs it")
	case gate.PerSlot() && r.GetSlot() == "":
		return nil, status.Errorf(codes.InvalidArgument, "slot: is missing: gate %s of %s has per = %q", gate.Name, r.GetGroup(), group.GatePerSlot)
	case gate.PerSlot() && r.GetState() == group.GateOpen && r.GetTicket() == "":
		return nil, status.Error(codes.InvalidArgument, "ticket: is missing")
	}
	w := &apiv1.Gate{
		Group: r.GetGroup(), Gate: r.GetGate(), Slot: r.GetSlot(), On: gate.On, Per: gate.Per, State: r.GetState(), Ticket: r.GetTicket(),
		Set: true, By: "operator", Reason: r.GetReason(), At: timestamppb.New(overridesAt),
	}
	if r.GetFor() != nil {
		w.Until, w.Left = timestamppb.New(overridesAt.Add(r.GetFor().AsDuration())), r.GetFor()
	}
	before := g.takeLocked(r.GetGroup(), r.GetGate(), r.GetSlot())
	g.s.gateSettings = append(g.s.gateSettings, w)
	return &apiv1.SetGateResponse{Changed: before.GetState() != w.GetState() || before.GetReason() != w.GetReason() || w.GetUntil() != nil, Gate: w}, nil
}

// ClearGate implements GateService.
func (g gateServer) ClearGate(ctx context.Context, r *apiv1.ClearGateRequest) (*apiv1.ClearGateResponse, error) {
	defer g.s.mu.Unlock()
	if err := g.s.enter(ctx, "ClearGate"); err != nil {
		return nil, err
	}
	if g.takeLocked(r.GetGroup(), r.GetGate(), r.GetSlot()) != nil {
		return &apiv1.ClearGateResponse{Changed: true}, nil
	}
	_, err := g.gateLocked(r.GetGroup(), r.GetGate())
	return &apiv1.ClearGateResponse{}, err
}

// ListGates implements GateService.
func (g gateServer) ListGates(ctx context.Context, r *apiv1.ListGatesRequest) (*apiv1.ListGatesResponse, error) {
	defer g.s.mu.Unlock()
	if err := g.s.enter(ctx, "ListGates"); err != nil {
		return nil, err
	}
	out := &apiv1.ListGatesResponse{}
	for name, of := range g.s.groups {
		if r.GetGroup() != "" && r.GetGroup() != name {
			continue
		}
		for _, gate := range of.Spec.Gates {
			gate, _ = of.Spec.Gate(gate.Name)
			slots := []string{""}
			if gate.PerSlot() {
				slots = slots[:0]
				for _, a := range of.Plan.Actions {
					slots = append(slots, a.Slot)
				}
			}
			for _, slot := range slots {
				one := &apiv1.Gate{Group: name, Gate: gate.Name, Slot: slot, On: gate.On, Per: gate.Per, State: gate.Default}
				for _, w := range g.s.gateSettings {
					if w.GetGroup() == name && w.GetGate() == gate.Name && w.GetSlot() == slot {
						one.Set, one.State, one.By, one.Reason, one.At, one.Until, one.Left = true, w.GetState(), w.GetBy(), w.GetReason(), w.GetAt(), w.GetUntil(), w.GetLeft()
					}
				}
				for _, a := range of.Plan.Actions {
					if slot != "" && a.Slot == slot {
						one.Step, one.Ticket = string(a.Kind), a.Ticket
					}
				}
				out.Gates = append(out.Gates, one)
			}
		}
	}
	slices.SortStableFunc(out.Gates, func(a, b *apiv1.Gate) int { return strings.Compare(a.GetGroup(), b.GetGroup()) })
	return out, nil
}
