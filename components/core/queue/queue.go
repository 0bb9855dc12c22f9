// Package queue decides which group may begin limited work under the limits of the whole cluster. It is pure: the
// leader gives it the facts of all groups.
package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/names"
)

// Limit names one limit of the cluster.
type Limit string

const (
	// Steps bounds the open steps of rollouts that take a member away, in all groups together.
	Steps Limit = "steps"
	// Rollouts bounds the groups whose rollout is in work.
	Rollouts Limit = "rollouts"
	// Creations bounds the open creations of CVMs.
	Creations Limit = "creations"
	// Max is the highest value of a limit.
	Max = 1000
)

// Limits are the operator's limits for the whole cluster; 0: no limit.
type Limits struct{ Steps, Rollouts, Creations int }

// Of returns the value of a limit.
func (l Limits) Of(name Limit) int {
	switch name {
	case Steps:
		return l.Steps
	case Rollouts:
		return l.Rollouts
	case Creations:
	}
	return l.Creations
}

// Group has the facts of one group.
type Group struct {
	Name string
	// Priority: a higher one goes first.
	Priority int
	// Steps and Creations are the places in use.
	Steps, Creations int
	Place
}

// Place is the part of these facts that the status of the group records.
type Place struct {
	// Rollout: the group has a place for its rollout.
	Rollout bool `json:"rollout,omitempty"`
	// Step and Create are the next step of its rollout, and its next creation.
	Step   Wait `json:"step,omitzero"`
	Create Wait `json:"create,omitzero"`
}

// uses returns the places of a limit that g has.
func (g Group) uses(name Limit) int {
	switch {
	case name == Steps:
		return g.Steps
	case name == Creations:
		return g.Creations
	case g.Rollout:
		return 1
	}
	return 0
}

// Count adds an open piece of work to the places in use.
func (g *Group) Count(limit Limit) {
	switch limit {
	case Steps:
		g.Steps++
		g.Rollout = true
	case Creations:
		g.Creations++
	case Rollouts:
	}
}

// Wait is the place of a group in a line. Since is when a limit first held such work, the zero time if no limit ever did.
// Since is kept until the work begins or is not needed any more, so that another reason of a moment costs no place.
// Ready: nothing but a limit holds the work. Only ready groups keep places free, so nothing waits for a group that
// itself waits for a person.
type Wait struct {
	Since time.Time `json:"since,omitzero"`
	Ready bool      `json:"ready,omitempty"`
}

// Grant is the work that one group may begin now.
type Grant struct{ Step, Create Verdict }

// Verdict is the answer for one line.
type Verdict struct {
	// Room is how many pieces of work may begin now.
	Room int
	// Limit holds the next one, when Room is used up. Users have its places, and Ahead goes first.
	Limit Limit
	Users []string
	Ahead []string
}

// Text explains why the next piece of work waits.
func (v Verdict) Text(l Limits) string {
	text := fmt.Sprintf("the cluster limit %s = %d", v.Limit, l.Of(v.Limit))
	if len(v.Users) > 0 {
		text += " is used by " + names.Few(v.Users, ", ")
	}
	if len(v.Ahead) > 0 {
		text += fmt.Sprintf("; number %d in the queue, after %s", len(v.Ahead)+1, names.Few(v.Ahead, ", "))
	}
	return text
}

// unlimited is the room of a limit that is not set.
const unlimited = 1 << 30

// free returns the places of a limit that no group has. It is negative after a limit was lowered.
func (l Limits) free(name Limit, groups []Group) int {
	if l.Of(name) == 0 {
		return unlimited
	}
	n := l.Of(name)
	for _, g := range groups {
		n -= g.uses(name)
	}
	return n
}

// Judge returns the work that the group of this name may begin, as if nothing but the limits held its work. groups has the facts
// of all groups in any order, its own included. Of two groups that are ready, the group with the higher priority
// goes first, then the group that waits longer, then the first by name. A group that needs a place for its rollout and finds
// none takes no step, and so keeps no step from the groups that have such a place.
func Judge(l Limits, groups []Group, name string) Grant {
	lines := l.lines(groups)
	return Grant{Step: lines[0].judge(groups, name), Create: lines[1].judge(groups, name)}
}

// line is the line of the groups that wait for a limit, with the places that are left for them.
type line struct {
	limit          Limit
	of             func(Group) Wait
	left, rollouts int
}

func (l Limits) lines(groups []Group) [2]line {
	rollouts := l.free(Rollouts, groups)
	return [2]line{
		{Steps, func(g Group) Wait { return g.Step }, l.free(Steps, groups), rollouts},
		{Creations, func(g Group) Wait { return g.Create }, l.free(Creations, groups), rollouts},
	}
}

// enters: g also needs a place for its rollout.
func (l *line) enters(g Group) bool { return l.limit == Steps && !g.Rollout }

// serve takes the places of g's next work; false: no place is left for its rollout.
func (l *line) serve(g Group) bool {
	if l.enters(g) {
		if l.rollouts <= 0 {
			return false
		}
		l.rollouts--
	}
	l.left--
	return true
}

// judge serves the groups in their order, up to the group of this name.
func (l *line) judge(groups []Group, name string) Verdict {
	var behind, aheadOf []string // the groups ahead that wait for the limit, and for a place of a rollout
	for _, g := range inOrder(groups, name, l.of) {
		served := l.serve(g)
		switch {
		case g.Name == name && served:
			return Verdict{Room: max(l.left+1, 0), Limit: l.limit, Users: users(groups, l.limit), Ahead: behind}
		case g.Name == name:
			return Verdict{Limit: Rollouts, Users: users(groups, Rollouts), Ahead: aheadOf}
		case served:
			behind = append(behind, g.Name)
		}
		if l.enters(g) {
			aheadOf = append(aheadOf, g.Name)
		}
	}
	return Verdict{}
}

// inOrder returns the ready groups, and the group of this name, in the order in which they go.
func inOrder(groups []Group, name string, of func(Group) Wait) []Group {
	line := slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.Name != name && !of(g).Ready })
	slices.SortFunc(line, func(a, b Group) int { return Compare(a, b, of(a), of(b)) })
	return line
}

// Compare is the order of two groups: priority, then the longer wait, then the name. A group that never waited comes
// after every group that waited.
func Compare(a, b Group, x, y Wait) int {
	never := func(w Wait) int {
		if w.Since.IsZero() {
			return 1
		}
		return 0
	}
	return cmp.Or(-cmp.Compare(a.Priority, b.Priority), never(x)-never(y), x.Since.Compare(y.Since), cmp.Compare(a.Name, b.Name))
}

// users lists the groups that have places of a limit, by the number of their places.
func users(groups []Group, limit Limit) []string {
	using := slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return g.uses(limit) == 0 })
	slices.SortFunc(using, func(a, b Group) int {
		return cmp.Or(-cmp.Compare(a.uses(limit), b.uses(limit)), cmp.Compare(a.Name, b.Name))
	})
	out := make([]string, len(using))
	for i, g := range using {
		if out[i] = g.Name; g.uses(limit) > 1 {
			out[i] += fmt.Sprintf(" (%d)", g.uses(limit))
		}
	}
	return out
}

// Next returns the groups that may begin work now and wait, for a leader that wakes them.
func Next(l Limits, groups []Group) (names []string) {
	for _, line := range l.lines(groups) {
		for _, g := range inOrder(groups, "", line.of) {
			if line.left > 0 && line.serve(g) && !slices.Contains(names, g.Name) {
				names = append(names, g.Name)
			}
		}
	}
	return names
}
