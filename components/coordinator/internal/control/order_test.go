package control

import (
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/operation"
)

// TestR80_ADrainWithoutHooksIsOrdered: the record shows that a hook cancelled the drain of an
// unhealthy member, and the order then has WithoutHooks.
func TestR80_ADrainWithoutHooksIsOrdered(t *testing.T) {
	op := operation.Operation{ID: "op", Slot: "db-0", Kind: operation.Restart, Actor: operation.ActorHealing, Phase: operation.Draining, Attempt: 2}
	for cause, want := range map[operation.Cause]bool{"": false, operation.CauseHook: true} {
		op.Failure.Cause = cause
		v := &view.View{Operations: map[string]view.Rec[operation.Operation]{"op": {Value: op}}}
		if got := orderOf(v, "db-0", "boot"); got.GetAttempt() != 2 || got.GetWithoutHooks() != want {
			t.Errorf("cause %q: %v", cause, got)
		}
	}
}
