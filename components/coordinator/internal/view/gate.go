package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// Gate has the operators' requests about admission, and the part that the leader accepted.
type Gate struct {
	Groups      map[string]Rec[policy.GroupPolicy] // by group; written by the leader
	Approvals   []policy.Approval
	Revocations []policy.Revocation          // by name
	Floors      map[string]Rec[policy.Floor] // by group or store.Everywhere
	// Exceptions and Lowerings are the operators' requests about machines, by id, and about
	// collateral, by family.
	Exceptions map[string]Rec[policy.TCBGrant]
	Lowerings  map[string]Rec[policy.CollateralLowering]
	// Required: the cluster's switch demands approvals from every group.
	Required bool
	// Unread lists operators' records without effect: an unreadable approval or floor, or a key
	// that names nothing.
	Unread []*store.RecordError
}

// readGroupPolicies reads the policies that the leader accepted.
func (v *View) readGroupPolicies(ctx context.Context, at moment, errs *[]error) {
	v.Gate.Groups = collect(ctx, at, store.GroupPolicyPrefix, errs, func(p policy.GroupPolicy) string { return p.Group })
}

// readGate is strict with records that loosen and lenient with records that tighten: an unreadable
// approval approves nothing, while a revocation counts as long as its key exists.
func (v *View) readGate(ctx context.Context, at moment) {
	g := Gate{Groups: v.Gate.Groups, Floors: map[string]Rec[policy.Floor]{}}
	var unread []error
	for key, rec := range keyed[policy.Approval](ctx, at, store.ApprovalsPrefix, &unread) {
		if id := strings.TrimPrefix(key, store.ApprovalsPrefix); rec.Value.Revision != id {
			unread = append(unread, &store.RecordError{Key: key, Index: rec.Index, Err: fmt.Errorf("names revision %q, so it approves nothing", rec.Value.Revision)})
			continue
		}
		g.Approvals = append(g.Approvals, rec.Value)
	}
	slices.SortFunc(g.Approvals, func(a, b policy.Approval) int { return strings.Compare(a.Revision, b.Revision) })
	for key, rec := range keyed[policy.Floor](ctx, at, store.FloorPrefix, &unread) {
		g.Floors[strings.TrimPrefix(key, store.FloorPrefix)] = rec
	}
	g.Revocations = revocations(ctx, at, &unread)
	g.Exceptions = collect(ctx, at, store.TCBExceptionsPrefix, &unread, func(e policy.TCBGrant) string { return e.ID })
	g.Lowerings = collect(ctx, at, store.LoweringsPrefix, &unread, func(l policy.CollateralLowering) string { return l.FMSPC })
	for _, e := range at.entries {
		g.Required = g.Required || e.Key == store.RequireApprovalKey()
	}
	for _, err := range unread {
		g.Unread = append(g.Unread, store.RecordErrors(err)...)
	}
	slices.SortFunc(g.Unread, func(a, b *store.RecordError) int { return strings.Compare(a.Key, b.Key) })
	v.Gate = g
}

func revocations(ctx context.Context, at moment, unread *[]error) []policy.Revocation {
	var out []policy.Revocation
	written := keyed[policy.Revocation](ctx, at, store.RevocationsPrefix, unread)
	for _, e := range at.entries {
		name, ok := strings.CutPrefix(e.Key, store.RevocationsPrefix)
		if !ok {
			continue
		}
		r, ok := policy.ParseRevocation(name)
		if !ok {
			continue // its key is in no table of records; Unread has it
		}
		if text := written[e.Key].Value; text.Name() == r.Name() {
			r = text
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b policy.Revocation) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}

// Revocations reads the revocations in force directly from the store, for a decision that must not
// wait for a leader or a watch.
func Revocations(ctx context.Context, s store.Store) ([]policy.Revocation, error) {
	entries, _, err := s.List(ctx, store.RevocationsPrefix)
	if err != nil {
		return nil, fmt.Errorf("read revocations: %w", err)
	}
	var unread []error
	return revocations(ctx, moment{entries: entries}, &unread), nil
}

// AskedExceptions returns the operators' requests about machines, sorted by id.
func (g Gate) AskedExceptions() []policy.TCBGrant {
	out := make([]policy.TCBGrant, 0, len(g.Exceptions))
	for _, id := range slices.Sorted(maps.Keys(g.Exceptions)) {
		out = append(out, g.Exceptions[id].Value)
	}
	return out
}

// Judging returns the policy for judging machines: the trust file's policy plus the exceptions that
// operators granted, the leader accepted, and whose records still exist. A nil View adds no
// exception.
func (v *View) Judging(ip policy.ImagePolicy) policy.ImagePolicy {
	if v != nil && len(v.Gate.Exceptions) > 0 {
		ip.TCB.Granted = v.Ledger.Value.InForce(v.Gate.AskedExceptions())
	}
	return ip
}

// FoldGroup returns the policy of the spec's group as it should read at now, with the problems:
// each request that was not carried out or cannot be.
func (v *View) FoldGroup(spec group.Spec, now time.Time) (policy.GroupPolicy, []policy.Problem) {
	return v.FoldAsked(spec, v.Asked(spec), now)
}

// FoldAsked is FoldGroup with an Asked that the caller already has.
func (v *View) FoldAsked(spec group.Spec, asked policy.Asked, now time.Time) (policy.GroupPolicy, []policy.Problem) {
	before := v.Gate.Groups[spec.Name].Value
	folded, problems := before.Fold(asked, now)
	folded.Epoch, folded.Term = before.Epoch, before.Term
	for _, bad := range v.Gate.Unread {
		if g, ok := strings.CutPrefix(bad.Key, store.FloorPrefix); ok && g != spec.Name && g != store.Everywhere {
			continue
		}
		message := bad.Error() + "; it counts for nothing"
		if _, ok := policy.ParseRevocation(strings.TrimPrefix(bad.Key, store.RevocationsPrefix)); ok && strings.HasPrefix(bad.Key, store.RevocationsPrefix) {
			message = bad.Error() + "; it is in force all the same, by its key"
		}
		problems = append(problems, policy.Problem{Reason: policy.ProblemUnreadable, Message: message})
	}
	return folded, append(problems, v.secretProblems(spec)...)
}

// Asked returns the input of the fold; it does not depend on the time. It names the spec's Revision
// and the content of each existing Revision.
func (v *View) Asked(spec group.Spec) policy.Asked {
	target := spec.Revision()
	asked := policy.Asked{
		Group: spec.Name, RequireApproval: spec.UpdatePolicy.RequireApproval || v.Gate.Required,
		Target: v.known(spec.Name, target, spec.Template), Stable: v.Statuses[spec.Name].Value.Stable,
		Approvals: v.Gate.Approvals, Revoked: v.Gate.Revocations,
	}
	for digest, r := range v.Revisions {
		_, numbered := v.Gate.Groups[spec.Name].Value.Revisions[digest]
		if digest != target && (numbered || r.Value.Group == spec.Name) {
			asked.Recorded = append(asked.Recorded, v.known(spec.Name, digest, r.Value.Template))
		}
	}
	for at, floor := range map[string]**policy.Floor{spec.Name: &asked.Floor, store.Everywhere: &asked.Everywhere} {
		if f, ok := v.Gate.Floors[at]; ok {
			*floor = &f.Value
		}
	}
	for _, p := range v.Policies {
		if p.Value.Group == spec.Name {
			asked.FloorSeen = max(asked.FloorSeen, p.Value.Floor)
		}
	}
	return asked
}

// eachGroupPolicy calls f with the policy of every group.
func (v *View) eachGroupPolicy(f func(policy.GroupPolicy)) {
	for _, g := range v.Gate.Groups {
		f(g.Value)
	}
	if v.others == nil {
		return
	}
	for name, g := range v.others.Gate.Groups {
		if _, own := v.Gate.Groups[name]; !own {
			f(g.Value)
		}
	}
}

// known returns a Revision with its position, as far as the records have it. Content that any group
// used before has the age that it has there.
func (v *View) known(groupName, digest string, t group.Template) policy.Known {
	k := policy.Known{Revision: digest, Content: group.Content(t)}
	if r, ok := v.Revisions[digest]; ok {
		k.ComposeHash, k.At = r.Value.ComposeHash, r.Value.CreatedAt
		if r.Value.Group == groupName {
			k.Number = r.Value.Number
		}
	}
	v.eachGroupPolicy(func(g policy.GroupPolicy) {
		for _, n := range g.Revisions {
			if n.Content == k.Content && (k.At.IsZero() || n.At.Before(k.At)) {
				k.At = n.At
			}
		}
	})
	return k
}

// Folded returns sp under the group's accepted policy and the current revocations.
func (v *View) Folded(sp policy.SlotPolicy) policy.SlotPolicy {
	return sp.Under(v.Gate.Groups[sp.Group].Value, v.Gate.Revocations).Bounded()
}

// Unfit returns the reason why the Boot of a must lose its Slot at once; a zero Decision means
// none. While the Slot has an open Operation the binding may change, and the Operation ends the
// Boot.
func (v *View) Unfit(a policy.Admission, sp policy.SlotPolicy) policy.Decision {
	// Folded would be wrong here: its result is bounded, and this check must see every revocation.
	d := policy.MayStay(a, sp.Under(v.Gate.Groups[sp.Group].Value, v.Gate.Revocations))
	if d.Code == policy.CodeInstanceMismatch {
		if _, open := v.OpenOperation(a.Slot); open {
			return policy.Decision{}
		}
	}
	if d.Allowed {
		return policy.Decision{}
	}
	return d
}
