package dashboard

import (
	"fmt"
	"slices"
	"time"

	"cadre.dev/cli/internal/overview"
	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/platform"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// clusterAnswer has the answers for the overview.
type clusterAnswer struct {
	cluster    *apiv1.GetClusterResponse
	groups     []*apiv1.GroupSummary
	overrides  []client.Override
	operations []operation.Operation
	requests   []client.Asked
}

// cvmAnswer is the platform's list; known is false when the operator's context names no platform.
type cvmAnswer struct {
	list  []platform.Instance
	known bool
}

type overviewModel struct {
	Facts        []fact
	Coordinators []coordinatorRow
	// NoPlatform says why Coordinators is incomplete.
	NoPlatform string
	Problems   []problem
	// Judged: Problems has the findings about the cluster.
	Judged  bool
	Groups  []groupRow
	Buttons []button
}

// fact is a name with its value. Path, if any, leads to more.
type fact struct {
	Name  string
	Value mark
	Path  string
}

type problem struct {
	Mark mark
	Text string
	Path string
	// Command leads on; empty: none.
	Command string
	// Fix leads to the action that helps; its Path may be empty.
	Fix button
}

type coordinatorRow struct {
	Name    string
	Role    string
	State   mark
	Version string
	Node    string
	Note    string
}

type groupRow struct {
	Name, Path         string
	Available, Updated bar
	Rollout            mark
	Target, Stable     string
	Message            string
}

// overviewOf makes the overview of the answers. trouble is why the platform did not answer; nil: it did, or was not
// asked.
func overviewOf(a clusterAnswer, cvms cvmAnswer, trouble error) overviewModel {
	c := a.cluster
	leader := mark{c.GetLeader(), good}
	if leader.Text == "" {
		leader = mark{"none", bad}
	}
	m := overviewModel{
		Facts: []fact{
			{Name: "Leader", Value: leader},
			{Name: "Term", Value: mark{fmt.Sprint(c.GetTerm()), plain}},
			{Name: "Answered by", Value: mark{c.GetSelf() + ", version " + orDash(c.GetVersion()), plain}},
			{Name: "Open operations", Value: mark{fmt.Sprint(len(a.operations)), plain}, Path: "operations"},
			{Name: "Waiting requests", Value: mark{fmt.Sprint(len(a.requests)), plain}, Path: "operations"},
		},
		Buttons: []button{{Text: "Freeze everything", Path: actPath("freeze", ""), Harsh: true}},
	}
	if trouble != nil {
		m.Problems = append(m.Problems, problem{Mark: mark{"Platform", warn}, Text: trouble.Error()})
	}
	for _, o := range a.overrides {
		if o.Kind == client.OverrideFreeze && o.Name == "" {
			m.Buttons = []button{{Text: "End the freeze of everything", Path: actPath("unfreeze", "")}}
		}
	}
	m.Coordinators, m.NoPlatform = coordinatorsOf(c, cvms)
	for _, g := range a.groups {
		m.Groups = append(m.Groups, groupRow{
			Name: g.GetGroup(), Path: groupPath(g.GetGroup()),
			Available: ratio(int(g.GetAvailable()), int(g.GetReplicas())), Updated: ratio(int(g.GetUpdated()), int(g.GetReplicas())),
			Rollout: stoppedMark(g.GetRolloutState(), client.StopOf(a.overrides, g.GetGroup())),
			Target:  format.Short(g.GetTargetRevision()), Stable: format.Short(g.GetStableRevision()), Message: g.GetMessage(),
		})
	}
	return m
}

// problemsOf lists the findings of `cadre status` that need a person.
func problemsOf(r overview.Report) (out []problem) {
	groups := map[string]bool{}
	for _, g := range r.Groups {
		groups[g.Name] = true
	}
	for _, f := range r.Findings {
		p := problem{Mark: mark{capital(string(f.Severity)), bad}, Text: f.Object + ": " + f.Text, Command: f.Command}
		switch f.Severity {
		case overview.Note:
			continue
		case overview.Ticket:
			p.Mark.Tone = warn
		case overview.Page:
		}
		name, _, err := group.ParseSlot(f.Object)
		switch {
		case groups[f.Object]:
			p.Path = groupPath(f.Object)
			if verb := remedies[f.Hold]; verb != "" && slices.Contains(groupRemedies, verb) {
				p.Fix = button{Text: capital(verb), Path: actPath(verb, f.Object)}
			}
		case err == nil && groups[name]:
			p.Path = slotPath(f.Object)
		}
		out = append(out, p)
	}
	return out
}

// coordinatorsOf joins the API's answer with the platform's list. Without a platform only the coordinators that the
// answer names are known.
func coordinatorsOf(c *apiv1.GetClusterResponse, cvms cvmAnswer) (rows []coordinatorRow, note string) {
	role := func(name string) string {
		switch {
		case name != "" && name == c.GetLeader():
			return "leader"
		case name == c.GetSelf():
			return "answers"
		}
		return ""
	}
	if !cvms.known {
		names := []string{c.GetSelf()}
		if c.GetLeader() != "" && c.GetLeader() != c.GetSelf() {
			names = append(names, c.GetLeader())
		}
		for _, name := range names {
			rows = append(rows, coordinatorRow{Name: name, Role: role(name), State: mark{"known", plain}})
		}
		return rows, "The context names no platform, so only the leader and the answering coordinator are known."
	}
	for _, i := range cvms.list {
		row := coordinatorRow{Name: i.Name, State: mark{orDash(i.Status), warn}, Node: i.Node, Note: i.BootError, Version: i.OSImage}
		switch {
		case i.BootError != "":
			row.State.Tone = bad
		case i.InProgress:
			row.State = mark{i.Status + ", busy", busy}
		case i.Running():
			row.State.Tone = good
		}
		for _, name := range []string{c.GetLeader(), c.GetSelf()} {
			if name != "" && hasSlotName(i.Name, name) {
				row.Role = role(name)
				break
			}
		}
		rows = append(rows, row)
	}
	return rows, ""
}

// hasSlotName reports whether the name of a CVM is that of a slot, with or without the prefix of its cluster.
func hasSlotName(cvm, slot string) bool {
	return cvm == slot || len(cvm) > len(slot) && cvm[len(cvm)-len(slot)-1:] == "-"+slot
}

// sinceOf is the time of an age; zero for none.
func sinceOf(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}
