package reconcile

import (
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

// ConditionMachinesUpToDate is false while members run on machines that are admitted by a
// tolerance of the trust file only. It is left out otherwise.
const ConditionMachinesUpToDate = "MachinesUpToDate"

// tolerated names the Slots whose machines are tolerated for a while, the first to end first.
func (p *pass) tolerated() (group.Condition, bool) {
	type end struct {
		at   time.Time
		slot string
	}
	var ends []end
	for _, s := range p.view.SlotsOf(p.name) {
		if at := p.view.ToleratedUntil(s.Slot, p.cfg.Images.TCB, p.now); !at.IsZero() {
			ends = append(ends, end{at, s.Slot})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return a.at.Compare(b.at) })
	lines := make([]string, len(ends))
	for i, e := range ends {
		lines[i] = fmt.Sprintf("%s: the TCB is %s, tolerance ends in %d days (%s)",
			e.slot, p.view.Admissions[e.slot].Value.Claims.TCB.Status, int(e.at.Sub(p.now)/(24*time.Hour)), e.at.UTC().Format(time.DateOnly))
	}
	return group.Condition{
		Type: ConditionMachinesUpToDate, Reason: string(policy.CodeTCBOutOfDate), Message: bounded(rollout.Few(lines, "; ")), Since: p.now,
	}, len(lines) > 0
}
