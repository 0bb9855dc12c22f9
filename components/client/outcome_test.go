package client

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// act is a planned action for a slot, held by predicates; without any it may run now.
func act(kind operation.Kind, ordinal int, predicates ...string) rollout.Action {
	a := rollout.Action{Slot: group.SlotName("web", ordinal), Ordinal: ordinal, Kind: kind, Execute: len(predicates) == 0}
	for _, p := range predicates {
		a.Holds = append(a.Holds, rollout.Hold{Predicate: p})
	}
	return a
}

// until is a with an end of its first hold.
func until(a rollout.Action) rollout.Action {
	a.Holds[0].Until = time.Unix(1, 0)
	return a
}

// The table shows for each plan whether a wait ends and whether a rollout counts as over. A step
// that only an operator can release is not waited for; an automatic one is.
func TestAWaitEndsAsItsPlanSays(t *testing.T) {
	const update, create, remove = operation.Update, operation.Create, operation.Delete
	waits := act(update, 0, rollout.HoldOpportunistic, rollout.HoldQuorum)
	healed := act(operation.Restart, 1, rollout.HoldHealBackoff)
	healed.Actor = operation.ActorHealing
	underWay := act(remove, 2, rollout.HoldMaxUnavailable)
	underWay.Operation = "op"
	for name, c := range map[string]struct {
		state         operation.RolloutState
		available     int
		actions       []rollout.Action
		done, settled bool
	}{
		"OPPORTUNISTIC, to be updated":                 {operation.Running, 2, []rollout.Action{waits}, true, true},
		"OPPORTUNISTIC, and one is away":               {operation.Running, 1, []rollout.Action{waits}, false, true},
		"OPPORTUNISTIC, something else is held":        {operation.Running, 2, []rollout.Action{waits, act(update, 1, rollout.HoldQuorum)}, false, false},
		"OPPORTUNISTIC, one is away and to be healed":  {operation.Running, 1, []rollout.Action{waits, healed}, false, true},
		"OPPORTUNISTIC, something begins":              {operation.Running, 2, []rollout.Action{waits, act(update, 1)}, false, false},
		"OPPORTUNISTIC, one more is made":              {operation.Running, 2, []rollout.Action{waits, act(create, 2)}, false, false},
		"OPPORTUNISTIC, the next waits for that":       {operation.Running, 2, []rollout.Action{waits, act(create, 3, rollout.HoldPredecessor)}, false, false},
		"OPPORTUNISTIC, one leaves":                    {operation.Running, 2, []rollout.Action{waits, act(remove, 2)}, false, false},
		"OPPORTUNISTIC, one stays for its disk":        {operation.Running, 2, []rollout.Action{waits, act(remove, 2, rollout.HoldDeleteDisks)}, true, true},
		"OPPORTUNISTIC, one stays for a preserved one": {operation.Running, 2, []rollout.Action{waits, act(remove, 2, rollout.HoldPreservedState, rollout.HoldMaxUnavailable)}, true, true},
		"OPPORTUNISTIC, one stays as it votes":         {operation.Running, 2, []rollout.Action{waits, act(remove, 2, rollout.HoldVoterScaleIn)}, true, true},
		"running, nothing is planned":                  {operation.Running, 2, nil, false, false},
		"running, only a slot stays for its disk":      {operation.Running, 2, []rollout.Action{act(remove, 2, rollout.HoldDeleteDisks)}, false, false},
		"baking":                    {operation.BakingState, 2, nil, false, false},
		"complete":                  {operation.Complete, 2, nil, true, true},
		"complete, and one is away": {operation.Complete, 1, nil, false, true},
		"complete, one leaves":      {operation.Complete, 2, []rollout.Action{act(remove, 2)}, false, false},
		"complete, one is leaving":  {operation.Complete, 2, []rollout.Action{underWay}, false, false},
		"complete, one leaves when another is back":         {operation.Complete, 2, []rollout.Action{act(remove, 2, rollout.HoldOthersUnavailable)}, false, false},
		"complete, one stays for its disk":                  {operation.Complete, 2, []rollout.Action{act(remove, 2, rollout.HoldDeleteDisks)}, true, true},
		"complete, one slot stays behind a slot that stays": {operation.Complete, 2, []rollout.Action{act(remove, 3, rollout.HoldDeleteDisks), act(remove, 2, rollout.HoldScaleInOrder)}, true, true},
		"complete, one stays as it is protected":            {operation.Complete, 2, []rollout.Action{act(remove, 2, rollout.HoldProtected)}, true, true},
		"complete, one stays as it is drained":              {operation.Complete, 2, []rollout.Action{act(remove, 2, rollout.HoldDrained)}, true, true},
		"complete, one is protected for a while":            {operation.Complete, 2, []rollout.Action{until(act(remove, 2, rollout.HoldProtected))}, false, false},
		"complete, one is drained for a while":              {operation.Complete, 2, []rollout.Action{until(act(remove, 2, rollout.HoldDrained))}, false, false},
		"complete, one leaves after the other":              {operation.Complete, 2, []rollout.Action{act(remove, 3), act(remove, 2, rollout.HoldScaleInOrder)}, false, false},
		"partition reached, one leaves":                     {operation.PartitionReached, 2, []rollout.Action{act(remove, 2)}, false, false},
		"partition reached":                                 {operation.PartitionReached, 1, nil, true, true},
		"failed, and another slot stays":                    {operation.SupersededState, 2, []rollout.Action{act(remove, 2, rollout.HoldDeleteDisks)}, false, false},
		"another slot restarts although all is complete":    {operation.Complete, 2, []rollout.Action{act(operation.Restart, 1)}, true, true},
	} {
		v := View{Status: group.Status{Group: "web", ObservedIndex: 7, RolloutState: string(c.state), Replicas: 2, Updated: 2, Available: c.available}, Plan: rollout.Plan{Actions: c.actions}}
		if done, err := Outcome(v, 7, ""); done != c.done || err != nil {
			t.Errorf("%s: done %v, %v; want %v", name, done, err, c.done)
		}
		if got := Settled(v, 7); got != c.settled {
			t.Errorf("%s: settled %v, want %v", name, got, c.settled)
		}
		if Settled(v, 8) {
			t.Errorf("%s: settled before the spec was seen", name)
		}
		v.Plan.Forget = []string{"web-2"}
		if done, err := Outcome(v, 7, ""); done || err != nil || Settled(v, 7) {
			t.Errorf("%s: over while the group still lists a slot whose CVM is gone: %v", name, err)
		}
	}
}
