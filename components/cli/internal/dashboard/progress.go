package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// progressModel draws a rollout: each slot is in one lane, from the old revision to the target.
type progressModel struct {
	Lanes []lane
	// Moving: a rollout is open, or a slot is in a step.
	Moving bool
	Budget string
	// BudgetUsed is full when no further slot may be disrupted.
	BudgetUsed bar
	Quorum     mark
	Holds      []holdRow
}

type lane struct {
	Title string
	Count int
	Chips []chip
	// More counts the slots without a chip.
	More int
}

type chip struct {
	Slot, Path, Role string
	Leads            bool
	State            mark
	Since            time.Time
}

type holdRow struct {
	Predicate string
	Messages  []string
	Slots     string
	Until     time.Time
	Clears    string
	Fix       button
}

// maxChips bounds the drawn slots of a lane, maxHolds the drawn holds, and holdMessages the messages of one hold.
const (
	maxChips     = 24
	maxHolds     = 20
	holdMessages = 3
)

// laneTitles are the lanes in the order of a step. In a rollback the last one is backTitle.
var laneTitles = []string{"Waiting", "Draining", "Acting", "Booting", "Joining", "Settling", "At target"}

const backTitle = "Back at stable"

// goalOf is the revision that the slots move to, which in a rollback is not the target of the spec.
func goalOf(v client.View) (revision string, back bool) {
	if r := v.Plan.Rollout; r != nil && r.Goal() != r.To {
		return r.Goal(), true
	}
	return v.Status.Target, false
}

// laneOf is the index of a slot's lane. A failed slot is back in the first lane unless it proved the goal.
func laneOf(i group.InstanceStatus, goal string) int {
	switch operation.Phase(i.Phase) {
	case operation.Draining, operation.Drained:
		return 1
	case operation.Acting:
		return 2
	case operation.Booting:
		return 3
	case operation.Joining:
		return 4
	case operation.Settling:
		return 5
	case operation.Done, operation.Aborted, operation.Failed, "":
	}
	if goal != "" && i.Observed == goal {
		return len(laneTitles) - 1
	}
	return 0
}

func progressOf(v client.View, spec group.Spec) progressModel {
	st := v.Status
	state := operation.RolloutState(st.RolloutState)
	m := progressModel{Moving: state.Moves() || state == operation.BakingState || state == operation.PausedState || state.Failed() || st.Paused}
	m.Lanes = make([]lane, len(laneTitles))
	for n, title := range laneTitles {
		m.Lanes[n].Title = title
	}
	goal, back := goalOf(v)
	if back {
		m.Lanes[len(laneTitles)-1].Title = backTitle
	}
	for _, i := range st.Instances {
		n := laneOf(i, goal)
		l := &m.Lanes[n]
		l.Count++
		m.Moving = m.Moving || n > 0 && n < len(laneTitles)-1
		if len(l.Chips) == maxChips {
			l.More++
			continue
		}
		l.Chips = append(l.Chips, chip{Slot: format.Slot(i.Slot, i.Extra), Path: slotPath(i.Slot), Role: i.Role, Leads: leads(i), State: stateMark(i), Since: sinceOf(i.Since)})
	}
	if spec.Replicas > 0 { // else the spec is not known yet
		budget := group.MaxUnavailable(spec)
		m.BudgetUsed = bar{N: st.Unavailable, Of: budget, Tone: good}
		if st.Unavailable >= budget {
			m.BudgetUsed.Tone = warn
		}
		if st.Unavailable > budget {
			m.BudgetUsed.Tone = bad
		}
		m.Budget = fmt.Sprintf("at most %d of %d slots may be unavailable; now %d", budget, spec.Replicas, st.Unavailable)
	}
	m.Quorum = quorumOf(v)
	m.Holds = holdsOf(v)
	return m
}

// quorumOf is the arithmetic of the next step, else the group's condition.
func quorumOf(v client.View) mark {
	for _, c := range v.Status.Conditions {
		if c.Type == "Quorum" {
			word := mark{cmp.Or(c.Message, c.Reason), bad}
			if c.Status {
				word.Tone = good
			}
			return word
		}
	}
	for _, a := range v.Plan.Actions {
		if a.Before.Quorum != "" {
			return mark{a.Before.Quorum, plain}
		}
	}
	return mark{}
}

// holdsOf joins the holds of all planned actions by their name.
func holdsOf(v client.View) []holdRow {
	type held struct {
		row   holdRow
		slots []string
		first rollout.Action
	}
	var order []string
	all := map[string]*held{}
	for _, a := range v.Plan.Actions {
		for _, h := range a.Holds {
			one := all[h.Predicate]
			if one == nil {
				one = &held{row: holdRow{Predicate: h.Predicate}, first: a}
				all[h.Predicate] = one
				order = append(order, h.Predicate)
			}
			one.slots = append(one.slots, a.Slot)
			if len(one.row.Messages) < holdMessages && h.Message != "" && !slices.Contains(one.row.Messages, h.Message) {
				one.row.Messages = append(one.row.Messages, h.Message)
			}
			if h.Until.After(one.row.Until) {
				one.row.Until = h.Until
			}
		}
	}
	rows := make([]holdRow, 0, len(order))
	for _, predicate := range order[:min(len(order), maxHolds)] {
		one := all[predicate]
		slot := ""
		if len(one.slots) == 1 {
			slot = one.slots[0]
		}
		one.row.Slots = names.Few(one.slots, ", ")
		one.row.Clears = clearedBy(predicate, v.Status.Group, slot)
		one.row.Fix = remedyOf(predicate, v.Status.Group, one.first)
		rows = append(rows, one.row)
	}
	return rows
}

// remedyOf leads to the action that clears a hold; none where the dashboard has no such action.
func remedyOf(predicate, group string, a rollout.Action) button {
	verb := remedies[predicate]
	switch verb {
	case "":
		return button{}
	case "approve":
		return button{Text: capital(verb), Path: actPath(verb, a.To, "group", group)}
	case "undrain", "unprotect":
		return button{Text: capital(verb), Path: actPath(verb, a.Slot)}
	}
	return button{Text: capital(verb), Path: actPath(verb, group)}
}
