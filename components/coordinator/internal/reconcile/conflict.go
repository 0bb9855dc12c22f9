package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/policy"
)

// ConditionOneBootPerSlot is false while two Boots claim one Slot with genuine evidence, and while
// a Slot is contested between them. It is left out otherwise.
const ConditionOneBootPerSlot = "OneBootPerSlot"

// conflictShown is how long a claim is shown after its last attempt. A CVM that rebooted without a
// planned step claims its Slot for some seconds too. The Boot then gets the Slot, and that becomes
// the last decision.
const conflictShown = 10 * time.Minute

// bootConflict names the contested Slots with the way out. For other Slots whose last decision was
// a conflict it names both Boots.
func (p *pass) bootConflict(ctx context.Context) (group.Condition, bool) {
	var claims []string
	for _, s := range p.view.SlotsOf(p.name) {
		if why := p.view.Admissions[s.Slot].Value.Contest.Why(s.Slot); why != "" {
			claims = append(claims, s.Slot+": "+why)
			continue
		}
		// The refusal is short; the decisions are read only where it is a conflict.
		if p.view.Refusals[s.Slot].Value.Code != policy.CodeInstanceConflict {
			continue
		}
		decisions, err := view.ReadDecisions(ctx, p.cfg.Store, s.Slot)
		if err != nil {
			continue // the next pass reports the conflict
		}
		last := decisions.Last()
		if (last.What == policy.DecidedConflict || last.What == policy.DecidedMet) && p.now.Sub(last.At) < conflictShown {
			claims = append(claims, fmt.Sprintf("%s: boot %.12s of instance %s holds it, boot %.12s of instance %s claims it",
				s.Slot, last.HolderBootID, last.HolderInstanceID, last.BootID, last.InstanceID))
		}
	}
	slices.Sort(claims)
	return group.Condition{
		Type: ConditionOneBootPerSlot, Reason: string(policy.CodeInstanceConflict), Message: bounded(names.Few(claims, "; ")), Since: p.now,
	}, len(claims) > 0
}
