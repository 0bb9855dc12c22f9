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

// Desired returns the desired state in v of the Boot that holds slot. spec is the group's last
// valid spec. Hooks, checks and driver settings are those of the Boot's own Revision. Thus none is
// in use before its rollout and, if required, its approval.
func Desired(v *view.View, spec group.Spec, slot, bootID string) (*controlv1.Desired, error) {
	record, ok := v.Slots[slot]
	if !ok {
		return nil, fmt.Errorf("slot %s has no record", slot)
	}
	var config []byte // nil: the agent keeps its configuration
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
		// A Boot whose credentials have an older epoch attests again at once (ATT-32).
		PolicyEpoch: v.Policies[slot].Value.Epoch,
	}
	// Every secret is listed, even before the leader has seen it. The agent renews its credentials
	// when its secrets differ from the list.
	epochs, _ := v.EpochsOf(record.Value.Group)
	out.SecretEpochs = map[string]uint32{}
	for _, one := range spec.AllSecrets() {
		out.SecretEpochs[one.Name] = max(epochs[one.Name], 1)
	}
	// A secret without a value is listed with its first value.
	for _, name := range v.NoValue(spec) {
		delete(out.SecretEpochs, name)
	}
	out.Operation = orderOf(v, slot, bootID)
	return out, nil
}

// Unchanged returns the short answer for an agent that already has the desired state of v; nil: the
// agent needs the whole state. An agent of an earlier version sends no sum, so a zero sum matches
// too.
func Unchanged(v *view.View, slot string, req *controlv1.GetDesiredRequest) *controlv1.Desired {
	now := stampOf(v, slot)
	same := req.GetKnownVersion() == now.version && (req.GetKnownIndexSum() == now.sum || req.GetKnownIndexSum() == 0)
	if now.version == 0 || req.GetKnownTerm() == 0 || req.GetKnownTerm() != v.Term || !same {
		return nil
	}
	return &controlv1.Desired{Version: now.version, Term: v.Term, State: v.State, IndexSum: now.sum}
}

// agentSpecOf returns the agent spec of the Revision at which the Slot's Boot was admitted, or else
// of the assigned one, with that Revision. ok is false if the Revision's record is unreadable. The
// Boot then keeps its configuration, and still receives orders.
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

// Version returns the version of the desired state of slot in v; 0: v has no record of the Slot.
// The version is the highest index among the records behind the desired state. The version grows
// with each change and is equal on all coordinators. Within a Term the version never falls, because
// agents ignore lower versions: each removal leaves a newer record behind. A removed spec leaves
// the record of its acceptance. The newest Operation of a Slot is written after or together with
// all earlier ones, and is never pruned.
func Version(v *view.View, slot string) uint64 { return stampOf(v, slot).version }

// stamp identifies one desired state of a Slot.
type stamp struct{ version, sum uint64 }

// stampOf returns Version, and the sum of the indices of the newest record of each kind. A View
// reads its kinds one by one. The View may have the record with the highest index while a record
// that was written earlier is still missing. The sum differs between the two states and grows when
// the missing record appears. Without it an agent would keep the first state until the next change.
func stampOf(v *view.View, slot string) (out stamp) {
	record, ok := v.Slots[slot]
	if !ok {
		return stamp{}
	}
	groupName := record.Value.Group
	_, spec, _ := v.InForce(groupName)
	// A new epoch of a secret counts as a change: the agent renews its credentials.
	_, secrets := v.EpochsOf(groupName)
	// The service mesh record stays while the group exists, even when it is empty.
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

// orderOf returns the current order for one Boot as its message; nil: there is none.
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
