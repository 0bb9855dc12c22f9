package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// ApproveRevision implements PolicyService.
func (s *Server) ApproveRevision(ctx context.Context, req *apiv1.ApproveRevisionRequest) (*apiv1.ApproveRevisionResponse, error) {
	c, err := s.decider(ctx, store.ApprovalsPrefix, "note", req.GetNote())
	if err != nil {
		return nil, err
	}
	one, err := findRevision(c.view, req.GetRevision(), req.GetGroup())
	if err != nil {
		return nil, err
	}
	if err := c.mayRead(ctx, one.group); err != nil {
		return nil, err
	}
	out := &apiv1.ApproveRevisionResponse{Revision: one.revision, Group: one.group, Number: one.number, ComposeHash: one.composeHash}
	if req.GetWithdraw() {
		out.Changed, err = c.remove(ctx, "withdraw-approval", req.GetNote(), store.ApprovalKey(one.revision))
		return out, err
	}
	if one.template.Compose == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "the content of revision %s is not recorded any more, so it cannot be reviewed: apply its spec again first", one.revision)
	}
	if problems := s.cfg.Validator.Template(one.template); len(problems) > 0 {
		// The texts are in the order of the compose file; the code is the first problem's.
		err := &group.ValidationError{Group: one.group, Problems: problems}
		return nil, status.Errorf(codes.FailedPrecondition, "%s: revision %s cannot be approved: %v", problems[0].Rule, one.revision, err)
	}
	if out.ComposeHash == "" {
		// No platform was asked yet. The approval covers the document that Cadre renders and would
		// send.
		text, err := s.cfg.Measure.Render(one.group, one.template)
		if err != nil {
			return nil, status.Errorf(codes.FailedPrecondition, "revision %s cannot be measured: %v", one.revision, err)
		}
		out.ComposeHash = appcompose.Hash(text)
	}
	gate := c.view.Gate.Groups[one.group].Value
	if d := gate.Judge(one.revision, group.Content(one.template), out.ComposeHash); d.Code != "" && d.Code != policy.CodeRevisionNotApproved {
		out.Warnings = append(out.Warnings, fmt.Sprintf("it is still not rolled out: %s: %s", d.Code, d.Message))
	}
	if spec, _, ok := c.view.InForce(one.group); ok && !spec.UpdatePolicy.RequireApproval && !c.view.Gate.Required {
		out.Warnings = append(out.Warnings, fmt.Sprintf("group %s does not ask for approvals: set update_policy { require_approval = true }", one.group))
	}
	ownEnv, slots := c.ownEnvOf(one.group, one.template)
	if len(slots) > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("it covers the values of env that %s has of its own now: look at them in the spec's instance blocks too", strings.Join(slots, ", ")))
	}
	out.Changed, err = c.approve(ctx, policy.Approval{
		Revision: one.revision, ComposeHash: out.ComposeHash, OwnEnv: ownEnv, Group: one.group, Note: req.GetNote(), By: c.by, At: s.cfg.Now().UTC(),
	})
	return out, err
}

// ownEnvOf returns the digest of the env values that single Slots of a group override at a
// template, and those Slots.
func (c *caller) ownEnvOf(name string, t group.Template) (ownEnv string, slots []string) {
	spec, _, ok := c.view.InForce(name)
	if !ok {
		return "", nil
	}
	for _, one := range spec.Instances {
		if spec.OwnEnv(one.Ordinal, t) != "" {
			slots = append(slots, group.SlotName(name, one.Ordinal))
		}
	}
	return spec.OwnEnvs(t), slots
}

// approve writes an approval. It replaces one for another compose hash, or for other env values of
// single Slots.
func (c *caller) approve(ctx context.Context, a policy.Approval) (changed bool, err error) {
	key := store.ApprovalKey(a.Revision)
	before, index, err := store.Read[policy.Approval](ctx, c.store, key)
	if err != nil || before.ComposeHash == a.ComposeHash && before.OwnEnv == a.OwnEnv {
		return create(ctx, c, "approve", a.Note, key, a)
	}
	op, err := store.Put(key, a, index)
	if err != nil {
		return false, wire(err)
	}
	return true, wire(c.act(ctx, "approve", "", a.Note, op))
}

// kinds of revocations in the API.
var kinds = map[apiv1.RevocationKind]policy.RevocationKind{
	apiv1.RevocationKind_REVOCATION_KIND_INSTANCE:     policy.RevokedInstance,
	apiv1.RevocationKind_REVOCATION_KIND_REVISION:     policy.RevokedRevision,
	apiv1.RevocationKind_REVOCATION_KIND_KEY_PROVIDER: policy.RevokedKeyProvider,
}

// Revoke implements PolicyService.
func (s *Server) Revoke(ctx context.Context, req *apiv1.RevokeRequest) (*apiv1.RevokeResponse, error) {
	c, err := s.decider(ctx, store.RevocationsPrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	r, warnings, err := c.revocation(req.GetKind(), req.GetId())
	if err != nil {
		return nil, err
	}
	r.Reason, r.By, r.At = req.GetReason(), c.by, s.cfg.Now().UTC()
	after := *c.view
	after.Gate.Revocations = append(slices.Clone(after.Gate.Revocations), r)
	out := &apiv1.RevokeResponse{Id: r.ID, Slots: cutOff(c.view, &after), Warnings: warnings}
	key := store.RevocationKey(r.Name())
	if req.GetDryRun() {
		out.Changed = !slices.ContainsFunc(c.view.Gate.Revocations, func(old policy.Revocation) bool { return old.Name() == r.Name() })
		return out, nil
	}
	if req.GetReason() == "" {
		return nil, status.Error(codes.InvalidArgument, "reason: is missing: it explains later why the slot was cut off")
	}
	out.Changed, err = create(ctx, c, "revoke", r.Reason, key, r)
	return out, err
}

// Unrevoke implements PolicyService.
func (s *Server) Unrevoke(ctx context.Context, req *apiv1.UnrevokeRequest) (*apiv1.UnrevokeResponse, error) {
	c, err := s.decider(ctx, store.RevocationsPrefix, "", "")
	if err != nil {
		return nil, err
	}
	r, _, err := c.revocation(req.GetKind(), req.GetId())
	if err != nil {
		return nil, err
	}
	out := &apiv1.UnrevokeResponse{Id: r.ID}
	out.Changed, err = c.remove(ctx, "unrevoke", "", store.RevocationKey(r.Name()))
	return out, err
}

// revocationID is the grammar of ids in keys. The maximum is that of a key.
var revocationID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:-]{0,299}$`)

// revocation returns the revocation that the request describes, with warnings.
func (c *caller) revocation(wire apiv1.RevocationKind, id string) (r policy.Revocation, warnings []string, err error) {
	kind, ok := kinds[wire]
	if !ok {
		return r, nil, status.Error(codes.InvalidArgument, "kind: use instance, revision or key-provider")
	}
	v := c.view
	r = policy.Revocation{Kind: kind, ID: id}
	known := slices.ContainsFunc(v.Gate.Revocations, func(old policy.Revocation) bool { return old.Name() == r.Name() })
	switch {
	case known:
	case kind == policy.RevokedInstance:
		if record, ok := v.Slots[id]; ok {
			if r.ID = record.Value.InstanceID; r.ID == "" {
				return r, nil, status.Errorf(codes.FailedPrecondition, "slot %s is bound to no instance yet", id)
			}
			break
		}
		r.ID = strings.ToLower(id)
		if !slices.ContainsFunc(slices.Collect(maps.Values(v.Slots)), func(s view.Rec[group.SlotRecord]) bool { return s.Value.InstanceID == r.ID }) {
			warnings = append(warnings, "no slot is bound to this instance now")
		}
	case kind == policy.RevokedRevision:
		one, err := findRevision(v, id, "")
		if err != nil {
			return r, nil, err
		}
		// A compose hash covers all Revisions that measure it.
		if r.ID = one.revision; strings.ToLower(strings.TrimPrefix(id, "0x")) == one.composeHash {
			r.ID = one.composeHash
		}
		if spec, _, ok := v.InForce(one.group); ok && spec.Revision() == one.revision {
			warnings = append(warnings, fmt.Sprintf("group %s is at this revision or rolls out to it: its rollouts stop until the spec asks for another revision", one.group))
		}
	case kind == policy.RevokedKeyProvider:
		r.ID = strings.ToLower(id)
		if r.ID == strings.ToLower(c.server.cfg.Images.KeyProviderID) {
			warnings = append(warnings, "it is the key provider that this cluster pins: no Boot is admitted any more")
		}
	}
	if !revocationID.MatchString(r.ID) {
		return r, nil, status.Errorf(codes.InvalidArgument, "id: %.100q is not an id: letters, digits and . _ : -, at most 300 bytes", id)
	}
	return r, warnings, nil
}

// RaiseFloor implements PolicyService.
func (s *Server) RaiseFloor(ctx context.Context, req *apiv1.RaiseFloorRequest) (*apiv1.RaiseFloorResponse, error) {
	c, err := s.decider(ctx, store.FloorPrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	floor := policy.Floor{Reason: req.GetReason(), By: c.by, At: s.cfg.Now().UTC()}
	if at := req.GetNotBefore(); at != nil {
		floor.NotBefore = at.AsTime()
	}
	out := &apiv1.RaiseFloorResponse{}
	name := req.GetGroup()
	switch {
	case req.GetRevision() != "" && !floor.NotBefore.IsZero():
		return nil, status.Error(codes.InvalidArgument, "revision and not_before: name one of them")
	case req.GetRevision() != "" && name == "":
		return nil, status.Error(codes.InvalidArgument, "group: is missing: the numbers of revisions are each group's own")
	case req.GetRevision() == "" && floor.NotBefore.IsZero():
		return nil, status.Error(codes.InvalidArgument, "revision: is missing: name the oldest revision that may still run")
	case floor.NotBefore.After(floor.At):
		return nil, status.Error(codes.InvalidArgument, "not_before: lies in the future, so nothing that is to come could run either")
	case name == "":
		name = store.Everywhere
	default:
		if err := c.mayRead(ctx, name); err != nil {
			return nil, err
		}
	}
	if req.GetRevision() != "" {
		if floor.Number, out.Revision, err = c.floorAt(req.GetRevision(), name); err != nil {
			return nil, err
		}
		out.Number = floor.Number
	}
	after, warnings := c.raised(name, floor)
	out.Slots, out.Warnings = cutOff(c.view, after), warnings
	old, exists := c.view.Gate.Floors[name]
	out.Changed = !exists || old.Value.Number != floor.Number || !old.Value.NotBefore.Equal(floor.NotBefore)
	if req.GetDryRun() || !out.Changed {
		return out, nil
	}
	return out, c.replace(ctx, store.FloorKey(name), floor)
}

// floorAt returns the number of the floor: that of the first Revision with the same measurement as
// the named one.
func (c *caller) floorAt(typed, name string) (number uint64, revision string, err error) {
	one, err := findRevision(c.view, typed, name)
	if err != nil {
		return 0, "", err
	}
	gate := c.view.Gate.Groups[name].Value
	order := gate.Order(one.revision)
	switch {
	case order == 0:
		return 0, "", status.Errorf(codes.FailedPrecondition, "revision %.8s has no number yet: the leader has not looked at it", one.revision)
	case order < gate.Floor.Number:
		return 0, "", status.Errorf(codes.FailedPrecondition, "%s: #%d is below the floor #%d of group %s: a floor only rises", policy.CodeRevisionBelowFloor, order, gate.Floor.Number, name)
	}
	revision, _ = gate.Revision(order)
	return order, revision, nil
}

// raised returns the records with the floor applied, and warnings.
func (c *caller) raised(name string, floor policy.Floor) (after *view.View, warnings []string) {
	changed := *c.view
	changed.Gate.Floors = maps.Clone(changed.Gate.Floors)
	changed.Gate.Floors[name] = view.Rec[policy.Floor]{Value: floor}
	changed.Gate.Groups = maps.Clone(changed.Gate.Groups)
	for g, spec := range changed.SpecsInForce() {
		folded, _ := changed.FoldGroup(spec, floor.At)
		changed.Gate.Groups[g] = view.Rec[policy.GroupPolicy]{Value: folded, Index: changed.Gate.Groups[g].Index}
		target := spec.Revision()
		if d := folded.Judge(target, group.Content(spec.Template), c.view.Revisions[target].Value.ComposeHash); d.Code == policy.CodeRevisionBelowFloor {
			warnings = append(warnings, fmt.Sprintf("group %s is to run %.8s, which would be below the floor: nothing is rolled out there until the spec asks for a newer one", g, target))
		}
	}
	slices.Sort(warnings)
	return &changed, warnings
}

// decider returns a caller that is about to decide something below prefix, with its name for the
// record and the current records. The write itself checks the right to write.
func (s *Server) decider(ctx context.Context, prefix, field, text string) (*caller, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if len(text) > maxReason {
		return nil, status.Errorf(codes.InvalidArgument, "%s: at most %d bytes", field, maxReason)
	}
	if _, _, err := c.store.List(ctx, prefix); err != nil {
		return nil, wire(err)
	}
	if c.by, err = s.cfg.Tokens.NameOf(ctx, c.token); err != nil {
		return nil, wire(err)
	}
	return c, c.load(ctx)
}

// create writes a missing record, as an act of the caller. An existing record stays, unless it is
// unreadable.
func create[T any](ctx context.Context, c *caller, verb, reason, key string, value T) (changed bool, err error) {
	_, index, err := store.Read[T](ctx, c.store, key)
	switch {
	case err == nil:
		return false, nil
	case !errors.Is(err, store.ErrNotFound) && index == 0:
		return false, wire(err)
	}
	op, err := store.Put(key, value, index)
	if err != nil {
		return false, wire(err)
	}
	return true, wire(c.act(ctx, verb, "", reason, op))
}

func (c *caller) replace(ctx context.Context, key string, floor policy.Floor) error {
	_, index, err := store.Read[policy.Floor](ctx, c.store, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) && index == 0 {
		return wire(err)
	}
	op, err := store.Put(key, floor, index)
	if err != nil {
		return wire(err)
	}
	return wire(c.act(ctx, "raise-floor", "", floor.Reason, op))
}

// remove deletes a record, as an act of the caller.
func (c *caller) remove(ctx context.Context, verb, reason, key string) (changed bool, err error) {
	if _, err := c.store.Get(ctx, key); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return false, wire(err)
	}
	return true, wire(c.act(ctx, verb, "", reason, store.Op{Kind: store.OpDelete, Key: key}))
}
