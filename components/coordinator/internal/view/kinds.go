package view

import (
	"context"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// kind is a set of records that is watched, read and decoded separately.
type kind struct {
	id kindID
	// prefixes are read at one moment. A prefix can be a whole key.
	prefixes []string
	// followed kinds are in a Watcher's View. Its readers need no other kind.
	followed bool
	read     func(v *View, ctx context.Context, at moment, errs *[]error)
}

// of returns the entries of the kind. entries is sorted by key, and so is the result.
func (k kind) of(entries []store.Entry) (own []store.Entry) {
	for n, prefix := range k.prefixes {
		below := below(entries, prefix)
		if n == 0 {
			own = below
			continue
		}
		own = append(own, below...)
	}
	if len(k.prefixes) > 1 {
		slices.SortFunc(own, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
	}
	return own
}

type kindID int

const (
	kindGroups kindID = iota
	kindRevisions
	kindSlots
	kindAddresses
	kindRoutes
	kindOperations
	kindRollouts
	kindPolicies
	kindGroupPolicies
	kindAdmissions
	kindRefusals
	kindProofs
	kindSecrets
	kindControl
	kindLease
	kindNonces
	kindDecisions
	kindCount
)

// kinds lists all kinds.
var kinds = []kind{
	{kindGroups, []string{store.GroupsPrefix}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.readSpecs(at)
		v.readAccepted(ctx, at, errs)
		v.Statuses = collect(ctx, at, store.GroupsPrefix, errs, func(s group.Status) string { return s.Group })
		v.readInstances(ctx, at, errs)
	}},
	{kindRevisions, []string{store.RevisionsPrefix}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Revisions = collect(ctx, at, store.RevisionsPrefix, errs, func(r group.RevisionRecord) string { return r.Digest })
	}},
	{kindSlots, []string{store.SlotsPrefix}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Slots = collect(ctx, at, store.SlotsPrefix, errs, func(s group.SlotRecord) string { return s.Slot })
	}},
	{kindAddresses, []string{store.AddressesPrefix}, true, (*View).readAddresses},
	// One transaction writes related records of both prefixes.
	{kindRoutes, []string{store.RoutesPrefix, store.ServiceMeshPrefix}, true, (*View).readRoutes},
	{kindOperations, []string{store.OperationsPrefix}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Operations = collect(ctx, at, store.OperationsPrefix, errs, func(o operation.Operation) string { return o.ID })
		v.bySlot = bySlot(v.Operations)
	}},
	{kindRollouts, []string{store.RolloutsPrefix}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Rollouts = collect(ctx, at, store.RolloutsPrefix, errs, func(r operation.Rollout) string { return r.ID })
	}},
	{kindPolicies, []string{store.PolicyPrefix, store.TCBLedgerKey}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Ledger = keyed[policy.TCBLedger](ctx, at, store.TCBLedgerKey, errs)[store.TCBLedgerKey]
		v.Policies = collect(ctx, at, store.PolicyPrefix, errs, func(p policy.SlotPolicy) string { return p.Slot })
	}},
	{kindGroupPolicies, []string{store.GroupPolicyPrefix}, true, (*View).readGroupPolicies},
	// One transaction admits a Boot, takes its lease and records its machine. A reader of one half
	// would mistake the Boot for another.
	{kindAdmissions, []string{store.AdmissionsPrefix, store.BootLeasePrefix, store.MachinesPrefix}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Admissions = collect(ctx, at, store.AdmissionsPrefix, errs, func(a policy.Admission) string { return a.Slot })
		v.readBoots(ctx, at, errs)
		v.Machines = collect(ctx, at, store.MachinesPrefix, errs, func(m policy.MachineRecord) string { return m.Slot })
	}},
	{kindRefusals, []string{store.RefusalsPrefix}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Refusals = collect(ctx, at, store.RefusalsPrefix, errs, func(r policy.Refusal) string { return r.Slot })
	}},
	{kindProofs, []string{store.ProofsPrefix}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Proofs = collect(ctx, at, store.ProofsPrefix, errs, func(p policy.Proof) string { return p.Slot })
	}},
	{kindSecrets, []string{store.SecretsPrefix}, true, (*View).readSecrets},
	{kindControl, []string{store.ControlPrefix}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Queue = asked(ctx, at, store.QueuePrefix, errs, func(q store.QueueRequest) string { return q.ID })
		v.readWayOut(ctx, at, errs)
		v.readOverrides(ctx, at, errs)
		v.readRotates(ctx, at, errs)
		v.readSeals(ctx, at)
		v.readGate(ctx, at)
		v.readLimits(ctx, at, errs)
		v.LastBackup = keyed[store.LastBackup](ctx, at, store.LastBackupKey, errs)[store.LastBackupKey].Value
		v.Recovery = store.Recovery{}
		if raised := keyed[store.Recovery](ctx, at, store.RecoverKey(), errs)[store.RecoverKey()].Value; raised.Check() == nil {
			v.Recovery = raised
		}
	}},
	{kindLease, []string{store.LeaseKey, store.TermKey, store.StateKey, store.RestoredKey}, true, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Restored = keyed[store.Restored](ctx, at, store.RestoredKey, errs)[store.RestoredKey].Value
		v.Term = keyed[store.TermRecord](ctx, at, store.TermKey, errs)[store.TermKey].Value.Term
		state := keyed[store.StateRecord](ctx, at, store.StateKey, errs)[store.StateKey].Value
		v.State, v.Elapsed = state.State, state.Elapsed
		leader := keyed[store.LeaseRecord](ctx, at, store.LeaseKey, errs)[store.LeaseKey].Value
		v.Leader, v.leaderTerm = leader.Holder, leader.Term
	}},
	// Only the sweep needs nonces, and they change with each admission.
	{kindNonces, []string{store.NoncesPrefix}, false, func(v *View, ctx context.Context, at moment, errs *[]error) {
		v.Nonces = keyed[store.SpentNonce](ctx, at, store.NoncesPrefix, errs)
	}},
	// Decisions are long and are read per Slot.
	{kindDecisions, []string{store.DecisionsPrefix}, false, func(v *View, _ context.Context, at moment, _ *[]error) {
		v.decisions = at.below(store.DecisionsPrefix)
	}},
}

// followed returns the kinds of a Watcher's View.
func followed() (out []kind) {
	for _, k := range kinds {
		if k.followed {
			out = append(out, k)
		}
	}
	return out
}

// prefixesOf returns the prefixes of kinds in the form of store.Together.
func prefixesOf(of []kind) (out []string) {
	for _, k := range of {
		for _, prefix := range k.prefixes {
			out = append(out, prefix+store.Below)
		}
	}
	return out
}
