package server

import (
	"context"
	"regexp"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// gateService serves GateService.
type gateService struct {
	apiv1.UnimplementedGateServiceServer
	s *Server
}

// ticketForm is the form of rollout.Action.Ticket.
var ticketForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// SetGate implements GateService.
func (g gateService) SetGate(ctx context.Context, req *apiv1.SetGateRequest) (*apiv1.SetGateResponse, error) {
	scope, key, err := gateKey(req.GetGroup(), req.GetGate(), req.GetSlot())
	if err != nil {
		return nil, err
	}
	c, err := g.s.decider(ctx, key, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	if err := needReason(req.GetReason()); err != nil {
		return nil, err
	}
	gate, err := c.gateThatIsThere(ctx, req)
	if err != nil {
		return nil, err
	}
	setting := store.Override{State: req.GetState(), Ticket: req.GetTicket(), Reason: req.GetReason(), By: c.by, At: c.now()}
	if req.GetFor() != nil {
		length := req.GetFor().AsDuration()
		if length <= 0 || length > maxOverrideTime {
			return nil, status.Errorf(codes.InvalidArgument, "for: %s is out of range: more than 0, at most %s; leave it out for a setting until the next one", length, maxOverrideTime)
		}
		setting.Until = setting.At.Add(length)
	}
	verb := "close-gate"
	if setting.State == group.GateOpen {
		verb = "open-gate"
	}
	changed, err := c.setOverride(ctx, verb, key, setting)
	if err != nil {
		return nil, err
	}
	if changed {
		g.s.cfg.Log.Info("override set", "kind", verb, "name", scope, "until", setting.Until, "by", c.by, "reason", setting.Reason)
	}
	out := wireGate(req.GetGroup(), gate)
	out.Slot, out.State, out.Ticket = req.GetSlot(), setting.State, setting.Ticket
	c.addSetting(out, setting)
	return &apiv1.SetGateResponse{Changed: changed, Gate: out}, nil
}

// ClearGate implements GateService. It also takes back a setting of a gate that the spec lacks.
func (g gateService) ClearGate(ctx context.Context, req *apiv1.ClearGateRequest) (*apiv1.ClearGateResponse, error) {
	scope, key, err := gateKey(req.GetGroup(), req.GetGate(), req.GetSlot())
	if err != nil {
		return nil, err
	}
	c, err := g.s.decider(ctx, key, "gate", req.GetGate())
	if err != nil {
		return nil, err
	}
	changed, err := c.remove(ctx, "end-gate", "", key)
	switch {
	case err != nil:
		return nil, err
	case changed:
		g.s.cfg.Log.Info("override taken back", "kind", store.OverrideGate, "name", scope, "by", c.by)
	default:
		_, err = c.gateNamed(ctx, req.GetGroup(), req.GetGate())
	}
	return &apiv1.ClearGateResponse{Changed: changed}, err
}

// ListGates implements GateService. Consul decides which groups the caller may read.
func (g gateService) ListGates(ctx context.Context, req *apiv1.ListGatesRequest) (*apiv1.ListGatesResponse, error) {
	c, err := g.s.caller(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{req.GetGroup()}
	if req.GetGroup() == "" {
		readable, err := c.readable(ctx)
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(c.view.Groups(), func(name string) bool { return !readable[name] })
	} else if err := c.mayReadNamed(ctx, req.GetGroup()); err != nil {
		return nil, err
	}
	out := &apiv1.ListGatesResponse{}
	for _, name := range names {
		out.Gates = append(out.Gates, c.gatesOf(ctx, name)...)
	}
	return out, nil
}

// gatesOf lists the gates of a group. Without a plan, which an unreadable spec prevents, gates per
// slot are listed without steps.
func (c *caller) gatesOf(ctx context.Context, name string) (out []*apiv1.Gate) {
	spec := c.view.Specs[name].Value
	var plan rollout.Plan
	if slices.ContainsFunc(spec.Gates, group.Gate.PerSlot) {
		plan, _ = c.server.plan(ctx, c.view, name, nil)
	}
	for _, gate := range spec.Gates {
		scopes := map[string]*rollout.Action{}
		if gate.PerSlot() {
			for i := range plan.Actions {
				if a := &plan.Actions[i]; a.Ticket != "" {
					scopes[a.Slot] = a
				}
			}
			for scope := range c.view.Overrides[store.OverrideGate] {
				of, named, slot, ok := store.GateScope(scope)
				if ok && of == name && named == gate.Name && slot != "" && scopes[slot] == nil {
					scopes[slot] = nil
				}
			}
		}
		if len(scopes) == 0 {
			scopes[""] = nil
		}
		slots := make([]string, 0, len(scopes))
		for slot := range scopes {
			slots = append(slots, slot)
		}
		slices.SortFunc(slots, func(a, b string) int {
			_, x, _ := group.ParseSlot(a)
			_, y, _ := group.ParseSlot(b)
			return x - y
		})
		for _, slot := range slots {
			out = append(out, c.gate(name, gate, slot, scopes[slot]))
		}
	}
	return out
}

// gate is one gate, for one slot if it is per slot; a is the slot's step or nil.
func (c *caller) gate(name string, gate group.Gate, slot string, a *rollout.Action) *apiv1.Gate {
	out := wireGate(name, gate)
	out.Slot = slot
	if a != nil {
		out.Step, out.Ticket = string(a.Kind), a.Ticket
	}
	scope, _, _ := gateKey(name, gate.Name, slot)
	rec, given := c.view.Overrides[store.OverrideGate][scope]
	if !given || !c.stands(rec.Value) {
		return out
	}
	setting := rec.Value
	c.addSetting(out, setting)
	out.State = group.GateClosed
	if setting.State == group.GateOpen && (!gate.PerSlot() || a != nil && setting.Ticket == a.Ticket) {
		out.State = group.GateOpen
	}
	return out
}

func wireGate(name string, gate group.Gate) *apiv1.Gate {
	return &apiv1.Gate{Group: name, Gate: gate.Name, On: gate.On, Per: gate.Per, State: gate.Default}
}

// addSetting adds the setting in effect, with its remaining time, which does not depend on the caller's
// clock.
func (c *caller) addSetting(out *apiv1.Gate, setting store.Override) {
	out.Set, out.By, out.Reason = true, setting.By, setting.Reason
	if !setting.At.IsZero() {
		out.At = timestamppb.New(setting.At)
	}
	if end := c.end(setting); !end.IsZero() {
		out.Until, out.Left = timestamppb.New(end), durationpb.New(max(end.Sub(c.now()), time.Duration(0)))
	}
}

// gateKey returns the scope and the key of a setting; the error names the field.
func gateKey(name, gate, slot string) (scope, key string, err error) {
	if p := group.NameProblem(name); p != "" {
		return "", "", status.Errorf(codes.InvalidArgument, "group: %.64q %s", name, p)
	}
	if p := group.NameProblem(gate); p != "" {
		return "", "", status.Errorf(codes.InvalidArgument, "gate: %.64q %s", gate, p)
	}
	scope = name + "/" + gate
	if slot != "" {
		of, _, err := group.ParseSlot(slot)
		if err != nil {
			return "", "", status.Error(codes.InvalidArgument, "slot: "+err.Error())
		}
		if of != name {
			return "", "", status.Errorf(codes.InvalidArgument, "slot: %s is a slot of group %s: name a slot of %s", slot, of, name)
		}
		scope += "/" + slot
	}
	return scope, store.OverrideKey(store.OverrideGate, scope), nil
}

// gateNamed returns a gate of the stored spec. With a misspelt name a setting would open nothing.
func (c *caller) gateNamed(ctx context.Context, name, gate string) (group.Gate, error) {
	if err := c.mayReadNamed(ctx, name); err != nil {
		return group.Gate{}, err
	}
	found, ok := c.view.Specs[name].Value.Gate(gate)
	if !ok {
		return found, status.Errorf(codes.NotFound, "gate: the spec of %s has no gate %s; `cadre gate list %s` shows its gates", name, gate, name)
	}
	return found, nil
}

// gateThatIsThere checks a setting against the gate that it is about.
func (c *caller) gateThatIsThere(ctx context.Context, req *apiv1.SetGateRequest) (group.Gate, error) {
	gate, err := c.gateNamed(ctx, req.GetGroup(), req.GetGate())
	if err != nil {
		return gate, err
	}
	opens := req.GetState() == group.GateOpen
	invalid := func(format string, args ...any) (group.Gate, error) {
		return gate, status.Errorf(codes.InvalidArgument, format, args...)
	}
	switch {
	case !opens && req.GetState() != group.GateClosed:
		return invalid("state: %.64q is unknown: use %s or %s", req.GetState(), group.GateOpen, group.GateClosed)
	case gate.PerSlot() && req.GetSlot() == "":
		return invalid("slot: is missing: gate %s of %s has per = %q", gate.Name, req.GetGroup(), group.GatePerSlot)
	case !gate.PerSlot() && req.GetSlot() != "":
		return invalid("slot: leave it out: gate %s of %s is of the whole group", gate.Name, req.GetGroup())
	case gate.PerSlot() && opens && !ticketForm.MatchString(req.GetTicket()):
		return invalid("ticket: %.64q is no ticket: use the 16 digits that `cadre gate list %s` shows for the step of %s", req.GetTicket(), req.GetGroup(), req.GetSlot())
	case (!gate.PerSlot() || !opens) && req.GetTicket() != "":
		return invalid("ticket: leave it out: it only opens a gate with per = %q", group.GatePerSlot)
	case req.GetSlot() != "":
		_, err = c.mayReadSlot(ctx, req.GetSlot())
	}
	return gate, err
}
