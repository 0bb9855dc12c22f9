package group

import (
	"slices"
	"strings"
	"testing"
)

func TestOrderAmongGroupsNamesAllProblems(t *testing.T) {
	s := goodSpec()
	s.Name = "app"
	s.After = []string{"Bad_Name", "app", "pg", "pg"}
	low := -1
	s.Priority = &low
	err := Validate(s)
	if err == nil {
		t.Fatal("the spec is accepted")
	}
	for _, want := range []string{"after[0]", "after[1]: \"app\" is this group", "after[3]: \"pg\" stands twice", "priority: is -1: must be 0 to 100"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	s.After, s.Priority = make([]string, 17), nil
	if err := Validate(s); err == nil || !strings.Contains(err.Error(), "after: has 17 entries, at most 16 are allowed") {
		t.Errorf("17 entries: %v", err)
	}
}

func TestOrderAmongGroupsIsPolicyAndNotContent(t *testing.T) {
	s := goodSpec()
	before, high := s.Revision(), 90
	if s.PriorityOrDefault() != DefaultPriority {
		t.Errorf("a group without a priority has %d", s.PriorityOrDefault())
	}
	s.After, s.Priority = []string{"pg"}, &high
	if s.Revision() != before || s.PriorityOrDefault() != 90 {
		t.Error("after or priority changed the revision")
	}
}

func TestCyclesOfAfterAreFoundWithTheirPath(t *testing.T) {
	after := map[string][]string{"a": {"b", "x"}, "b": {"c"}, "c": {"a"}, "x": {"a"}, "leads": {"a"}}
	for name, want := range map[string][]string{"a": {"a", "x", "a"}, "b": {"b", "c", "a", "b"}, "leads": nil, "unknown": nil} {
		if got := Cycle(name, after); !slices.Equal(got, want) {
			t.Errorf("the cycle of %s is %v, want %v", name, got, want)
		}
	}
	s := goodSpec()
	s.Name, s.After = "c", []string{"d", "a"}
	p, found := CycleProblem(s, map[string][]string{"a": {"b"}, "b": {"c"}, "c": nil})
	if !found || p.Path != "after[1]" || !strings.Contains(p.Message, "c after a after b after c") {
		t.Errorf("found %v: %+v", found, p)
	}
	s.After = []string{"d"}
	if p, found := CycleProblem(s, map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}}); found {
		t.Errorf("an edit that breaks the cycle is refused: %+v", p)
	}
}
