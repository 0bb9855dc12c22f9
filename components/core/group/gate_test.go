package group

import (
	"strings"
	"testing"
)

func withGate(change func(*Gate)) Spec {
	s := goodSpec()
	one := Gate{Name: "balancer", On: []string{GateOnStep}}
	change(&one)
	s.Gates = []Gate{one}
	return s
}

func TestGatesAreBounded(t *testing.T) {
	for path, s := range map[string]Spec{
		`gate["Balancer"]`:         withGate(func(g *Gate) { g.Name = "Balancer" }),
		`gate["a/b"]`:              withGate(func(g *Gate) { g.Name = "a/b" }),
		`gate["balancer"].on`:      withGate(func(g *Gate) { g.On = nil }),
		`gate["balancer"].on[1]`:   withGate(func(g *Gate) { g.On = []string{GateOnStep, "drain"} }),
		`gate["balancer"].on[2]`:   withGate(func(g *Gate) { g.On = []string{GateOnStep, GateOnHeal, GateOnStep} }),
		`gate["balancer"].per`:     withGate(func(g *Gate) { g.Per = "cluster" }),
		`gate["balancer"].default`: withGate(func(g *Gate) { g.Default = "ajar" }),
	} {
		t.Run(path, func(t *testing.T) { wantProblem(t, s, path, "") })
	}
	wantProblem(t, withGate(func(g *Gate) { g.Per, g.Default = GatePerSlot, GateOpen }), `gate["balancer"].default`, "")
	twice := withGate(func(*Gate) {})
	twice.Gates = append(twice.Gates, twice.Gates[0])
	wantProblem(t, twice, `gate["balancer"]`, "")
	many := goodSpec()
	for i := range maxGates + 1 {
		many.Gates = append(many.Gates, Gate{Name: "g" + strings.Repeat("x", i), On: []string{GateOnCreate}})
	}
	wantProblem(t, many, "gate", "")
	all := withGate(func(g *Gate) { g.Name, g.On, g.Per, g.Default = "-", nil, "x", "y" })
	if got := problems(t, all); len(got) != 4 {
		t.Errorf("%d problems, want all four at once: %v", len(got), got)
	}
}

func TestAGateIsClosedWithoutASettingAndNoPartOfTheRevision(t *testing.T) {
	s := withGate(func(*Gate) {})
	if p := problems(t, s); len(p) > 0 {
		t.Error(p)
	}
	gate, ok := s.Gate("balancer")
	if !ok || gate.Default != GateClosed || gate.Per != GatePerGroup || s.Gates[0].Per != "" {
		t.Errorf("gate %+v, in the spec %+v", gate, s.Gates[0])
	}
	if _, ok := s.Gate("network"); ok {
		t.Error("a gate that the spec lacks was found")
	}
	without := s
	without.Gates = nil
	if s.Revision() != without.Revision() {
		t.Error("a gate is part of the revision")
	}
	if got := Needed(Changes(without, s)); got != ActionNone {
		t.Errorf("a new gate costs %s", got)
	}
}
