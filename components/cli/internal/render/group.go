package render

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Groups is the list of groups, with the overrides of all.
func Groups(s Style, groups []*apiv1.GroupSummary, overrides []client.Override) string {
	if len(groups) == 0 {
		return "no groups yet: make one with `cadre group apply FILE`\n"
	}
	rows := [][]Cell{}
	for _, g := range groups {
		state := stateWord(g.GetRolloutState(), client.StopOf(overrides, g.GetGroup()))
		rows = append(rows, []Cell{
			C(g.GetGroup()), ratio(int(g.GetAvailable()), int(g.GetReplicas())), ratio(int(g.GetUpdated()), int(g.GetReplicas())),
			C(format.Short(g.GetTargetRevision())), C(format.Short(g.GetStableRevision())), T(state, rolloutTone(g.GetRolloutState())), C(g.GetMessage()),
		})
	}
	return s.Table([]string{"GROUP", "AVAILABLE", "UPDATED", "TARGET", "STABLE", "ROLLOUT", "MESSAGE"}, rows)
}

// Group prints one group: its spec, its state, and each Slot. stop is the freeze or the pause of the group; nil: neither, or
// unknown.
func Group(s Style, g client.Group, stop *client.Override, now time.Time) string {
	st := g.Status
	var b strings.Builder
	head := []Field{
		{"group", Cell{g.Spec.Name, Plain}},
		{"workload", Cell{g.Spec.Workload.Kind, Plain}},
		{"available", ratio(st.Available, g.Spec.Replicas)},
		{"updated", ratio(st.Updated, g.Spec.Replicas)},
		{"target", Cell{target(st, st.Target), Plain}},
		{"stable", Cell{st.Stable, Plain}},
		{"rollout", Cell{rolloutText(st, stop), rolloutTone(st.RolloutState)}},
		{"now", Cell{st.Message, Plain}},
	}
	b.WriteString(s.Fields(append(head, callerFields("applied by", g.AppliedBy, g.AppliedRequest)...)...))
	if st.ObservedIndex < g.Index {
		b.WriteString(s.Line("the leader has not looked at the last change of the spec yet", Warn))
	}
	b.WriteString(conditions(s, st, now))
	if len(st.Instances) > 0 {
		b.WriteString("\n" + Instances(s, st.Instances, false, now))
	}
	return b.String()
}

// target is the target Revision, as text says it, with its place in the group's order.
func target(st group.Status, text string) string {
	if st.TargetNumber == 0 || text != st.Target && !strings.HasSuffix(text, format.Short(st.Target)) {
		return text
	}
	return fmt.Sprintf("%s #%d", text, st.TargetNumber)
}

// stateWord is the state of a rollout. The record calls a frozen rollout PAUSED too.
func stateWord(state string, stop *client.Override) string {
	if stop != nil && stop.Kind == client.OverrideFreeze && state == string(operation.PausedState) {
		return "FROZEN"
	}
	return state
}

// rolloutText is the state of a rollout, and the override that stops it.
func rolloutText(st group.Status, stop *client.Override) string {
	text, by := stateWord(st.RolloutState, stop), ""
	switch paused := st.RolloutState == string(operation.PausedState); {
	case stop != nil && paused:
		_, by, _ = strings.Cut(format.Stopped(*stop), " ") // the state has the word
		by = " " + by
	case stop != nil:
		by = ", " + format.Stopped(*stop)
	case st.Paused && !paused:
		by = ", stopped by an operator: see `cadre overrides`"
	}
	if st.Rollout != "" && text != "" {
		text += " (" + st.Rollout + ")"
	}
	return strings.TrimPrefix(text+by, ", ")
}

func conditions(s Style, st group.Status, now time.Time) string {
	var b strings.Builder
	for _, c := range st.Conditions {
		if c.Message == "" && c.Reason == "" {
			continue
		}
		word := "no"
		if c.Status {
			word = "yes"
		}
		text := fmt.Sprintf("%s: %s, %s", c.Type, word, c.Reason)
		if c.Message != "" {
			text += ": " + c.Message
		}
		if age := since(c.Since, now); age != "" {
			text += " (" + age + ")"
		}
		b.WriteString(s.Line("  "+text, Plain))
	}
	if b.Len() == 0 {
		return ""
	}
	return s.Paint("conditions", Bold) + "\n" + b.String()
}

// Instances is one line per Slot, wide with the place of its CVM.
func Instances(s Style, list []group.InstanceStatus, wide bool, now time.Time) string {
	if len(list) == 0 {
		return "no instances yet\n"
	}
	rows := [][]Cell{}
	for _, i := range list {
		age := ""
		if i.Since != nil {
			age = since(*i.Since, now)
		}
		row := []Cell{
			T(format.Slot(i.Slot, i.Extra), Bold), C(format.Role(i)), T(i.Health, healthTone(i.Health)), T(string(i.State), stateTone(i.State)),
			C(format.Arrow(i.Observed, i.Assigned)), C(i.Phase), C(age),
		}
		if wide {
			row = append(row, C(cmp.Or(i.NodeName, i.Node)), C(i.Region))
		}
		rows = append(rows, append(row, C(format.Why(i))))
	}
	heads := []string{"SLOT", "ROLE", "HEALTH", "STATE", "REVISION", "PHASE", "FOR"}
	if wide {
		heads = append(heads, "NODE", "REGION")
	}
	return s.Table(append(heads, "WHY"), rows)
}
