package observe

import (
	"slices"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

// elsewhere are the boots of other groups' Slots that failed lately, for a group of which one
// failed too, and those that its shared cause names. Only then the others are looked at, whose
// records are many.
func elsewhere(v *view.View, name string, cause *group.SharedCause, now time.Time) []rollout.Boot {
	stands := cause != nil && cause.Ended.IsZero()
	if !stands && !slices.ContainsFunc(v.SlotsOf(name), func(r group.SlotRecord) bool { return mayShare(boot(v, r.Slot), now) }) {
		return nil
	}
	all := v.All()
	var out []rollout.Boot
	for slot, record := range all.Slots {
		if record.Value.Group == name {
			continue
		}
		one := boot(all, slot)
		if mayShare(one, now) && all.Instances[slot].Value.State != group.SlotAvailable || stands && slices.Contains(cause.Slots, slot) {
			out = append(out, one)
		}
	}
	return out
}

func mayShare(b rollout.Boot, now time.Time) bool { return b.Way != "" && rollout.MayShare(b.At, now) }

// boot is what the records tell of the newest boot of a Slot.
func boot(v *view.View, slot string) rollout.Boot {
	out := rollout.Boot{Slot: slot}
	var admission *policy.Admission
	if a, ok := v.Admissions[slot]; ok {
		admission, out.AdmittedAt = &a.Value, a.Value.AdmittedAt
	}
	var refusal *policy.Refusal
	if r, ok := v.Refusals[slot]; ok {
		refusal = &r.Value
	}
	var healed []*operation.Operation
	all := v.OperationsOf(slot)
	for n := range all {
		if o := &all[n].Value; o.Actor == operation.ActorHealing && o.Phase.Ended() {
			healed = append(healed, o)
		}
	}
	out.Way, out.At = rollout.FailedBoot(admission, refusal, v.Slots[slot].Value.UnavailableSince, healed)
	return out
}
