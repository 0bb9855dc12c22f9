package observe

import (
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// silentAfter is when an agent counts as silent here, as for the planner.
var silentAfter = rollout.DefaultTiming().StaleAfter

// silent reports that an admitted Boot of the group is: only then somebody asks about the
// other groups, whose records are many.
func silent(seen rollout.Observation) bool {
	for _, s := range seen.Slots {
		if s.Admission != nil && (s.Report == nil || seen.At.Sub(s.Report.ReceivedAt) > silentAfter) {
			return true
		}
	}
	return false
}

// fleet counts the agents of all groups, and those that are heard. A CVM that its group's
// last pass found stopped or gone is nobody to hear of.
func fleet(v *view.View, agents Reports, now time.Time) rollout.Fleet {
	all := v.All()
	var f rollout.Fleet
	for slot, a := range all.Admissions {
		if down(all.Instances[slot].Value) {
			f.Down++
			continue
		}
		if all.Boots[slot].EndedBy(a.Value.BootID) {
			continue
		}
		f.Expected++
		if r, ok := agents.Of(slot); ok && r.BootID == a.Value.BootID && now.Sub(r.At) <= silentAfter {
			f.Heard++
		} else if since := all.Slots[slot].Value.SilenceFrom; !since.IsZero() {
			f.Silences = append(f.Silences, since)
		}
	}
	return f
}

// down: the platform's word as it was reported last; where nothing was, the CVM may run.
func down(i group.InstanceStatus) bool {
	return i.State == "Vanished" || i.PlatformStatus != "" && !(&rollout.Instance{Status: i.PlatformStatus}).Running()
}
