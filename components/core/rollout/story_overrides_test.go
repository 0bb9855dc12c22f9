package rollout_test

import (
	"slices"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// overrides reports that op began past a hold that an operator overrides.
func overrides(op operation.Operation, hold string) bool {
	return slices.ContainsFunc(op.Overridden, func(o operation.Overridden) bool { return o.Hold == hold })
}

// overrideHold overrides a hold as the API does: for the rollout that is not over, or for the time without one.
func (s *story) overrideHold(hold, length string) error {
	d, err := time.ParseDuration(length)
	if s.c.holdOverrides == nil {
		s.c.holdOverrides = map[string]*rollout.Override{}
	}
	s.c.holdOverrides[hold] = &rollout.Override{By: "op", Reason: "it cannot wait", Until: s.w.now.Add(d), Rollout: rollout.CurrentRollout(s.c.plan.Rollout)}
	return err
}
