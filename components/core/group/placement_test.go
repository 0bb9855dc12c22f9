package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// placed is a valid spec of three replicas with a placement.
func placed(p Placement) Spec {
	s := goodSpec()
	s.Placement = p
	return s
}

func TestPlacementThatCanWorkIsTaken(t *testing.T) {
	for name, p := range map[string]Placement{
		"none":                   {},
		"spread":                 {Spread: SpreadNode},
		"regions, hard":          {Spread: SpreadRegion, Require: true, Nodes: []string{"a"}}, // a region may have other nodes' names
		"enough nodes":           {Spread: SpreadNode, MaxPer: 2, Nodes: []string{"a", "b"}, Require: true},
		"few nodes, preferred":   {Spread: SpreadNode, Nodes: []string{"a"}},
		"a group that is absent": {With: []string{"db"}, NotWith: []string{"batch"}, Require: true},
		"machines":               {Spread: SpreadMachine, Verified: true, Machines: []string{strings.Repeat("ab", 8), strings.Repeat("cd", 8), strings.Repeat("ef", 32)}},
		"listed machines":        {Machines: []string{strings.Repeat("ab", 8)}},
	} {
		if err := Validate(placed(p)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each of these can never work, and is refused under the path of its field.
func TestPlacementThatCanNeverWorkIsRefused(t *testing.T) {
	surge := 1
	for path, s := range map[string]Spec{
		"placement.spread":      placed(Placement{Spread: "rack"}),
		"placement.max_per":     placed(Placement{Spread: SpreadNode, MaxPer: -1}),
		"placement.require":     placed(Placement{Require: true}),
		"placement.verified":    placed(Placement{Spread: SpreadNode, Verified: true}),
		"placement.nodes[0]":    placed(Placement{Nodes: []string{"two words"}}),
		"placement.nodes[1]":    placed(Placement{Nodes: []string{"a", "a"}}),
		"placement.machines[0]": placed(Placement{Machines: []string{"ABCDEF0123456789"}}),
		"placement.with[0]":     placed(Placement{With: []string{goodSpec().Name}}),
		"placement.not_with[1]": placed(Placement{With: []string{"db"}, NotWith: []string{"batch", "db"}}),
		"placement.nodes":       placed(Placement{Spread: SpreadNode, Nodes: []string{"a", "b"}, Require: true}),
		"placement.machines":    placed(Placement{Spread: SpreadMachine, Verified: true, Machines: []string{strings.Repeat("ab", 8)}}),
		"update_policy.order":   func() Spec { s := placed(Placement{}); s.UpdatePolicy.Order = "by_rack"; return s }(),
	} {
		var invalid *ValidationError
		if err := Validate(s); !errors.As(err, &invalid) || len(invalid.Problems) != 1 || invalid.Problems[0].Path != path {
			t.Errorf("%s: %v", path, err)
		}
	}
	s := placed(Placement{Spread: SpreadNode, Nodes: []string{"a", "b", "c"}, Require: true})
	if s.UpdatePolicy.MaxSurgeFixed = &surge; Validate(s) == nil || !strings.Contains(fmt.Sprint(Validate(s)), "3 slots and 1 extra ones") {
		t.Errorf("no node is left for the extra slot, and nothing is said: %v", Validate(s))
	}
	if err := Validate(placed(Placement{MaxPer: 2})); !strings.Contains(fmt.Sprint(err), "placement.max_per: bounds") {
		t.Errorf("a bound without a domain: %v", err)
	}
}

func TestAllProblemsOfAPlacementAreReportedAtOnce(t *testing.T) {
	p := Placement{Spread: "rack", MaxPer: -2, Verified: true, Nodes: []string{""}, Machines: []string{"xyz"}, With: []string{"DB", "db"}, NotWith: []string{"db"}}
	var invalid *ValidationError
	if !errors.As(Validate(placed(p)), &invalid) {
		t.Fatal("it is taken")
	}
	var paths []string
	for _, one := range invalid.Problems {
		paths = append(paths, one.Path)
	}
	want := []string{"placement.spread", "placement.max_per", "placement.verified", "placement.nodes[0]", "placement.machines[0]", "placement.with[0]", "placement.not_with[0]"}
	if !slices.Equal(paths, want) {
		t.Errorf("got %v\nwant %v", paths, want)
	}
}

// A change of the placement decides at the next creation: no slot takes a step for it.
func TestAChangeOfThePlacementNeedsNoStep(t *testing.T) {
	was, is := placed(Placement{}), placed(Placement{Spread: SpreadNode, MaxPer: 2, Nodes: []string{"a", "b"}, With: []string{"db"}})
	is.UpdatePolicy.Order = OrderByDomain
	changes := Changes(was, is)
	if len(changes) == 0 || Needed(changes) != ActionNone || was.Revision() != is.Revision() {
		t.Errorf("%v takes %s, revisions %.8s and %.8s", changes, Needed(changes), was.Revision(), is.Revision())
	}
	if got := Changes(was, placed(Placement{Spread: SpreadNode})); len(got) == 0 {
		t.Error("the change of the spread is not listed")
	}
	if same := Changes(placed(Placement{Spread: SpreadNode}), placed(Placement{Spread: SpreadNode, MaxPer: 1})); len(same) != 0 {
		t.Errorf("a written default is a change: %v", same)
	}
}
