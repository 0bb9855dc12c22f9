package client

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// The table has the next step of an update of one slot for each view.
func TestUpdateDecides(t *testing.T) {
	opportunistic := rollout.Hold{Predicate: rollout.HoldOpportunistic, Message: "restart the slot"}
	quorum := rollout.Hold{Predicate: rollout.HoldQuorum, Message: "2 of 3 voters are healthy"}
	step := func(slot string, change func(*rollout.Action)) rollout.Action {
		a := rollout.Action{Slot: slot, Holds: []rollout.Hold{opportunistic}}
		if change != nil {
			change(&a)
		}
		return a
	}
	for name, c := range map[string]struct {
		state         group.SlotState
		observed      string
		revision, env string
		asked, byHand bool
		actions       []rollout.Action
		want          updateStep
		err           string
		kind          Kind
	}{
		"there":                         {state: StateAvailable, observed: "new", want: updateDone},
		"there, and not available":      {state: "Unavailable", observed: "new", want: updateWait},
		"only opportunistic holds it":   {state: StateAvailable, observed: "old", actions: []rollout.Action{step("web-1", nil)}, want: updateAsk},
		"asked for already":             {state: "Draining", observed: "old", asked: true, actions: []rollout.Action{step("web-1", nil)}, want: updateWait},
		"under way":                     {state: "Booting", observed: "old", actions: []rollout.Action{step("web-1", func(a *rollout.Action) { a.Operation = "op" })}, want: updateWait},
		"a PROACTIVE rollout begins it": {state: StateAvailable, observed: "old", actions: []rollout.Action{{Slot: "web-1", Execute: true}}, want: updateWait},
		"the quorum does not bear it":   {state: StateAvailable, observed: "old", actions: []rollout.Action{step("web-1", func(a *rollout.Action) { a.Holds = append(a.Holds, quorum) })}, err: "quorum: 2 of 3 voters are healthy", kind: Conflict},
		"the quorum may bear it later":  {state: StateAvailable, observed: "old", actions: []rollout.Action{step("web-0", func(a *rollout.Action) { a.Operation = "op" }), step("web-1", func(a *rollout.Action) { a.Holds = append(a.Holds, quorum) })}, want: updateWait},
		"only time holds it": {state: StateAvailable, observed: "old", actions: []rollout.Action{step("web-1", func(a *rollout.Action) {
			a.Holds = append(a.Holds, rollout.Hold{Predicate: rollout.HoldBackoff, Until: time.Unix(9, 0)})
		})}, want: updateWait},
		"no step is planned":                                       {state: StateAvailable, observed: "old", err: "no step is planned for it", kind: Conflict},
		"the group is paused":                                      {state: StateAvailable, observed: "old", actions: []rollout.Action{{Slot: "web-1", Holds: []rollout.Hold{{Predicate: rollout.HoldPaused}}}}, err: "paused", kind: Conflict},
		"a person passes the pause":                                {state: StateAvailable, observed: "old", byHand: true, actions: []rollout.Action{{Slot: "web-1", Holds: []rollout.Hold{{Predicate: rollout.HoldPaused}}}}, want: updateAsk},
		"it leads, and is asked about":                             {state: StateAvailable, observed: "old", actions: []rollout.Action{{Slot: "web-1", Holds: []rollout.Hold{{Predicate: rollout.HoldLeaderNeedsApproval}}}}, want: updateAsk},
		"it takes more than is allowed":                            {state: StateAvailable, observed: "old", actions: []rollout.Action{{Slot: "web-1", Holds: []rollout.Hold{{Predicate: rollout.HoldActionNotAllowed}}}}, err: "action_not_allowed", kind: Conflict},
		"a person allows it":                                       {state: StateAvailable, observed: "old", byHand: true, actions: []rollout.Action{{Slot: "web-1", Holds: []rollout.Hold{{Predicate: rollout.HoldActionNotAllowed}}}}, want: updateAsk},
		"another slot failed":                                      {state: StateAvailable, observed: "old", byHand: true, actions: []rollout.Action{{Slot: "web-1", Attempt: 1, Holds: []rollout.Hold{{Predicate: rollout.HoldRolloutFailed}}}}, err: "rollout_failed", kind: Conflict},
		"its own update failed":                                    {state: group.SlotFailed, observed: "old", byHand: true, want: updateAsk},
		"its own update failed, and no operator acts":              {state: group.SlotFailed, observed: "old", err: "no step is planned for it", kind: Conflict},
		"it failed at the target, so that no update of it is left": {state: group.SlotFailed, observed: "new", byHand: true, err: "its step failed there", kind: Conflict},
		"it failed at the target, and no operator acts":            {state: group.SlotFailed, observed: "new", want: updateWait},
		"its own update was called off too often":                  {state: StateAvailable, observed: "old", byHand: true, actions: []rollout.Action{{Slot: "web-1", Attempt: 2, Holds: []rollout.Hold{{Predicate: rollout.HoldRolloutFailed}}}}, want: updateAsk},
		"a restart waits for its update":                           {state: group.SlotFailed, observed: "old", byHand: true, actions: []rollout.Action{{Slot: "web-1", Holds: []rollout.Hold{{Predicate: rollout.HoldUpdateUnfinished}}}}, want: updateAsk},
		"everything is frozen":                                     {state: StateAvailable, observed: "old", actions: []rollout.Action{{Slot: "web-1", Holds: []rollout.Hold{{Predicate: rollout.HoldFrozen}}}}, err: "frozen", kind: Conflict},
		"its env waits":                                            {state: StateAvailable, observed: "new", env: group.OwnUnapplied, actions: []rollout.Action{step("web-1", nil)}, want: updateAsk},
		"its env is there":                                         {state: StateAvailable, observed: "new", env: group.OwnApplied, want: updateDone},
		"its env is kept back":                                     {state: StateAvailable, observed: "new", env: group.OwnUnapplied, byHand: true, err: "no step is planned for it", kind: Conflict},
		"another revision is asked for":                            {state: StateAvailable, observed: "old", revision: "third", err: "the group asks for revision new, not third", kind: Invalid},
		"that revision is asked for":                               {state: StateAvailable, observed: "new", revision: "new", want: updateDone},
	} {
		u := &update{slot: "web-1", revision: c.revision, byHand: c.byHand}
		v := View{Status: group.Status{Group: "web", Target: "new", Instances: []group.InstanceStatus{{Slot: "web-0"}, {Slot: "web-1", State: c.state, Observed: c.observed, OwnEnv: c.env}}}, Plan: rollout.Plan{Actions: c.actions}}
		got, err := u.next(v, c.asked)
		if (err == nil) != (c.err == "") || got != c.want || err != nil && (!strings.Contains(err.Error(), c.err) || KindOf(err) != c.kind) {
			t.Errorf("%s: %v, %v; want %v, %q", name, got, err, c.want, c.err)
		}
	}
	u := &update{slot: "web-7"}
	if _, err := u.next(View{Status: group.Status{Group: "web", Instances: []group.InstanceStatus{{Slot: "web-0"}}}}, false); KindOf(err) != NotFound {
		t.Errorf("a slot that is not there: %v", err)
	}
}

// A slot whose own size waits is waited for, as one whose own env waits.
func TestR143_UpdateGivesOwnSize(t *testing.T) {
	for size, want := range map[string]updateStep{group.OwnApplied: updateDone, group.OwnUnapplied: updateWait} {
		u := &update{slot: "web-1", own: true}
		i := group.InstanceStatus{Slot: "web-1", State: StateAvailable, Observed: "new", OwnInstanceType: size}
		v := View{Status: group.Status{Group: "web", Target: "new", Instances: []group.InstanceStatus{i}}, Plan: rollout.Plan{Actions: []rollout.Action{{Slot: "web-1", Execute: true}}}}
		if got, err := u.next(v, false); got != want || err != nil {
			t.Errorf("%s: %v, %v", size, got, err)
		}
	}
}

// The table has the next step for a slot that gets its own env (R143), alone or with its revision.
func TestR143_UpdateGivesOwnEnv(t *testing.T) {
	opportunistic := rollout.Hold{Predicate: rollout.HoldOpportunistic, Message: "restart the slot"}
	quorum := rollout.Hold{Predicate: rollout.HoldQuorum, Message: "2 of 3 voters are healthy"}
	gives := func(holds ...rollout.Hold) []rollout.Action {
		return []rollout.Action{{Slot: "web-1", Way: operation.Way{Mode: operation.ModeOwn}, Holds: holds}}
	}
	for name, c := range map[string]struct {
		state         group.SlotState
		observed, env string
		only          bool
		actions       []rollout.Action
		want          updateStep
		err           string
	}{
		"given":                                                 {state: StateAvailable, observed: "new", env: group.OwnApplied, only: true, want: updateDone},
		"given, and not available":                              {state: "Booting", observed: "new", env: group.OwnApplied, only: true, want: updateWait},
		"given, at an old revision":                             {state: StateAvailable, observed: "old", env: group.OwnApplied, only: true, actions: []rollout.Action{{Slot: "web-1", Holds: []rollout.Hold{opportunistic}}}, want: updateDone},
		"its step is not asked for":                             {state: StateAvailable, observed: "new", env: group.OwnUnapplied, only: true, actions: gives(opportunistic), want: updateAsk},
		"nor where the revision is meant too":                   {state: StateAvailable, observed: "new", env: group.OwnUnapplied, actions: gives(opportunistic), want: updateAsk},
		"its step begins automatically":                         {state: StateAvailable, observed: "new", env: group.OwnUnapplied, only: true, actions: []rollout.Action{{Slot: "web-1", Way: operation.Way{Mode: operation.ModeOwn}, Execute: true}}, want: updateWait},
		"the quorum does not bear it":                           {state: StateAvailable, observed: "new", env: group.OwnUnapplied, only: true, actions: gives(opportunistic, quorum), err: "quorum"},
		"no step is planned: it keeps its env":                  {state: StateAvailable, observed: "new", env: group.OwnUnapplied, only: true, want: updateDone},
		"only a move to another revision would give it":         {state: StateAvailable, observed: "old", env: group.OwnUnapplied, only: true, actions: []rollout.Action{{Slot: "web-1", Holds: []rollout.Hold{opportunistic}}}, want: updateDone},
		"a rollout moves it there automatically":                {state: StateAvailable, observed: "old", env: group.OwnUnapplied, only: true, actions: []rollout.Action{{Slot: "web-1", Execute: true}}, want: updateWait},
		"such a move is asked for where the revision is meant":  {state: StateAvailable, observed: "old", env: group.OwnUnapplied, actions: []rollout.Action{{Slot: "web-1", Holds: []rollout.Hold{opportunistic}}}, want: updateAsk},
		"at the revision, and no step delivers its missing env": {state: StateAvailable, observed: "new", env: group.OwnUnapplied, want: updateDone},
	} {
		u := &update{slot: "web-1", own: c.only}
		v := View{Status: group.Status{Group: "web", Target: "new", Instances: []group.InstanceStatus{{Slot: "web-1", State: c.state, Observed: c.observed, OwnEnv: c.env}}}, Plan: rollout.Plan{Actions: c.actions}}
		got, err := u.next(v, false)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v; want %v, %q", name, got, err, c.want, c.err)
		}
	}
}
