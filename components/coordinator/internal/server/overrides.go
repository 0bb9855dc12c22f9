package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// maxOverrideTime bounds the time after which an override ends automatically.
const maxOverrideTime = 366 * 24 * time.Hour

// SetOverride implements ControlService.
func (s *Server) SetOverride(ctx context.Context, req *apiv1.SetOverrideRequest) (*apiv1.SetOverrideResponse, error) {
	if req.GetKind() == apiv1.OverrideKind_OVERRIDE_KIND_HOLD {
		return s.overrideHold(ctx, req)
	}
	key, err := overrideKey(req.GetKind(), req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.decider(ctx, key, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	if err := checkFrom(req.GetKind(), req.GetFrom()); err != nil {
		return nil, err
	}
	if err := needReason(req.GetReason()); err != nil && req.GetKind() != apiv1.OverrideKind_OVERRIDE_KIND_PAUSE {
		return nil, err
	}
	if err := c.overridesWhatIsThere(ctx, req.GetKind(), req.GetName()); err != nil {
		return nil, err
	}
	override := store.Override{From: req.GetFrom(), Reason: req.GetReason(), By: c.by, At: c.now()}
	if req.GetFor() != nil {
		length := req.GetFor().AsDuration()
		if length <= 0 || length > maxOverrideTime {
			return nil, status.Errorf(codes.InvalidArgument, "for: %s is out of range: more than 0, at most %s; leave it out for an override until it is cleared", length, maxOverrideTime)
		}
		override.Until = override.At.Add(length)
	}
	if req.GetKind() == apiv1.OverrideKind_OVERRIDE_KIND_DRAIN {
		if err := c.notProtected(ctx, req.GetName()); err != nil {
			return nil, err
		}
	}
	changed, err := c.setOverride(ctx, string(overrideKinds[req.GetKind()]), key, override)
	if err != nil {
		return nil, err
	}
	if changed {
		s.cfg.Log.Info("override set", "kind", req.GetKind(), "name", req.GetName(), "until", override.Until, "by", c.by, "reason", override.Reason)
	}
	return &apiv1.SetOverrideResponse{Changed: changed, Override: c.wireOverride(req.GetKind(), req.GetName(), override)}, nil
}

// overrideKinds maps the kinds of a request to those in the records.
var overrideKinds = map[apiv1.OverrideKind]store.OverrideKind{
	apiv1.OverrideKind_OVERRIDE_KIND_PAUSE: store.OverridePause, apiv1.OverrideKind_OVERRIDE_KIND_FREEZE: store.OverrideFreeze,
	apiv1.OverrideKind_OVERRIDE_KIND_DRAIN: store.OverrideDrain, apiv1.OverrideKind_OVERRIDE_KIND_PROTECT: store.OverrideProtect, apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE: store.OverrideExclude,
	apiv1.OverrideKind_OVERRIDE_KIND_HOLD: store.OverrideHold,
}

// wireKind returns the kind of a request for the kind in a record.
func wireKind(stored store.OverrideKind) apiv1.OverrideKind {
	for kind, of := range overrideKinds {
		if of == stored {
			return kind
		}
	}
	return apiv1.OverrideKind_OVERRIDE_KIND_UNSPECIFIED
}

// checkFrom rejects an unknown word in an exclusion, and any word for another kind.
func checkFrom(kind apiv1.OverrideKind, from []string) error {
	if len(from) > 0 && kind != apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE {
		return status.Error(codes.InvalidArgument, "from: is for exclusions only; leave it out")
	}
	for i, word := range from {
		if known := word == group.FromRollout || word == group.FromHealing; !known || slices.Contains(from[:i], word) {
			return status.Errorf(codes.InvalidArgument, "from: %.64q: name %s, %s or both, each once; leave it out for both", word, group.FromRollout, group.FromHealing)
		}
	}
	return nil
}

// overrideKey returns the key of an override; the error names the field.
func overrideKey(kind apiv1.OverrideKind, name string) (string, error) {
	stored, known := overrideKinds[kind]
	switch {
	case kind == apiv1.OverrideKind_OVERRIDE_KIND_UNSPECIFIED:
		return "", status.Error(codes.InvalidArgument, "kind: is missing: use pause, freeze, drain, protect, exclude or hold")
	case !known:
		return "", status.Errorf(codes.InvalidArgument, "kind: %v is not known to this coordinator: it is older than the caller", kind)
	case stored.OfSlot():
		if _, _, err := group.ParseSlot(name); err != nil {
			return "", status.Error(codes.InvalidArgument, "name: "+err.Error())
		}
	case stored == store.OverrideHold:
		if _, _, ok := store.HoldScope(name); !ok {
			return "", status.Errorf(codes.InvalidArgument, "name: %.128q: write GROUP/HOLD", name)
		}
	case name == store.Everywhere:
		return "", status.Error(codes.InvalidArgument, "name: leave it out for all groups")
	case stored == store.OverrideFreeze:
		name = cmp.Or(name, store.Everywhere)
	}
	key := store.OverrideKey(stored, name)
	if err := store.CheckKey(key); err != nil {
		return "", status.Error(codes.InvalidArgument, "name: "+err.Error())
	}
	return key, nil
}

// overridesWhatIsThere rejects an override for a missing target: with a misspelt name it would
// protect nothing.
func (c *caller) overridesWhatIsThere(ctx context.Context, kind apiv1.OverrideKind, name string) error {
	switch {
	case kind == apiv1.OverrideKind_OVERRIDE_KIND_DRAIN:
		_, err := c.mayChangeSlot(ctx, "name", name) // the removal of such a slot would wait for the drain's end
		return err
	case overrideKinds[kind].OfSlot():
		_, err := c.mayReadSlot(ctx, name)
		return err
	}
	return c.mayReadNamed(ctx, name)
}

// mayReadNamed is mayRead for a group that must exist; "" means all groups.
func (c *caller) mayReadNamed(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	if err := c.mayRead(ctx, name); err != nil {
		return err
	}
	if !slices.Contains(c.view.Known(), name) {
		return status.Error(codes.NotFound, "no such group: "+name)
	}
	return nil
}

// notProtected rejects a drain that an existing protection would hold. If the caller may not read
// the protection, the hold reports it later.
func (c *caller) notProtected(ctx context.Context, slot string) error {
	stands := func(key string) (override store.Override, ok bool) {
		override, index, err := store.Read[store.Override](ctx, c.store, key)
		return override, (err == nil || index != 0) && c.stands(override)
	}
	p, protected := stands(store.OverrideKey(store.OverrideProtect, slot))
	if _, drains := stands(store.OverrideKey(store.OverrideDrain, slot)); !protected || drains {
		return nil
	}
	until := ""
	if end := c.end(p); !end.IsZero() {
		until = ", until " + end.UTC().Format(time.RFC3339)
	}
	return status.Errorf(codes.FailedPrecondition, "name: %s is protected (%s: %s%s), and is not drained while the protection is in effect; clear it first: cadre instance unprotect %s",
		slot, cmp.Or(p.By, "unknown"), p.Reason, until, slot)
}

// end returns when an override ends automatically, by this coordinator's clock; zero: when it is
// cleared.
func (c *caller) end(m store.Override) time.Time {
	latest, _ := c.server.cfg.Views.Latest()
	return (&view.View{}).CountLike(latest).End(m)
}

func (c *caller) stands(m store.Override) bool {
	end := c.end(m)
	return end.IsZero() || c.now().Before(end)
}

// setOverride writes an override in place of an existing one. Repeating an override without an end
// changes nothing; for one with an end the time starts again.
func (c *caller) setOverride(ctx context.Context, verb, key string, override store.Override) (changed bool, err error) {
	before, index, err := store.Read[store.Override](ctx, c.store, key)
	switch {
	case err == nil && before.Reason == override.Reason && before.By == override.By && slices.Equal(before.From, override.From) && before.State == override.State && before.Ticket == override.Ticket && before.Until.IsZero() && override.Until.IsZero():
		return false, nil
	case err != nil && !errors.Is(err, store.ErrNotFound) && index == 0:
		return false, wire(err)
	}
	op, err := store.Put(key, override, index)
	if err != nil {
		return false, wire(err)
	}
	return true, wire(c.act(ctx, verb, "", override.Reason, op))
}

// ClearOverride implements ControlService. It also clears an override whose target is gone. If
// neither exists, the name is misspelt.
func (s *Server) ClearOverride(ctx context.Context, req *apiv1.ClearOverrideRequest) (*apiv1.ClearOverrideResponse, error) {
	key, err := overrideKey(req.GetKind(), req.GetName())
	if err != nil {
		return nil, err
	}
	c, err := s.decider(ctx, key, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	changed, err := c.remove(ctx, "end-"+string(overrideKinds[req.GetKind()]), "", key)
	switch {
	case err != nil:
		return nil, err
	case changed:
		s.cfg.Log.Info("override taken back", "kind", req.GetKind(), "name", req.GetName(), "by", c.by)
	case overrideKinds[req.GetKind()].OfSlot():
		_, err = c.mayReadSlot(ctx, req.GetName())
	case req.GetKind() == apiv1.OverrideKind_OVERRIDE_KIND_HOLD:
		of, _, _ := store.HoldScope(req.GetName())
		err = c.mayReadNamed(ctx, of)
	default:
		err = c.mayReadNamed(ctx, req.GetName())
	}
	return &apiv1.ClearOverrideResponse{Changed: changed}, err
}

// ListOverrides implements ControlService, except for settings of gates. Consul decides which overrides the caller may read.
// An override whose time or rollout is over is left out: the leader removes its record later.
func (s *Server) ListOverrides(ctx context.Context, req *apiv1.ListOverridesRequest) (*apiv1.ListOverridesResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	readable := map[string]bool{req.GetGroup(): true}
	if req.GetGroup() == "" {
		readable, err = c.readable(ctx)
	} else {
		err = c.mayRead(ctx, req.GetGroup())
	}
	if err != nil {
		return nil, err
	}
	out := &apiv1.ListOverridesResponse{}
	for _, o := range c.view.AllOverrides() {
		if o.Kind != store.OverrideGate && c.stands(o.Value) && !c.view.RolloutOver(o) && (o.Group == "" || readable[o.Group]) {
			out.Overrides = append(out.Overrides, c.wireOverride(wireKind(o.Kind), strings.TrimPrefix(o.Scope, store.Everywhere), o.Value))
		}
	}
	slices.SortFunc(out.Overrides, func(a, b *apiv1.Override) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out, nil
}

// wireOverride encodes an override with its remaining time, which does not depend on the caller's
// clock.
func (c *caller) wireOverride(kind apiv1.OverrideKind, name string, m store.Override) *apiv1.Override {
	out := &apiv1.Override{Kind: kind, Name: name, From: m.From, Reason: m.Reason, By: m.By, Rollout: m.Rollout}
	if !m.At.IsZero() {
		out.At = timestamppb.New(m.At)
	}
	if end := c.end(m); !end.IsZero() {
		out.Until, out.Left = timestamppb.New(end), durationpb.New(max(end.Sub(c.now()), 0))
	}
	return out
}
