package reconcile

import (
	"fmt"

	"cadre.dev/core/group"
)

// ConditionDisksLost is true while every CVM of a group with a workload driver is gone with its disk.
const ConditionDisksLost = "DisksLost"

// disksLost: no member is left from which another member could be rebuilt. Every replacement is
// therefore held permanently, and only an operator can start the group again.
func (p *pass) disksLost() (group.Condition, bool) {
	spec, now := p.seen.Spec, p.seen.Now
	instances := p.plan.Status.Instances
	if !group.HasDriver(spec) || !now.Platform.Known || now.Deletion != nil || len(instances) == 0 {
		return group.Condition{}, false
	}
	for _, i := range instances {
		if i.State != group.SlotVanished {
			return group.Condition{}, false
		}
	}
	return group.Condition{
		Type: ConditionDisksLost, Status: true, Reason: "ALL_DISKS_LOST", Since: p.now,
		Message: fmt.Sprintf("every CVM of %s is gone from the platform with its disk, and no member is left that another one could be rebuilt from; if none comes back: "+
			"cadre group delete %s --delete-disks, then cadre group apply its spec, then restore a backup (docs/runbooks/lost-quorum.md)", spec.Name, spec.Name),
	}, true
}
