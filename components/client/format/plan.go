package format

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// When describes whether a planned step is in progress, may run now, or waits.
func When(a rollout.Action) string {
	switch {
	case a.Operation != "":
		return strings.ToLower(string(a.Phase))
	case a.Execute:
		return "now"
	}
	return "held"
}

// Because lists the fault being healed, then every hold, not only the first (R140), then the effect
// of the step.
func Because(a rollout.Action, now time.Time) string {
	parts := []string{}
	if a.Actor == operation.ActorHealing && a.Request.Note != "" {
		parts = append(parts, "heals: "+a.Request.Note)
	}
	for _, h := range a.Holds {
		text := h.Predicate
		if h.Message != "" {
			text += ": " + h.Message
		}
		if left := h.Until.Sub(now); !h.Until.IsZero() && left > 0 {
			text += " (" + Ago(left) + " left)"
		}
		parts = append(parts, text)
	}
	for _, o := range a.Overridden {
		parts = append(parts, Overridden(o))
	}
	if a.Transfer != nil {
		to := "the best candidate"
		if len(a.Transfer.Candidates) > 0 {
			to = a.Transfer.Candidates[0]
		}
		parts = append(parts, "hands leadership to "+to)
	}
	if a.Way.SkipDrain {
		parts = append(parts, "nothing to drain")
	}
	held := func(part string) bool { return strings.Contains(part, a.Before.Quorum) }
	if a.Before.Quorum != "" && !slices.ContainsFunc(parts, held) {
		parts = append(parts, a.Before.Quorum)
	}
	return strings.Join(parts, "; ")
}

// Overridden describes a hold that a step passes by an operator's override: "passes step_delay (ann): urgent".
func Overridden(o operation.Overridden) string {
	text := "passes " + o.Hold
	if o.By != "" {
		text += " (" + o.By + ")"
	}
	return text + ": " + o.Reason
}

// Step is one planned step in one line: "web-1: update (follower) 3f2a1b0c -> 9a8b7c6d, held: paused".
func Step(a rollout.Action, now time.Time) string {
	text := Slot(a.Slot, a.Extra) + ": " + strings.ToLower(string(a.Kind))
	if c := Class(a.Class); c != "" {
		text += " (" + c + ")"
	}
	if r := Arrow(a.From, a.To); r != "" {
		text += " " + r
	}
	text += ", " + When(a)
	if why := Because(a, now); why != "" {
		text += ": " + why
	}
	return OneLine(text)
}

// maxMoveChanges bounds how many changed fields of a move are listed.
const maxMoveChanges = 12

// Moves describes for each pair of revisions the action that its steps need, and the fields that
// cause it (R146): "3f2a1b0c -> 9a8b7c6d takes RESTART: template.compose (RESTART)".
func Moves(p rollout.Plan) []string {
	var out []string
	for _, m := range p.Moves {
		takes := group.ActionNone
		for _, a := range p.Actions {
			if a.From == m.From && a.To == m.To {
				takes = group.Harshest(takes, a.Takes)
			}
		}
		fields := make([]string, 0, maxMoveChanges)
		for _, c := range m.Changes[:min(len(m.Changes), maxMoveChanges)] {
			fields = append(fields, c.String())
		}
		if more := len(m.Changes) - len(fields); more > 0 {
			fields = append(fields, fmt.Sprintf("%d more", more))
		}
		text := Arrow(m.From, m.To)
		if takes != group.ActionNone {
			text += " takes " + string(takes)
		}
		out = append(out, OneLine(text+": "+strings.Join(fields, ", ")))
	}
	return out
}

// Steps returns the lines of a plan, numbered in the order of execution.
func Steps(p rollout.Plan, now time.Time) []string {
	out := make([]string, len(p.Actions))
	for n, a := range p.Actions {
		out[n] = fmt.Sprintf("%d. %s", n+1, Step(a, now))
	}
	return out
}
