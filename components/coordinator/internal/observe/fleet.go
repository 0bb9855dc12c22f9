package observe

import (
	"slices"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// silentAfter is the age of a report at which its agent counts as silent, as in the planner.
var silentAfter = rollout.DefaultTiming().StaleAfter

// asksOfOthers reports whether the planner needs data of the other groups, whose records are many.
// The data is needed if an admitted Boot of the group is silent, or if a member of a group with
// healing is unhealthy.
func asksOfOthers(spec group.Spec, records []group.SlotRecord, seen rollout.Observation) bool {
	for _, s := range seen.Slots {
		r := s.Report
		if s.Admission != nil && (r == nil || seen.At.Sub(r.ReceivedAt) > silentAfter) {
			return true
		}
		if r != nil && spec.AutoHealing != nil && (len(r.Failing) > 0 || r.Health == rollout.Unhealthy) {
			return true // no record has it yet
		}
	}
	return spec.AutoHealing != nil && slices.ContainsFunc(records, func(r group.SlotRecord) bool { return !r.UnavailableSince.IsZero() })
}

// fleet counts the agents of all groups, the agents with a recent report, and the CVMs that their
// groups' last pass found stopped or gone. fleet leaves out the Slots that an operator excludes and
// those in a step that is no repair: an ordinary step of another group is no storm.
func fleet(v *view.View, agents Reports, now time.Time) rollout.Fleet {
	all := v.All()
	var f rollout.Fleet
	for slot, a := range all.Admissions {
		record := all.Slots[slot].Value
		if at := record.Heals.Rated(); at.After(f.RepairedAt) {
			f.RepairedAt = at
		}
		isDown := down(all.Instances[slot].Value)
		r, reported := agents.Of(slot)
		heard := !isDown && reported && r.BootID == a.Value.BootID && now.Sub(r.At) <= silentAfter
		if since := record.UnavailableSince; !since.IsZero() && (!isDown || healed(all, slot)) && heals(all, record) && !keptAway(all, record, slot, now) {
			f.Unhealthy = append(f.Unhealthy, rollout.UnhealthyMember{Slot: slot, Since: since, TriedAt: record.Heals.Rated()})
		}
		switch {
		case !heard && keptAway(all, record, slot, now):
		case isDown:
			f.Down++
			if at := rollout.WentAt(record); len(at) > 0 {
				f.Downs = append(f.Downs, at)
			}
		case all.Boots[slot].EndedBy(a.Value.BootID):
		case heard:
			f.Expected++
			f.Heard++
		default:
			f.Expected++
			if !record.SilenceFrom.IsZero() {
				f.Silences = append(f.Silences, record.SilenceFrom)
			}
		}
	}
	return f
}

// healed reports whether a step heals the Slot now. During its restart the Slot sends no reports,
// and is still unhealthy.
func healed(all *view.View, slot string) bool {
	open, is := all.OpenOperation(slot)
	return is && open.Value.Actor == operation.ActorHealing
}

// heals reports whether the group of a Slot heals its members.
func heals(all *view.View, record group.SlotRecord) bool {
	spec, _, known := all.InForce(record.Group)
	return known && spec.AutoHealing != nil
}

// keptAway reports whether an operator drained the Slot or excluded it from healing, or whether an
// Operation of another actor works on it. A repair does not count: it shows that the Slot failed
// without an operator.
func keptAway(all *view.View, record group.SlotRecord, slot string, now time.Time) bool {
	if open, is := all.OpenOperation(slot); is && open.Value.Actor != operation.ActorHealing {
		return true
	}
	if _, drains := all.InEffect(store.OverrideDrain, slot, now); drains {
		return true
	}
	spec, _, known := all.InForce(record.Group)
	return known && spec.Unhealed(record.Ordinal, all.ExcludedFrom(slot, now))
}

// down reports the last recorded state of the platform. Without a record the CVM may be running.
func down(i group.InstanceStatus) bool {
	return i.State == group.SlotVanished || i.PlatformStatus != "" && !(&rollout.Instance{Status: i.PlatformStatus}).Running()
}
