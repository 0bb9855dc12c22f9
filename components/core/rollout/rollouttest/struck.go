package rollouttest

import (
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// away is how long the members of a group with many faults have been away: most of the time after which they are lost.
const away = 4 * time.Minute

// rest is a group of n Slots, all available at the target, that heals faults.
func rest(n int) *busy {
	b := started(n, group.WorkloadNone)
	b.from = b.to
	b.Spec.AutoHealing = &group.AutoHealing{Replace: group.ReplaceAuto}
	b.Records.Status.Stable = b.to
	b.Records.Rollout.State, b.Records.Rollout.EndedAt = operation.Complete, began
	for i := range n {
		b.slot(i, 0)
	}
	return b
}

// strike makes a third of the Slots be away, each since a different moment.
func (b *busy) strike(how func(*group.SlotRecord, *rollout.SlotObservation)) World {
	for i := 0; i < len(b.Records.Slots); i += 3 {
		record := &b.Records.Slots[i]
		record.AvailableSince, record.UnavailableSince = time.Time{}, now.Add(-away+time.Duration(i)*time.Millisecond)
		how(record, &b.Seen.Slots[i])
	}
	return b.World
}

// Silent is a group of n Slots. The agents of a third of them stopped reporting together, as did those of the whole
// cluster.
func Silent(n int) World {
	b := rest(n)
	f := &b.Seen.Fleet
	f.Expected, f.Heard = n, n
	return b.strike(func(record *group.SlotRecord, seen *rollout.SlotObservation) {
		seen.Report, record.SilenceFrom = nil, record.UnavailableSince
		f.Heard--
		f.Silences = append(f.Silences, record.SilenceFrom)
	})
}

// Failing is a group with the CVMs of a third stopped or missing on the platform, while healing waits before the next
// attempt.
func Failing(n int) World {
	b := rest(n)
	return b.strike(func(record *group.SlotRecord, seen *rollout.SlotObservation) {
		seen.Report, record.Heals = nil, &group.Heals{Attempts: 1, LastAt: now, LastKind: string(operation.Restart)}
		if seen.Instance.Status = "stopped"; record.Ordinal%2 == 0 {
			seen.Instance, record.MissedSince = nil, record.UnavailableSince
		}
	})
}

// ScaledIn is a group of n Slots that is to have one Slot; no operator gave the other disks up.
func ScaledIn(n int) World {
	b := rest(n)
	b.Spec.Replicas = 1
	return b.World
}
