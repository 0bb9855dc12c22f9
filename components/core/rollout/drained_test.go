package rollout

import (
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR139_ADrainedLeaderThatIsOnlyStoppedIsAskedForNothing: it waits for no successor, because its workload elects one
// when it stops.
func TestR139_ADrainedLeaderThatIsOnlyStoppedIsAskedForNothing(t *testing.T) {
	for handOver, want := range map[string]string{
		group.HandOver:    "leads, and",
		group.HandOverEnd: "out of service until it is undrained",
	} {
		f := newFixture(3, "none")
		f.spec.Workload = group.Workload{Kind: group.WorkloadCustom, Settings: map[string]string{"voters": "true", "hand_over": handOver}}
		f.lead(0)
		f.lagging(1, 1).lagging(2, 1).drains(0)
		f.op(0, operation.Drained, func(op *operation.Operation) {
			op.Kind, op.Actor = operation.Drain, operation.ActorOperator
			op.Entered[operation.Draining] = f.now
		})
		op := f.rec.Operations[0]
		next, effects := operation.Advance(op, f.facts(op), f.now)
		if next.Phase != operation.Drained || len(effects) > 0 || !strings.HasPrefix(next.Reason, want) {
			t.Errorf("%s: %s %v, %q", handOver, next.Phase, effects, next.Reason)
		}
	}
}
