package observe

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/truncate"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// Reports returns the last report of a Slot.
type Reports interface {
	Of(slot string) (reports.Received, bool)
}

// Seen is the complete state of one group at one moment.
type Seen struct {
	Spec    group.Spec
	Records rollout.Records
	Now     rollout.Observation
	// Pass is the planner's evaluation of it; nil until the leader has planned from it.
	Pass *rollout.Pass
	// Listing is the platform's list behind Now.
	Listing Listing
	// Asked is the input of the group's policy; its Target is the Revision of Spec.
	Asked policy.Asked
}

// Group joins all data about one group. cluster is the prefix of CVM names.
func Group(v *view.View, spec group.Spec, cluster string, listing Listing, agents Reports) Seen {
	return Again(Seen{Spec: spec, Records: records(v, spec.Name), Asked: v.Asked(spec)}, v, cluster, listing, agents)
}

// Again is Group for an earlier Seen whose records have not changed.
func Again(seen Seen, v *view.View, cluster string, listing Listing, agents Reports) Seen {
	spec := seen.Spec
	seen.Listing, seen.Pass = listing, nil
	// The policy is folded as in the leader's next pass. A plan for a spec that is not stored yet
	// thus shows the approvals that it would wait for.
	seen.Records.Policy, seen.Records.Problems = v.FoldAsked(spec, seen.Asked, listing.At)
	seen.Records.NoValue = v.NoValue(spec)
	seen.Now = rollout.Observation{
		Platform: rollout.Source{Known: listing.Err == nil}, Records: rollout.Source{Known: true}, At: listing.At,
		Requests: requests(v, spec.Name), DeleteDisks: v.DeleteDisks[spec.Name].Value.Slots,
	}
	seen.Now.Pause, seen.Now.Freeze = override(v, store.OverridePause, spec.Name), freeze(v, spec.Name)
	seen.Now.Gates, seen.Now.HoldOverrides = gates(v, spec), holdOverrides(v, spec.Name)
	if d, asked := v.Deletes[spec.Name]; asked {
		seen.Now.Deletion = &rollout.Deletion{KeepCVMs: d.Value.KeepCVMs, Reason: d.Value.Reason, By: d.Value.By}
	}
	if listing.Err != nil {
		seen.Now.Platform.Silent = "the platform did not answer: " + listing.Err.Error()
	}
	seen.Now.SilentNodes = listing.silent()
	seen.Now.Places = places(v.All(), spec, listing)
	seen.Now.Order = order(v, spec)
	names := map[string]group.SlotRecord{}
	for _, record := range v.SlotsOf(spec.Name) {
		names[record.PlatformName] = record
		one := slot(v, record, listing, agents)
		if one.Admission != nil && one.Admission.Simulated {
			seen.Now.Simulated = true
		}
		seen.Now.Slots = append(seen.Now.Slots, one)
	}
	for _, i := range listing.like(cluster + "-" + spec.Name) {
		if _, claimed := names[i.Name]; !claimed && ofGroup(i.Name, cluster, spec.Name) {
			seen.Now.Orphans = append(seen.Now.Orphans, i.Name+" ("+cmp.Or(i.VMUUID, i.ID)+")")
		}
	}
	slices.Sort(seen.Now.Orphans)
	if asksOfOthers(spec, v.SlotsOf(spec.Name), seen.Now) {
		seen.Now.Fleet = fleet(v, agents, listing.At)
	}
	return seen
}

// records returns the records of the group; planning changes none of them.
func records(v *view.View, name string) rollout.Records {
	rec := rollout.Records{
		SpecIndex: v.Specs[name].Index, AppliedBy: v.Accepted[name].By, AppliedRequest: v.Accepted[name].Request, Status: v.Statuses[name].Value, Slots: slices.Clone(v.SlotsOf(name)),
		Revisions: map[string]group.RevisionRecord{}, Policies: map[string]policy.SlotPolicy{},
	}
	if rec.Status.Group == "" {
		rec.Status.Group = name
	}
	// A digest names content, so two groups may share a record.
	for digest, r := range v.Revisions {
		rec.Revisions[digest] = r.Value
	}
	for _, s := range rec.Slots {
		if p, ok := v.Policies[s.Slot]; ok {
			rec.Policies[s.Slot] = p.Value
		}
	}
	if newest := v.RolloutsOf(name); len(newest) > 0 {
		rec.Rollout = &newest[0].Value
		// The status may be lost, or a leader may have crashed before it wrote the status. The
		// newest rollout then gives the generation, so that no two rollouts have the same one.
		rec.Status.Generation = max(rec.Status.Generation, rec.Rollout.Generation)
	}
	current := ""
	if rec.Rollout != nil {
		current = rec.Rollout.ID
	}
	var all []*operation.Operation
	for _, slot := range v.SlotsWithOperations() {
		of := v.OperationsOf(slot)
		if of[0].Value.Group != name {
			continue
		}
		if at := slices.IndexFunc(of, func(o view.Rec[operation.Operation]) bool { return !o.Value.Phase.Ended() }); at >= 0 {
			all = append(all, &of[at].Value)
		}
		counts, _ := v.Past(slot, current)
		for _, o := range counts {
			if o.Value.Counts(current) {
				all = append(all, &o.Value)
			}
		}
	}
	// Operations are large, so the list is allocated once at its final size.
	rec.Operations = make([]operation.Operation, 0, len(all))
	for _, o := range all {
		rec.Operations = append(rec.Operations, *o)
	}
	return rec
}

// requests returns the operators' requests about this group, by id.
func requests(v *view.View, name string) []rollout.Request {
	var out []rollout.Request
	spent := map[string]bool{}
	if len(v.Queue) > 0 {
		for _, o := range v.Operations {
			spent[o.Value.Request.ID] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.Queue)) {
		q := v.Queue[id].Value
		if q.Check() != nil {
			continue // an invalid request is never carried out
		}
		switch q.Kind {
		case store.RequestRestart, store.RequestUpdate, store.RequestReplace:
			if v.Slots[q.Slot].Value.Group != name {
				continue
			}
		case store.RequestResolve:
			if v.Operations[q.Operation].Value.Group != name || q.Group != "" && q.Group != name {
				continue
			}
		case store.RequestRetry, store.RequestPromote:
			if q.Group != name {
				continue
			}
		default:
			continue // not for the planner
		}
		out = append(out, rollout.Request{
			ID: id, Kind: rollout.RequestKind(q.Kind), Slot: q.Slot, VMUUID: q.VMUUID, InstanceID: q.InstanceID, Gone: q.Gone, At: q.At, Service: q.Service,
			Operation: q.Operation, As: string(q.As), Rollout: q.Rollout, Stage: q.Stage, Reason: q.Reason, By: q.By, Spent: spent[id],
		})
	}
	return out
}

// slot joins all data about one Slot. A report counts only if it comes from the admitted Boot
// (R11).
func slot(v *view.View, record group.SlotRecord, listing Listing, agents Reports) rollout.SlotObservation {
	one := rollout.SlotObservation{Slot: record.Slot, Ordinal: record.Ordinal,
		Drain: override(v, store.OverrideDrain, record.Slot), Protection: override(v, store.OverrideProtect, record.Slot), Exclusion: override(v, store.OverrideExclude, record.Slot)}
	one.Instance, one.Duplicates = instances(record, listing)
	if a, ok := v.Admissions[record.Slot]; ok {
		one.Admission = &a.Value
		if r, ok := agents.Of(record.Slot); ok && r.BootID == a.Value.BootID {
			one.Report = r.Observed()
		}
	}
	if r, ok := v.Refusals[record.Slot]; ok {
		one.Refusal = &r.Value
	}
	return one
}

// instances returns the CVM of the Slot: the recorded one, else the one with the Slot's name. Other
// CVMs with that name are duplicates (R67).
func instances(record group.SlotRecord, listing Listing) (*rollout.Instance, []rollout.Instance) {
	var same []rollout.Instance
	for _, i := range listing.named(record.PlatformName, record.VMUUID) {
		if i.Name != record.PlatformName && (record.VMUUID == "" || i.VMUUID != record.VMUUID) {
			continue
		}
		same = append(same, rollout.Instance{
			VMUUID: cmp.Or(i.VMUUID, i.ID), InstanceID: i.InstanceID, AppID: i.AppID, Name: i.Name, Status: i.Status,
			InProgress: i.InProgress, ComposeHash: i.ComposeHash, BootError: truncate.Line(i.BootError), UpdatedAt: i.UpdatedAt, Node: i.Node,
			Shape: operation.Shape{InstanceType: i.InstanceType, OSImage: i.OSImage, DiskGB: i.DiskGB},
		})
	}
	return rollout.Filling(record.VMUUID, same)
}

func ofGroup(name, cluster, groupName string) bool {
	rest, ok := strings.CutPrefix(name, cluster+"-")
	if !ok {
		return false
	}
	g, _, err := group.ParseSlot(rest)
	return err == nil && g == groupName
}
