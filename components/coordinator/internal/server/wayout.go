package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// ReplaceInstance implements OperationService.
func (s *Server) ReplaceInstance(ctx context.Context, req *apiv1.ReplaceInstanceRequest) (*apiv1.ReplaceInstanceResponse, error) {
	c, err := s.decider(ctx, store.QueuePrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	record, err := c.mayChangeSlot(ctx, "slot", req.GetSlot())
	if err != nil {
		return nil, err
	}
	out := &apiv1.ReplaceInstanceResponse{
		RequestId: req.GetRequestId(), VmUuid: record.VMUUID, InstanceId: record.InstanceID, PlatformName: record.PlatformName,
	}
	if record.VMUUID == "" && record.InstanceID == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "slot %s is bound to no CVM: there is none to replace; `cadre rollout plan %s` shows its holds", record.Slot, record.Group)
	}
	var gone bool
	out.PlatformStatus, gone, out.Warnings = c.lost(ctx, record)
	if req.GetDryRun() {
		return out, nil
	}
	if err := needReason(req.GetReason()); err != nil {
		return nil, err
	}
	out.RequestId, err = c.enqueue(ctx, store.QueueRequest{
		ID: req.GetRequestId(), Kind: store.RequestReplace, Group: record.Group, Slot: record.Slot, DeleteDisk: true, Reason: req.GetReason(),
		VMUUID: record.VMUUID, InstanceID: record.InstanceID, Gone: gone,
	})
	return out, err
}

// lost returns the platform's status of a Slot whose CVM is to be replaced, whether the platform
// reports that there is no CVM, and warnings.
func (c *caller) lost(ctx context.Context, record group.SlotRecord) (platformStatus string, gone bool, warnings []string) {
	found, listing := false, c.server.cfg.Platform.List(ctx, record.Group, listAge)
	if listing.Err != nil {
		warnings = append(warnings, "the platform does not answer, so it is unknown whether the CVM exists: "+listing.Err.Error())
	}
	if u := listing.Unanswered; u != nil {
		warnings = append(warnings, u.Error()+": a CVM there is taken for lost; if its node comes back later, delete the CVM on the platform")
	}
	for _, i := range listing.Instances {
		if id := cmp.Or(i.VMUUID, i.ID); record.VMUUID != "" && id == record.VMUUID || record.VMUUID == "" && i.InstanceID == record.InstanceID {
			platformStatus, found = i.Status, true
			warnings = append(warnings, fmt.Sprintf("the platform has the CVM (%s): it and its disk are deleted", i.Status))
		}
	}
	if a, ok := c.view.Admissions[record.Slot]; ok && a.Value.InstanceID == record.InstanceID && c.view.Boots[record.Slot].LeasedBy(a.Value.BootID) {
		alive := "a boot of it holds the slot and is alive: a restart or an update keeps its disk"
		if !found { // a Boot's lease outlives it for some seconds
			alive = "a boot of it holds the slot, or did a moment ago: ask again in half a minute, for if it is alive its disk is there"
		}
		warnings = append(warnings, alive)
	}
	if spec, _, ok := c.view.InForce(record.Group); ok && spec.PreservedDisk(record.Ordinal) != "" {
		warnings = append(warnings, fmt.Sprintf("the spec preserves the disk %q, which is lost anyway", spec.PreservedDisk(record.Ordinal)))
	}
	return platformStatus, listing.Err == nil && !found, warnings
}

// RetryRollout implements OperationService.
func (s *Server) RetryRollout(ctx context.Context, req *apiv1.RetryRolloutRequest) (*apiv1.RetryRolloutResponse, error) {
	name := req.GetGroup()
	c, err := s.deciderOf(ctx, name, req.GetReason())
	if err != nil {
		return nil, err
	}
	if err := needReason(req.GetReason()); err != nil {
		return nil, err
	}
	current := c.view.Rollouts[c.view.Statuses[name].Value.Rollout].Value
	out := &apiv1.RetryRolloutResponse{RequestId: req.GetRequestId(), Rollout: current.ID, RolloutState: string(current.State)}
	if waits, err := c.waitsForRetry(ctx, name, current.State); err != nil || !waits {
		return out, err
	}
	out.Changed = true
	out.RequestId, err = c.enqueue(ctx, store.QueueRequest{ID: req.GetRequestId(), Kind: store.RequestRetry, Group: name, Reason: req.GetReason()})
	return out, err
}

// waitsForRetry reports whether the rollout failed or was rolled back, or the platform refused a step so often that it
// is not retried. The latter applies to a complete rollout too.
func (c *caller) waitsForRetry(ctx context.Context, name string, state operation.RolloutState) (bool, error) {
	if state.Failed() {
		return true, nil
	}
	spec, _, ok := c.view.InForce(name)
	if !ok {
		return false, nil
	}
	plan, err := c.server.plan(ctx, c.view, name, &spec)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(plan.Actions, func(a rollout.Action) bool {
		return a.HeldBy(rollout.HoldRefused)
	}), nil
}

// PromoteRollout implements OperationService.
func (s *Server) PromoteRollout(ctx context.Context, req *apiv1.PromoteRolloutRequest) (*apiv1.PromoteRolloutResponse, error) {
	name := req.GetGroup()
	c, err := s.deciderOf(ctx, name, req.GetReason())
	if err != nil {
		return nil, err
	}
	out := &apiv1.PromoteRolloutResponse{RequestId: req.GetRequestId()}
	spec, _, ok := c.view.InForce(name)
	if !ok {
		return out, nil
	}
	plan, err := s.plan(ctx, c.view, name, &spec)
	if err != nil {
		return nil, err
	}
	if r := plan.Rollout; r != nil {
		out.Rollout, out.Message = r.ID, r.Reason
	}
	stage, waits := plan.StageToPromote(spec)
	out.Stage, out.Stages = uint32(stage), uint32(len(spec.UpdatePolicy.Stages))
	if !waits {
		return out, nil
	}
	out.Changed = true
	out.Gates = waitsForGates(plan)
	out.RequestId, err = c.enqueue(ctx, store.QueueRequest{ID: req.GetRequestId(), Kind: store.RequestPromote, Group: name, Rollout: plan.Rollout.ID, Stage: stage, Reason: req.GetReason()})
	return out, err
}

// deciderOf is decider for a request about the rollout of a group.
func (s *Server) deciderOf(ctx context.Context, name, reason string) (*caller, error) {
	c, err := s.decider(ctx, store.QueuePrefix, "reason", reason)
	if err != nil {
		return nil, err
	}
	if err := c.mayRead(ctx, name); err != nil {
		return nil, err
	}
	if _, ok := c.view.Specs[name]; !ok {
		return nil, status.Error(codes.NotFound, "no such group: "+name)
	}
	return c, nil
}

// DeleteGroup implements OperationService.
func (s *Server) DeleteGroup(ctx context.Context, req *apiv1.DeleteGroupRequest) (*apiv1.DeleteGroupResponse, error) {
	if !req.GetCancel() && req.GetKeepCvms() == req.GetDeleteDisks() {
		return nil, status.Error(codes.InvalidArgument, "keep_cvms, delete_disks: set exactly one: the CVMs continue without Cadre, or are deleted with their disks")
	}
	c, err := s.decider(ctx, store.DeletePrefix, "reason", req.GetReason())
	if err != nil {
		return nil, err
	}
	name := req.GetGroup()
	if err := c.mayRead(ctx, name); err != nil {
		return nil, err
	}
	slots := c.view.SlotsOf(name)
	if !slices.Contains(c.view.Known(), name) && len(slots) == 0 {
		return nil, status.Error(codes.NotFound, "no such group: "+name)
	}
	out := &apiv1.DeleteGroupResponse{}
	for _, record := range slots {
		out.Slots = append(out.Slots, record.Slot)
	}
	key := store.DeleteGroupKey(name)
	if req.GetCancel() {
		out.Changed, err = c.remove(ctx, "cancel-deletion", req.GetReason(), key)
		if out.Changed && err == nil {
			s.cfg.Log.Info("deletion of a group cancelled", "group", name, "by", c.by, "reason", req.GetReason())
		}
		return out, err
	}
	out.Warnings = c.deleteWarnings(name, req.GetDeleteDisks())
	if before, ok := c.view.Deletes[name]; ok {
		if before.Value.DeleteDisks != req.GetDeleteDisks() || before.Value.KeepCVMs != req.GetKeepCvms() {
			return nil, status.Errorf(codes.FailedPrecondition, "group %s is being deleted the other way already, by %s: cancel that first", name, before.Value.By)
		}
		return out, nil
	}
	if followers := c.followers(name); len(followers) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "group: %s still follow %s by their `after`: delete them first, or at the same time, or remove %s from their `after`",
			strings.Join(followers, ", "), name, name)
	}
	out.Changed = true
	if req.GetDryRun() {
		return out, nil
	}
	if err := needReason(req.GetReason()); err != nil {
		return nil, err
	}
	_, err = create(ctx, c, "delete", req.GetReason(), key, store.DeleteGroup{
		Group: name, KeepCVMs: req.GetKeepCvms(), DeleteDisks: req.GetDeleteDisks(), Reason: req.GetReason(), By: c.by, At: c.now(),
	})
	if err == nil {
		s.cfg.Log.Info("group is to be deleted", "group", name, "keep_cvms", req.GetKeepCvms(), "by", c.by, "reason", req.GetReason())
	}
	return out, err
}

func (c *caller) now() time.Time { return c.server.cfg.Now().UTC().Truncate(time.Millisecond) }

// followers returns the groups that are `after` a group and are not being deleted.
func (c *caller) followers(name string) (out []string) {
	for other, after := range c.view.AfterUpTo(math.MaxUint64) {
		if _, deleted := c.view.Deletes[other]; !deleted && slices.Contains(after, name) {
			out = append(out, other)
		}
	}
	slices.Sort(out)
	return out
}

// deleteWarnings returns warnings about deleting a group.
func (c *caller) deleteWarnings(name string, disks bool) []string {
	var out []string
	spec, _, ok := c.view.InForce(name)
	var alive, preserved []string
	for _, record := range c.view.SlotsOf(name) {
		if ok && disks && spec.PreservedDisk(record.Ordinal) != "" {
			preserved = append(preserved, record.Slot)
		}
		if a, ok := c.view.Admissions[record.Slot]; ok && c.view.Boots[record.Slot].LeasedBy(a.Value.BootID) {
			alive = append(alive, record.Slot)
		}
	}
	if len(preserved) > 0 {
		out = append(out, "the spec preserves disks, which are deleted all the same: those of "+strings.Join(preserved, ", "))
	}
	if len(alive) > 0 {
		out = append(out, "running members lose their credentials: "+strings.Join(alive, ", "))
	}
	return out
}

// leaving returns the recorded Slots that a spec does not want. held are the Slots whose disks
// would be deleted without a request that names them. Extra Slots of a rollout are left out: they
// end with the rollout, and their disks need no consent.
func (c *caller) leaving(spec group.Spec) (slots, held []string) {
	named := c.view.DeleteDisks[spec.Name].Value.Slots
	for _, record := range c.view.SlotsOf(spec.Name) {
		if record.Extra || spec.HasOrdinal(record.Ordinal) {
			continue
		}
		slots = append(slots, record.Slot)
		if bound := record.VMUUID != "" || record.InstanceID != ""; bound && spec.PreservedDisk(record.Ordinal) == "" && !slices.Contains(named, record.Slot) {
			held = append(held, record.Slot)
		}
	}
	return slots, held
}

// unpreserved returns the Slots whose disk the spec does not preserve. Consent to delete disks
// covers only these, even if the preservation is removed later.
func unpreserved(spec group.Spec, slots []string) []string {
	return slices.DeleteFunc(slices.Clone(slots), func(slot string) bool {
		_, ordinal, err := group.ParseSlot(slot)
		return err != nil || spec.PreservedDisk(ordinal) != ""
	})
}

// deleteDisks returns the Op that permits the deletion of the disks of these Slots only.
func (c *caller) deleteDisks(ctx context.Context, name string, slots []string, reason string) (store.Op, error) {
	if err := needReason(reason); err != nil {
		return store.Op{}, err
	}
	var err error
	if c.by, err = c.server.cfg.Tokens.NameOf(ctx, c.token); err != nil {
		return store.Op{}, wire(err)
	}
	key := store.DeleteDisksKey(name)
	_, index, err := store.Read[store.DeleteDisks](ctx, c.store, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) && index == 0 {
		return store.Op{}, wire(err)
	}
	op, err := store.Put(key, store.DeleteDisks{Group: name, Slots: slots, Reason: reason, By: c.by, At: c.now()}, index)
	return op, wire(err)
}

// wantedAgain returns the Op that withdraws the consent to delete disks if the spec wants one of
// their Slots again: the next scale-in asks again. nil: there is nothing to withdraw.
func (c *caller) wantedAgain(spec group.Spec) *store.Op {
	named, ok := c.view.DeleteDisks[spec.Name]
	again := func(slot string) bool {
		_, ordinal, err := group.ParseSlot(slot)
		return err == nil && spec.HasOrdinal(ordinal)
	}
	if !ok || !slices.ContainsFunc(named.Value.Slots, again) {
		return nil
	}
	return &store.Op{Kind: store.OpDeleteCAS, Key: store.DeleteDisksKey(spec.Name), Index: named.Index}
}

// waitsForGates names the closed gates that hold the next stage after its promotion; "": none.
func waitsForGates(plan rollout.Plan) string {
	for _, a := range plan.Actions {
		if !a.HeldBy(rollout.HoldStagePromotion) {
			continue
		}
		var texts []string
		for _, h := range a.Holds {
			if h.Predicate == rollout.HoldStage {
				texts = append(texts, h.Message)
			}
		}
		return strings.Join(texts, "; ")
	}
	return ""
}
