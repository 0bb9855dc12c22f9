package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/compose/lint"
	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/truncate"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// ruleWait is the maximum time until every server has a new ACL rule.
const ruleWait = 3 * time.Second

// ApplyGroup implements ClusterService.
func (s *Server) ApplyGroup(ctx context.Context, req *apiv1.ApplyGroupRequest) (*apiv1.ApplyGroupResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	request := cmp.Or(req.GetRequestId(), "apply-"+uuid.NewString())
	if err := store.CheckRequestID(request); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	spec, err := view.DecodeSpec(req.GetSpecJson(), req.GetGroup())
	if err != nil {
		return nil, refused(err)
	}
	if err := c.mayRead(ctx, spec.Name); err != nil {
		return nil, err
	}
	if len(spec.After) > 0 {
		// A cycle is judged by the newest specs of all groups, and the watched ones are a moment old.
		if err := c.load(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.cfg.Validator.Edit(c.view, spec); err != nil {
		return nil, refused(err)
	}
	out := &apiv1.ApplyGroupResponse{Revision: spec.Revision()}
	if out.Warnings, err = c.editWarnings(spec); err != nil {
		return nil, err
	}
	for i, name := range spec.After {
		if !slices.Contains(c.view.Known(), name) {
			out.Warnings = append(out.Warnings, fmt.Sprintf("after[%d]: there is no group %s yet: %s waits until it is applied and available", i, name, spec.Name))
		}
	}
	old, index, err := store.ReadRaw(ctx, c.store, store.GroupSpecKey(spec.Name))
	// A plain KV edit may have left an oversized value. The spec replaces it too.
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrTooLarge) {
		return nil, wire(err)
	}
	out.Index = index
	if before, err := view.DecodeSpec(old, spec.Name); err == nil {
		out.Warnings = append(out.Warnings, group.EditWarnings(before, spec)...)
	}
	same := index != 0 && sameSpec(old, spec)
	if err := c.expected(ctx, req, spec.Name, index, same); err != nil {
		return nil, err
	}
	var with []store.Op
	out.Leaving, out.HeldDisks = c.leaving(spec)
	if req.GetDeleteDisks() && len(out.HeldDisks) > 0 {
		out.HeldDisks = nil
		if !req.GetDryRun() {
			named, err := c.deleteDisks(ctx, spec.Name, unpreserved(spec, out.Leaving), req.GetReason())
			if err != nil {
				return nil, err
			}
			with = append(with, named)
		}
	} else if same {
		out.By, out.RequestId, err = c.appliedBy(ctx, spec.Name, index)
		return out, err
	} else if stale := c.wantedAgain(spec); stale != nil {
		with = append(with, *stale)
	}
	out.Changed = true
	if req.GetDryRun() {
		return out, nil
	}
	if same {
		// The spec is stored already; the call still carries out the requested changes to related
		// records.
		if out.By, out.RequestId, err = c.appliedBy(ctx, spec.Name, index); err != nil {
			return nil, err
		}
		return out, wire(c.act(ctx, "apply", request, req.GetReason(), with...))
	}
	// The caller's name is read before the write: a spec in force always has its writer on record.
	if c.by, err = s.cfg.Tokens.NameOf(ctx, c.token); err != nil {
		return nil, wire(err)
	}
	applied := store.Applied{Group: spec.Name, By: truncate.Text(c.by, store.MaxBy), Request: request, At: c.now()}
	if err := c.writeSpec(ctx, applied, req.GetReason(), req.GetSpecJson(), index, with...); err != nil {
		return nil, err
	}
	s.cfg.Views.Hint(spec.Name) // if this coordinator leads, it need not wait for the watch
	out.By, out.RequestId = applied.By, applied.Request
	said := []any{"group", spec.Name, "revision", out.GetRevision(), "by", applied.By, "request", applied.Request}
	// The record has the index of the write. If another call has replaced it already, the answer
	// has the index of that call, which works for a wait for this spec's status too.
	now, index, err := store.Read[store.Applied](ctx, s.cfg.Store, store.AppliedKey(spec.Name))
	if out.Index = index; now.By == applied.By && now.Request == applied.Request {
		said = append(said, "spec_index", index)
	}
	s.cfg.Log.Info("spec applied", said...)
	return out, wire(err)
}

// editWarnings returns the warnings about a valid spec. It rejects pins and versions that cannot work.
func (c *caller) editWarnings(spec group.Spec) ([]string, error) {
	pins, err := c.pinsJudged(spec)
	if err != nil {
		return nil, err
	}
	versions, err := c.versionsJudged(spec)
	return slices.Concat(group.Warnings(spec), lint.EnvAdvice(spec.Template), pins, versions), err
}

// appliedBy returns the caller and the request that wrote the spec with this index. Both are empty
// when there is no record, and when a later call wrote another spec since the read.
func (c *caller) appliedBy(ctx context.Context, name string, index uint64) (by, request string, err error) {
	if index == 0 {
		return "", "", nil
	}
	by, request, err = store.AppliedBy(ctx, c.server.cfg.Store, name, index)
	return by, request, wire(err)
}

// expected rejects a write over an unexpected state: another spec than the caller read, an existing
// group where it wants a new one, or a group being deleted, whose deletion would take the spec
// along.
func (c *caller) expected(ctx context.Context, req *apiv1.ApplyGroupRequest, name string, index uint64, same bool) error {
	d, _, err := store.Read[store.DeleteGroup](ctx, c.server.cfg.Store, store.DeleteGroupKey(name))
	switch {
	case err == nil:
		return status.Error(codes.FailedPrecondition, deletingText(name, d))
	case len(store.RecordErrors(err)) > 0:
		return status.Error(codes.FailedPrecondition, deletingUnread(name, err))
	case !errors.Is(err, store.ErrNotFound):
		return wire(err)
	}
	switch want := req.GetExpectedIndex(); {
	case req.GetExpectAbsent() && want != 0:
		return status.Error(codes.InvalidArgument, "expect_absent, expected_index: both are set; set one of them: the group is new, or this index was read")
	case want != 0 && want != index:
		return status.Errorf(codes.Aborted, string(policy.CodeSpecConflict)+": the spec of %s has index %d, not %d: it was changed; read it again", name, index, want)
	case req.GetExpectAbsent() && index != 0 && !same:
		return status.Errorf(codes.AlreadyExists, string(policy.CodeGroupExists)+": group %s exists already, with another spec: another caller created it; read it before you change it", name)
	}
	return nil
}

func deletingText(name string, d store.DeleteGroup) string {
	return fmt.Sprintf(string(policy.CodeGroupDeleting)+": group %s is being deleted since %s, by %s (%s): a spec that is applied now would be deleted with it; "+
		"keep what is left of the group with `cadre group delete %s --cancel`, or wait until it is gone, then apply again",
		name, d.At.UTC().Format(time.RFC3339), d.By, d.Reason, name)
}

// deletingUnread is the error for an unreadable deletion record, such as one written by hand. The
// leader ignores an unreadable record. The API still rejects a spec, because the record can be
// corrected at any moment.
func deletingUnread(name string, err error) string {
	return fmt.Sprintf(string(policy.CodeGroupDeleting)+": it is unknown whether group %s is being deleted: %v; remove the record with `cadre group delete %s --cancel`, then apply again",
		name, err, name)
}

// pinsJudged rejects a spec that newly pins a Slot to a Revision that is revoked, below the floor,
// or without recorded content: the Slot would stay where it is, and no answer would report it. A
// pin that waits for an approval gives a warning. So does a pin from before the Revision became
// unusable: only its Slot is held, and the other edits of the group go through.
func (c *caller) pinsJudged(spec group.Spec) (warnings []string, err error) {
	var problems []string
	for _, one := range spec.Instances {
		pin := one.PinnedRevision
		if pin == "" || pin == spec.Revision() {
			continue // the target is checked separately
		}
		field := fmt.Sprintf("instance[%q].pinned_revision", one.Label())
		why, waits := c.pinHeld(spec.Name, one)
		switch {
		case why == "":
		case waits:
			warnings = append(warnings, fmt.Sprintf("%s: the slot stays where it is until that is approved: %s", field, why))
		case c.pinStands(spec.Name, one):
			warnings = append(warnings, fmt.Sprintf("%s: the slot stays where it is: %s", field, why))
		default:
			problems = append(problems, fmt.Sprintf("%s: %s", field, why))
		}
	}
	if len(problems) > 0 {
		return nil, status.Error(codes.FailedPrecondition, strings.Join(problems, "; "))
	}
	return warnings, nil
}

// pinHeld returns why a Slot cannot move to its pinned Revision, with the way out; "": it can.
// waits is true when only an approval is missing.
func (c *caller) pinHeld(name string, one group.InstanceSettings) (why string, waits bool) {
	record, recorded := c.view.Revisions[one.PinnedRevision]
	if !recorded {
		return fmt.Sprintf("revision %s is not recorded any more, or never was: use a revision of `cadre rollout history %s -o json`, or the slot's current one: `cadre instance describe %s`",
			one.PinnedRevision, name, group.SlotName(name, one.Ordinal)), false
	}
	d := c.view.Gate.Groups[name].Value.Judge(one.PinnedRevision, group.Content(record.Value.Template), record.Value.ComposeHash)
	switch {
	case d.Allowed:
		return "", false
	case d.Code == policy.CodeRevisionNotApproved:
		return fmt.Sprintf("%s: %s", d.Code, d.Message), true
	}
	return fmt.Sprintf("%s: %s: pin the slot to another revision, or remove the pin", d.Code, d.Message), false
}

// pinStands reports whether the group has this pin already, in force or requested.
func (c *caller) pinStands(name string, one group.InstanceSettings) bool {
	return slices.ContainsFunc(c.view.SpecsAsked()[name], func(s group.Spec) bool {
		return s.Instance(one.Ordinal).PinnedRevision == one.PinnedRevision
	})
}

// refused returns the error for a rejected spec, with the most specific code.
func refused(err error) error {
	if crash, is := errors.AsType[*contain.Error](err); is {
		return crash // a fault of the decoder: the containing handler logs it
	}
	return status.Error(codes.InvalidArgument, string(specvalidate.Code(err))+": "+err.Error())
}

// writeSpec writes a spec and the record of its call in one transaction with the Ops. No operator's
// token may write that record, because its holder could enter another caller's name. So the
// coordinator commits with its own token, after Consul has confirmed that the caller may write the
// spec and the keys of the Ops.
func (c *caller) writeSpec(ctx context.Context, applied store.Applied, reason string, raw []byte, index uint64, with ...store.Op) error {
	name := applied.Group
	spec, err := store.PutRaw(store.GroupSpecKey(name), compact(raw), index)
	if err != nil {
		return wire(err)
	}
	text, err := encode(applied)
	if err != nil {
		return err
	}
	asked := append([]store.Op{spec}, with...)
	if err := c.server.allowed(ctx, c.token, name, keysOf(asked)...); err != nil {
		return wire(err)
	}
	// A deletion that begins at this moment would take the spec with it.
	asked = append(asked, store.Op{Kind: store.OpPut, Key: store.AppliedKey(name), Value: text}, store.Op{Kind: store.OpCheckAbsent, Key: store.DeleteGroupKey(name)})
	err = c.enter(ctx, "apply", applied.Request, reason, asked...)
	if errors.Is(err, store.ErrConflict) {
		return status.Error(codes.Aborted, string(policy.CodeSpecConflict)+": the spec was changed, or the group is being deleted, at the same time; read it again")
	}
	return wire(err)
}

// allowed returns nil when the token may write all keys, of which one is the spec of the named group.
//
// Consul's rules name each group's key, and a new group has no rule yet. For an operator the rule is
// added, and the check is repeated until Consul's servers know the rule.
func (s *Server) allowed(ctx context.Context, token, name string, keys ...string) error {
	deadline := time.Now().Add(ruleWait)
	for {
		denied, err := s.mayNotWrite(ctx, token, keys)
		if err != nil || denied == "" {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: the token may not write %s", store.ErrDenied, denied)
		}
		var groups []string
		if latest, _ := s.cfg.Views.Latest(); latest != nil {
			groups = latest.Groups()
		}
		if err := s.cfg.Tokens.AllowGroup(ctx, token, name, groups); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// mayNotWrite returns the first key that the token may not write; "": it may write all.
func (s *Server) mayNotWrite(ctx context.Context, token string, keys []string) (key string, err error) {
	for _, key := range keys {
		if ok, err := s.cfg.Tokens.MayWrite(ctx, token, store.DefaultPrefix+key); err != nil || !ok {
			return key, err
		}
	}
	return "", nil
}

// sameSpec compares the meaning of two documents.
func sameSpec(old []byte, spec group.Spec) bool {
	before, err := view.DecodeSpec(old, spec.Name)
	if err != nil {
		return false
	}
	a, errA := json.Marshal(before)
	b, errB := json.Marshal(spec)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func compact(raw []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return raw
	}
	return out.Bytes()
}
