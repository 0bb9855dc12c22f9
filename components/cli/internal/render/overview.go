package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/cli/internal/overview"
	"cadre.dev/client/format"
)

const (
	// shownLines bounds each table, so that the whole stays about one screen; -o json has all.
	shownLines = 12
	shownEnds  = 5
)

// Overview is the state of a whole cluster: first the findings, then the facts.
func Overview(s Style, r overview.Report) string {
	text := overviewHead(s, r) + "\n" + findings(s, r) + "\n" + overviewCoordinators(s, r.Coordinators)
	if len(r.Groups) > 0 {
		rows := [][]Cell{}
		for _, g := range r.Groups {
			rows = append(rows, []Cell{T(g.Name, Bold), ratio(g.Available, g.Replicas), ratio(g.Updated, g.Replicas), C(format.Short(g.Target)), T(g.RolloutState, rolloutTone(g.RolloutState)), C(g.Message)})
		}
		text += "\n" + clipped(s, []string{"GROUP", "AVAILABLE", "UPDATED", "TARGET", "ROLLOUT", "MESSAGE"}, rows, shownLines)
	}
	if len(r.Unavailable) > 0 {
		rows := [][]Cell{}
		for _, u := range r.Unavailable {
			at := time.Time{}
			if u.Since != nil {
				at = *u.Since
			}
			rows = append(rows, []Cell{T(u.Slot, Bold), T(string(u.State), stateTone(u.State)), C(since(at, r.At)), C(u.Reason)})
		}
		text += "\n" + clipped(s, []string{"SLOT", "STATE", "FOR", "REASON"}, rows, shownLines)
	}
	if len(r.Operations)+len(r.Requests) > 0 {
		rows := [][]Cell{}
		for _, o := range r.Operations {
			rows = append(rows, []Cell{T(o.Slot, Bold), C(o.Kind), C(o.Phase), C(since(o.Since, r.At)), C(o.Actor), C(o.Reason)})
		}
		for _, q := range r.Requests {
			rows = append(rows, []Cell{T(cmp.Or(q.Slot, q.Group), Bold), C(strings.ToUpper(q.Kind)), C("requested"), C(since(q.At, r.At)), C("operator"), C(q.Reason)})
		}
		text += "\n" + clipped(s, []string{"OPERATION ON", "ACTION", "PHASE", "FOR", "ACTOR", "REASON"}, rows, shownLines)
	}
	if len(r.Holds) > 0 {
		rows := [][]Cell{}
		for _, h := range r.Holds {
			rows = append(rows, []Cell{T(h.Group, Bold), C(h.Hold), C(fmt.Sprint(len(h.Slots))), C(h.Message)})
		}
		text += "\n" + clipped(s, []string{"HELD GROUP", "HOLD", "SLOTS", "MESSAGE"}, rows, shownLines)
	}
	if len(r.Overrides) > 0 {
		text += "\n" + Overrides(s, r.Overrides)
	}
	if len(r.Ends) > 0 {
		rows := [][]Cell{}
		for _, e := range r.Ends {
			in := "ended"
			if e.At.After(r.At) {
				in = "in " + format.Ago(e.At.Sub(r.At))
			}
			rows = append(rows, []Cell{T(e.What, Bold), C(clock(e.At)), C(in), C(e.Text)})
		}
		text += "\n" + clipped(s, []string{"ENDS", "AT", "IN", "WHAT"}, rows, shownEnds)
	}
	return text
}

func overviewHead(s Style, r overview.Report) string {
	leader := Cell{r.Leader, Good}
	if r.Leader == "" {
		leader = Cell{"none, or unknown", Bad}
	}
	verdict := Cell{"a person is needed", Bad}
	if !r.NeedsPerson {
		verdict = Cell{"no person is needed", Good}
	}
	backup := "the coordinators do not report it"
	if r.LastBackup != nil {
		backup = cmp.Or(clock(*r.LastBackup), "never")
	}
	return s.Fields(
		Field{"cluster", Cell{r.Cluster, Bold}}, Field{"verdict", verdict}, Field{"leader", leader}, Field{"term", Cell{fmt.Sprint(r.Term), Plain}},
		Field{"cadre", Cell{r.Version, Plain}}, Field{"last backup", Cell{backup, Plain}},
	)
}

func findings(s Style, r overview.Report) string {
	if len(r.Findings) == 0 {
		return s.Line("nothing to say", Good)
	}
	tones := map[overview.Severity]Tone{overview.Page: Bad, overview.Ticket: Warn, overview.Note: Plain}
	rows := [][]Cell{}
	for _, f := range r.Findings {
		rows = append(rows, []Cell{T(string(f.Severity), tones[f.Severity]), T(f.Object, Bold), C(f.Command), C(f.Text)})
	}
	return clipped(s, []string{"FINDING", "OF", "COMMAND", "TEXT"}, rows, 2*shownLines)
}

func overviewCoordinators(s Style, list []overview.Coordinator) string {
	rows := [][]Cell{}
	leads := map[string]bool{}
	for _, c := range list {
		leads[c.Leader] = true
	}
	for _, c := range list {
		answer := Cell{"answers", Good}
		switch {
		case c.Untrusted:
			answer = Cell{"untrusted", Bad}
		case c.Refused:
			answer = Cell{"refuses", Bad}
		case !c.Answered:
			answer = Cell{"silent", Bad}
		}
		role := ""
		if leads[c.Name] {
			role = "leader"
		}
		rows = append(rows, []Cell{T(c.Name, Bold), C(c.CVM), answer, C(role), C(c.Version), C(c.Problem)})
	}
	return s.Table([]string{"COORDINATOR", "CVM", "API", "ROLE", "VERSION", "PROBLEM"}, rows)
}

// clipped is a table of at most n rows, and a line about the others.
func clipped(s Style, header []string, rows [][]Cell, n int) string {
	more := len(rows) - n
	if more <= 0 {
		return s.Table(header, rows)
	}
	return s.Table(header, slices.Clip(rows[:n])) + s.Line(fmt.Sprintf("and %d more: -o json has all", more), Dim)
}
