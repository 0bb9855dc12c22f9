package render

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

// Plan prints the planned actions in order, and their holds (R138, R146).
func Plan(s Style, p rollout.Plan, now time.Time) string {
	var b strings.Builder
	b.WriteString(s.Fields(
		Field{"group", Cell{p.Group, Plain}},
		Field{"target", Cell{target(p.Status, p.Target), Plain}},
		Field{"stable", Cell{p.Stable, Plain}},
		Field{"now", Cell{p.Message, Plain}},
	))
	b.WriteString(Warnings(s, p.Warnings))
	switch {
	case len(p.Actions) > 0:
		b.WriteString("\n" + actions(s, p, now))
	case settled(p):
		b.WriteString("nothing to do: every slot is where it should be\n")
	default:
		b.WriteString(s.Line("nothing begins now", Warn))
		if failed := failedSlots(p); failed != "" {
			b.WriteString(s.Line(failed+" failed and no step follows: apply a corrected spec, or try again with `cadre instance restart SLOT`", Warn))
		}
	}
	return b.String()
}

// failedSlots names the slots whose step failed. A rollout that tolerates them (max_failed) leaves them as they are.
func failedSlots(p rollout.Plan) string {
	var slots []string
	for _, i := range p.Status.Instances {
		if i.State == group.SlotFailed {
			slots = append(slots, i.Slot)
		}
	}
	return strings.Join(slots, ", ")
}

// settled: every slot is available. An unavailable slot may wait for its repair or for an operator,
// and the slots of a deleted group are being removed.
func settled(p rollout.Plan) bool {
	leaves := func(i group.InstanceStatus) bool { return i.State != group.SlotAvailable }
	return p.Status.Available >= p.Status.Replicas && !slices.ContainsFunc(p.Status.Instances, leaves)
}

// Warnings are printed one per line.
func Warnings(s Style, list []string) string {
	var b strings.Builder
	for _, w := range list {
		b.WriteString(s.Line("warning: "+w, Warn))
	}
	return b.String()
}

func actions(s Style, p rollout.Plan, now time.Time) string {
	rows := [][]Cell{}
	for n, a := range p.Actions {
		rows = append(rows, []Cell{
			C(fmt.Sprint(n + 1)), T(format.Slot(a.Slot, a.Extra), Bold), C(strings.ToLower(string(a.Kind))), C(format.Class(a.Class)), C(format.Arrow(a.From, a.To)),
			when(a), C(format.Because(a, now)),
		})
	}
	out := s.Table([]string{"#", "SLOT", "ACTION", "CLASS", "REVISION", "WHEN", "WHY"}, rows)
	for _, move := range format.Moves(p) {
		out += s.Line(move, Plain)
	}
	return out
}

func when(a rollout.Action) Cell {
	if a.Operation == "" && a.Execute {
		return Cell{format.When(a), Good}
	}
	return Cell{format.When(a), Warn}
}

// Status prints a group's rollout at one moment: progress, Slots, holds. stop is as for Group.
func Status(s Style, v client.View, stop *client.Override, now time.Time) string {
	st := v.Status
	var b strings.Builder
	head := []Field{
		{"group", Cell{st.Group, Plain}},
		{"rollout", Cell{rolloutText(st, stop), rolloutTone(st.RolloutState)}},
		{"revision", Cell{target(st, format.Way(v)), Plain}},
		{"updated", Cell{progress(st.Updated, st.Replicas), ratio(st.Updated, st.Replicas).Tone}},
		{"available", Cell{progress(st.Available, st.Replicas), ratio(st.Available, st.Replicas).Tone}},
	}
	if r := v.Plan.Rollout; r != nil {
		lasts := "running for"
		if !r.EndedAt.IsZero() {
			lasts = "took"
		}
		head = append(head, callerFields("by", r.By, r.Request)...)
		head = append(head, callerFields("retried by", r.RetriedBy, r.RetryRequest)...)
		head = append(head, Field{"transfers", Cell{transfers(*r), Plain}}, Field{lasts, Cell{took(*r, now), Plain}},
			Field{"reason", Cell{r.Reason, rolloutTone(string(r.State))}})
	}
	if v.Plan.Rollout == nil || v.Plan.Rollout.Reason != st.Message {
		head = append(head, Field{"now", Cell{st.Message, Plain}})
	}
	b.WriteString(s.Fields(head...))
	b.WriteString(Warnings(s, v.Plan.Warnings))
	b.WriteString(conditions(s, st, now))
	b.WriteString("\n" + Instances(s, st.Instances, false, now))
	if len(v.Plan.Actions) > 0 {
		b.WriteString("\n" + s.Paint("next", Bold) + "\n" + actions(s, v.Plan, now))
	}
	return b.String()
}

// callerFields name a call of the API; none: nothing is known of one.
func callerFields(name, by, request string) []Field {
	if by == "" {
		return nil
	}
	if request != "" {
		by += ", request " + request
	}
	return []Field{{name, Cell{by, Plain}}}
}

func progress(n, of int) string {
	const width = 20
	if of <= 0 {
		return "0/0"
	}
	full := min(width, n*width/of)
	return fmt.Sprintf("%d/%d [%s%s]", n, of, strings.Repeat("#", full), strings.Repeat(".", width-full))
}

func took(r operation.Rollout, now time.Time) string {
	end := r.EndedAt
	if end.IsZero() {
		end = now
	}
	if r.StartedAt.IsZero() {
		return ""
	}
	return format.Ago(end.Sub(r.StartedAt))
}

// transfers counts the planned hand-overs of a rollout, and those of its rollback.
func transfers(r operation.Rollout) string {
	if r.Back == nil {
		return fmt.Sprint(r.Transfers)
	}
	return fmt.Sprintf("%d, back %d", r.Transfers, r.Back.Transfers)
}

// History lists rollouts, newest first.
func History(s Style, list []operation.Rollout, now time.Time) string {
	if len(list) == 0 {
		return "no rollouts yet\n"
	}
	rows := [][]Cell{}
	for _, r := range list {
		rows = append(rows, []Cell{
			C(r.ID), T(string(r.State), rolloutTone(string(r.State))), C(format.Arrow(r.From, r.To)), C(fmt.Sprint(r.Steps)), C(transfers(r)),
			C(clock(r.StartedAt)), C(took(r, now)), C(callers(r)), C(format.Reason(r)),
		})
	}
	return s.Table([]string{"ROLLOUT", "STATE", "REVISION", "STEPS", "TRANSFERS", "STARTED", "TOOK", "BY", "REASON"}, rows)
}

// callers names the caller and the request of a rollout, and of its last retry.
func callers(r operation.Rollout) string {
	text := caller(r.By, r.Request)
	if r.RetriedBy != "" {
		text = strings.TrimPrefix(text+"; retried by "+caller(r.RetriedBy, r.RetryRequest), "; ")
	}
	return text
}

func caller(by, request string) string {
	return strings.TrimSuffix(format.ShortCaller(by)+", "+format.ShortRequest(request), ", ")
}
