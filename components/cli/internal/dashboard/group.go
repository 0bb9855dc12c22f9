package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// groupAnswer has the answers for the page of a group, in addition to the watch.
type groupAnswer struct {
	group     client.Group
	rollouts  []operation.Rollout
	overrides []client.Override
}

type groupModel struct {
	Name, Message      string
	Audit              string // the address of the entries about it
	Rollout            mark
	Available, Updated bar
	Facts              []fact
	Warnings           []string
	Overrides          []overrideRow
	Buttons            []button
	Conditions         []conditionRow
	Plan               []planRow
	// PlanMore counts the planned actions that are left out.
	PlanMore int
	Moves    []string
	History  []historyRow
	Progress progressModel
}

type conditionRow struct {
	Type, Status, Reason, Message string
	Tone                          tone
	Since                         time.Time
}

func (c conditionRow) Glyph() string { return glyphs[c.Tone] }

type planRow struct {
	Number                              int
	Slot, Path, Action, Class, Revision string
	When                                mark
	Why                                 string
}

type historyRow struct {
	ID, Revision, By, Reason string
	State                    mark
	Steps, Transfers         int
	Started, Ended           time.Time
}

// maxPlan bounds the shown actions of a plan; the plan has one for each slot.
const maxPlan = 50

// maxHistory bounds the shown rollouts.
const maxHistory = 30

// groupOf makes the page of a group. more may be zero while only the watch has answered.
func groupOf(name string, v client.View, more groupAnswer, now time.Time) groupModel {
	st := v.Status
	m := groupModel{
		Name: name, Message: st.Message, Audit: auditPath(name), Rollout: stoppedMark(st.RolloutState, client.StopOf(more.overrides, name)),
		Available: ratio(st.Available, st.Replicas), Updated: ratio(st.Updated, st.Replicas),
		Warnings: v.Plan.Warnings, Moves: format.Moves(v.Plan), Progress: progressOf(v, more.group.Spec),
	}
	m.Facts = []fact{
		{Name: "Target", Value: mark{orDash(numbered(st.Target, st.TargetNumber)), plain}},
		{Name: "Stable", Value: mark{orDash(format.Short(st.Stable)), plain}},
		{Name: "Workload", Value: mark{orDash(more.group.Spec.Workload.Kind), plain}},
		{Name: "Spec applied by", Value: mark{orDash(format.ShortCaller(more.group.AppliedBy)), plain}},
	}
	if r := v.Plan.Rollout; r != nil {
		m.Facts = append(m.Facts, fact{Name: "Hand-overs", Value: mark{fmt.Sprint(r.Transfers), plain}})
		if (r.State.Failed() || r.State == operation.RollingBack) && r.Reason != "" && r.Reason != st.Message {
			m.Warnings = append([]string{r.Reason}, m.Warnings...)
		}
	}
	if more.group.Index > st.ObservedIndex && st.ObservedIndex > 0 {
		m.Warnings = append(m.Warnings, "the leader has not looked at the last change of the spec yet")
	}
	if more.group.Deleting != nil && *more.group.Deleting {
		m.Warnings = append([]string{"this group is being deleted"}, m.Warnings...)
	}
	m.Overrides = overrideRows(more.overrides)
	m.Buttons = groupButtons(name, st, more.overrides)
	for _, c := range st.Conditions {
		m.Conditions = append(m.Conditions, conditionOf(c))
	}
	for n, a := range v.Plan.Actions[:min(len(v.Plan.Actions), maxPlan)] {
		m.Plan = append(m.Plan, planRow{
			Number: n + 1, Slot: format.Slot(a.Slot, a.Extra), Path: slotPath(a.Slot), Action: strings.ToLower(string(a.Kind)), Class: format.Class(a.Class),
			Revision: format.Arrow(a.From, a.To), When: whenMark(a), Why: format.Because(a, now),
		})
	}
	m.PlanMore = len(v.Plan.Actions) - len(m.Plan)
	for _, r := range more.rollouts[:min(len(more.rollouts), maxHistory)] {
		m.History = append(m.History, historyRow{
			ID: r.ID, Revision: format.Arrow(r.From, r.To), By: format.ShortCaller(r.By), Reason: format.Reason(r), State: rolloutMark(string(r.State)),
			Steps: r.Steps, Transfers: r.Transfers, Started: r.StartedAt, Ended: r.EndedAt,
		})
	}
	return m
}

func numbered(revision string, number uint64) string {
	if revision == "" || number == 0 {
		return format.Short(revision)
	}
	return fmt.Sprintf("%s #%d", format.Short(revision), number)
}

func whenMark(a rollout.Action) mark {
	switch {
	case a.Operation != "":
		return mark{format.When(a), busy}
	case a.Execute:
		return mark{format.When(a), good}
	}
	return mark{format.When(a), warn}
}

// groupButtons offers an action only where it has an effect.
func groupButtons(name string, st group.Status, overrides []client.Override) []button {
	has := func(kind client.OverrideKind) bool {
		return slices.ContainsFunc(overrides, func(o client.Override) bool { return o.Kind == kind && o.Name == name })
	}
	var out []button
	if has(client.OverridePause) {
		out = append(out, button{Text: "Resume", Path: actPath("resume", name)})
	} else {
		out = append(out, button{Text: "Pause", Path: actPath("pause", name), Harsh: true})
	}
	if has(client.OverrideFreeze) {
		out = append(out, button{Text: "Unfreeze", Path: actPath("unfreeze", name)})
	} else {
		out = append(out, button{Text: "Freeze", Path: actPath("freeze", name), Harsh: true})
	}
	if operation.RolloutState(st.RolloutState).Failed() {
		out = append(out, button{Text: "Retry rollout", Path: actPath("retry", name)})
	}
	return append(out, button{Text: "Undo", Path: actPath("undo", name), Harsh: true})
}

// alarms are the conditions that are bad when they are true; the others are bad when they are false.
var alarms = []string{"Failed", "Orphans", "UnexplainedMembers", "Flapping", "DisksLost", "Quarantined", "VotersShareNode", "Simulated"}

func conditionOf(c group.Condition) conditionRow {
	row := conditionRow{Type: c.Type, Status: "no", Reason: c.Reason, Message: c.Message, Since: c.Since, Tone: good}
	if c.Status {
		row.Status = "yes"
	}
	switch {
	case c.Type == "Progressing":
		row.Tone = plain
		if c.Status {
			row.Tone = busy
		}
	case c.Type == "Failed" && c.Status, c.Type == "DisksLost" && c.Status, c.Type == "Quorum" && !c.Status:
		row.Tone = bad
	case c.Status == slices.Contains(alarms, c.Type):
		row.Tone = warn
	}
	return row
}

type overrideRow struct {
	What, On, Reason, By string
	Since, Until         time.Time
	Undo                 button
}

func overrideRows(list []client.Override) []overrideRow {
	rows := make([]overrideRow, 0, len(list))
	for _, o := range list {
		row := overrideRow{What: string(o.Kind), On: o.Name, Reason: o.Reason, By: o.By, Since: o.At, Until: o.Until,
			Undo: button{Text: capital(o.Kind.Undo()), Path: actPath(o.Kind.Undo(), o.Name)}}
		if row.On == "" {
			row.On = "everything"
		}
		if len(o.From) > 0 {
			row.What += " from " + strings.Join(o.From, ", ")
		}
		rows = append(rows, row)
	}
	return rows
}

func capital(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
