package control

import (
	"context"

	"cadre.dev/coordinator/internal/view"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Version is that of the desired state of slot by v; 0: v has no record of the Slot.
func Version(v *view.View, slot string) uint64 {
	record, ok := v.Slots[slot]
	if !ok {
		return 0
	}
	return version(v, record.Value.Group, slot)
}

// Unchanged is the answer to an agent that has the desired state of v; nil: it has not.
func Unchanged(v *view.View, slot string, req *controlv1.GetDesiredRequest) *controlv1.Desired {
	return unchanged(v, slot, req)
}

// FollowSlots calls wake with each Slot whose desired state changed, each time these records
// do, until ctx ends: what Follow does for sessions.
func FollowSlots(ctx context.Context, views Views, wake func(slot string)) {
	records := views.Subscribe()
	defer records.Close()
	told := map[string]uint64{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-records.C():
		}
		v, changed := records.Take()
		if v == nil {
			continue
		}
		scope := ScopeOf(changed.All, changed.Groups)
		for slot, record := range v.Slots {
			if !scope.has(record.Value.Group) {
				continue
			}
			if now := version(v, record.Value.Group, slot); told[slot] != now {
				told[slot] = now
				wake(slot)
			}
		}
	}
}
