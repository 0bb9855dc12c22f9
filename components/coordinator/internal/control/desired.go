package control

import (
	"cmp"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Desired is what the Boot that holds slot should do, by v. spec is the group's
// last valid spec; hooks, checks and driver settings are those of the Revision that the
// Boot runs, so that none is in use before it was rolled and, where that is asked for,
// approved.
func Desired(v *view.View, spec group.Spec, slot, bootID string) (*controlv1.Desired, error) {
	record, ok := v.Slots[slot]
	if !ok {
		return nil, fmt.Errorf("slot %s has no record", slot)
	}
	var config []byte // none: the agent keeps what it has
	agentSpec, of, known := agentSpecOf(v, spec, slot, record.Value.Assigned)
	mesh, _, readable := v.ServiceMeshOf(record.Value.Group)
	if known && readable {
		next := spec.With(agentSpec).AgentConfig(slot, record.Value.Assigned)
		next.AgentSpec, next.ServiceMesh = of, mesh
		next.Join(record.Value.Membership)
		var err error
		if config, err = json.Marshal(next); err != nil {
			return nil, fmt.Errorf("encode configuration of %s: %w", slot, err)
		}
	}
	now := stampOf(v, slot)
	out := &controlv1.Desired{
		Version:    now.version,
		IndexSum:   now.sum,
		Term:       v.Term,
		State:      v.State,
		ConfigJson: config,
		// A Boot whose credentials carry an older one attests again at once (ATT-32).
		PolicyEpoch: v.Policies[slot].Value.Epoch,
	}
	// Every secret is named, also one that the leader has not seen yet: one that the
	// agent does not have, or has no more to have, is a reason to renew.
	epochs, _ := v.EpochsOf(record.Value.Group)
	out.SecretEpochs = map[string]uint32{}
	for _, one := range spec.AllSecrets() {
		out.SecretEpochs[one.Name] = max(epochs[one.Name], 1)
	}
	out.Operation = orderOf(v, slot, bootID)
	return out, nil
}

// Unchanged is the answer to an agent that has the desired state of v; nil: it has not. An agent of an
// earlier version knows of no sum, and would ask for all of it each time.
func Unchanged(v *view.View, slot string, req *controlv1.GetDesiredRequest) *controlv1.Desired {
	now := stampOf(v, slot)
	same := req.GetKnownVersion() == now.version && (req.GetKnownIndexSum() == now.sum || req.GetKnownIndexSum() == 0)
	if now.version == 0 || req.GetKnownTerm() == 0 || req.GetKnownTerm() != v.Term || !same {
		return nil
	}
	return &controlv1.Desired{Version: now.version, Term: v.Term, State: v.State, IndexSum: now.sum}
}

// agentSpecOf is the agent spec of the Revision at which the Slot's Boot was admitted, or else
// of the assigned one, and that Revision; ok is false when the record of that one cannot be
// read. A Boot then keeps what it has, and is ordered about all the same.
func agentSpecOf(v *view.View, spec group.Spec, slot, assigned string) (agentSpec group.AgentSpec, revision string, ok bool) {
	revision = cmp.Or(v.Admissions[slot].Value.Revision, assigned)
	if record, ok := v.Revisions[revision]; ok {
		return record.Value.AgentSpec, revision, true
	}
	if revision != "" && revision != spec.Revision() {
		return group.AgentSpec{}, revision, false
	}
	return spec.AgentSpec(), revision, true
}

// Version of the desired state of slot by v; 0: v has no record of the Slot. It is the
// highest index among the records that the desired state is made of: it grows with each
// change and is equal on all coordinators. It does not fall while a Term lasts, or agents
// would not take what comes next: what goes away leaves something newer behind. A removed
// spec leaves the record of its acceptance, and the newest Operation of a Slot, which is
// written after or together with all earlier ones, is never pruned.
func Version(v *view.View, slot string) uint64 { return stampOf(v, slot).version }

// stamp tells one desired state of a Slot from another.
type stamp struct{ version, sum uint64 }

// stampOf is Version, and the sum of the indices of the newest record of each kind. A View reads its
// kinds one by one, so that it may show the record that gives the version while one that was written
// before is still missing: the sum tells the two apart, and grows when that one shows. Without it
// an agent would keep what it was told first for as long as nothing else changes.
func stampOf(v *view.View, slot string) (out stamp) {
	record, ok := v.Slots[slot]
	if !ok {
		return stamp{}
	}
	groupName := record.Value.Group
	_, spec, _ := v.InForce(groupName)
	// A new epoch of a secret is news too: the agent renews its credentials.
	_, secrets := v.EpochsOf(groupName)
	// The record of the mesh stays while the group is there, an empty one too.
	_, mesh, _ := v.ServiceMeshOf(groupName)
	var step uint64
	for _, o := range v.OperationsOf(slot) {
		step = max(step, o.Index)
	}
	for _, index := range []uint64{spec, mesh, record.Index, v.Policies[slot].Index, v.Admissions[slot].Index, secrets, step} {
		out.version, out.sum = max(out.version, index), out.sum+index
	}
	return out
}

// orderOf is what is asked of one Boot now, as it travels; nil: nothing.
func orderOf(v *view.View, slot, bootID string) *controlv1.OperationOrder {
	current, ok := operation.OrderFor(func(yield func(operation.Operation) bool) {
		for _, o := range v.OperationsOf(slot) {
			if !yield(o.Value) {
				return
			}
		}
	}, bootID)
	if !ok {
		return nil
	}
	out := &controlv1.OperationOrder{
		OperationId: current.Operation, Verb: verbs[current.Verb], Attempt: uint32(max(current.Attempt, 0)),
		ExpectedLeader: current.ExpectedLeader, TransferCandidates: current.Candidates, Service: current.Service, WithoutHooks: current.WithoutHooks,
	}
	if !current.Deadline.IsZero() {
		out.Deadline = timestamppb.New(current.Deadline)
	}
	if current.Limit > 0 {
		out.Limit = durationpb.New(current.Limit)
	}
	return out
}

var verbs = map[operation.Verb]controlv1.Verb{
	operation.VerbDrain:          controlv1.Verb_VERB_DRAIN,
	operation.VerbCancelDrain:    controlv1.Verb_VERB_CANCEL_DRAIN,
	operation.VerbPostLaunch:     controlv1.Verb_VERB_POST_LAUNCH,
	operation.VerbRestartService: controlv1.Verb_VERB_RESTART_SERVICE,
}
