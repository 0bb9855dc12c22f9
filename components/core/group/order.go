package group

import (
	"fmt"
	"slices"
)

const (
	// maxAfter bounds the groups that a group waits for.
	maxAfter = 16
	// DefaultPriority is the priority of a group whose spec has none, and MaxPriority the highest one.
	DefaultPriority = 50
	MaxPriority     = 100
)

// PriorityOrDefault decides which group waits at a limit of the cluster: a higher priority goes first.
func (s Spec) PriorityOrDefault() int {
	if s.Priority == nil {
		return DefaultPriority
	}
	return clamp(*s.Priority, 0, MaxPriority)
}

func (v *validator) order(s Spec) {
	v.words("after", s.After, maxAfter, func(name string) string {
		switch p := NameProblem(name); {
		case p != "":
			return p
		case name == s.Name:
			return "is this group, which cannot wait for itself: remove it"
		}
		return ""
	})
	if p := s.Priority; p != nil && (*p < 0 || *p > MaxPriority) {
		v.add("priority", "", "is %d: must be 0 to %d; a higher number goes first", *p, MaxPriority)
	}
}

// Cycle returns the shortest way from a group along `after` back to the group, as names from the group to itself; nil:
// there is none. after has the lists of all groups.
func Cycle(name string, after map[string][]string) []string {
	from := map[string]string{}
	for next := []string{name}; len(next) > 0; {
		one := next[0]
		next = next[1:]
		for _, to := range slices.Sorted(slices.Values(after[one])) {
			if to == name {
				path := []string{name}
				for ; one != name; one = from[one] {
					path = append(path, one)
				}
				slices.Reverse(path[1:])
				return append(path, name)
			}
			if _, seen := from[to]; !seen {
				from[to] = one
				next = append(next, to)
			}
		}
	}
	return nil
}

// CycleProblem is the problem of a spec that closes a cycle of `after`; ok is false if it closes none.
func CycleProblem(s Spec, after map[string][]string) (p Problem, ok bool) {
	all := make(map[string][]string, len(after)+1)
	for name, list := range after {
		all[name] = list
	}
	all[s.Name] = s.After
	path := Cycle(s.Name, all)
	if path == nil {
		return Problem{}, false
	}
	at := slices.Index(s.After, path[1])
	return Problem{Path: fmt.Sprintf("after[%d]", at), Message: "closes a cycle: " + CycleText(path) + "; each of these groups would wait permanently: remove one of the entries"}, true
}

// CycleText is a path of Cycle for people.
func CycleText(path []string) string {
	text := path[0]
	for _, name := range path[1:] {
		text += " after " + name
	}
	return text
}
