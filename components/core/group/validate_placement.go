package group

import (
	"fmt"
	"slices"
)

const (
	// maxPlacementNodes and maxPlacementGroups bound the lists of a placement.
	maxPlacementNodes  = 256
	maxPlacementGroups = 32
	// The least and the most hex digits of an entry of placement.machines.
	minMachineHex = 16
	maxMachineHex = 64
)

// OrderByDomain of update_policy.order takes the members of one failure domain after those of another.
const OrderByDomain = "by_domain"

// Places reports that the placement chooses a node for a new CVM.
func (p Placement) Places() bool {
	return p.Spread != SpreadNone || len(p.Nodes)+len(p.With)+len(p.NotWith) > 0
}

// IsZero reports that the spec has no placement.
func (p Placement) IsZero() bool {
	return !p.Places() && p.MaxPer == 0 && !p.Require && !p.Verified && len(p.Machines) == 0
}

// RecordsNodes reports that the Slots' records of such a group name the nodes of their CVMs.
func (s Spec) RecordsNodes() bool { return s.Platform == PlatformVMM || !s.Placement.IsZero() }

func (v *validator) placement(s Spec) {
	const block = "placement"
	p := s.Placement
	if !slices.Contains([]Spread{SpreadNone, SpreadNode, SpreadRegion, SpreadMachine}, p.Spread) {
		v.add(block+".spread", "", "%q is unknown: use %q, %q or %q", p.Spread, SpreadNode, SpreadRegion, SpreadMachine)
	}
	switch {
	case p.MaxPer < 0 || p.MaxPer > MaxReplicas:
		v.add(block+".max_per", "", "is %d: must be 1 to %d", p.MaxPer, MaxReplicas)
	case p.MaxPer > 0 && p.Spread == SpreadNone:
		v.add(block+".max_per", "", "bounds the members in one domain, and no domain is named: set placement.spread, or remove it")
	}
	if p.Require && !p.Places() {
		v.add(block+".require", "", "makes the rules of the placement hard, and there is none: set spread, nodes, with or not_with, or remove it")
	}
	if p.Verified && p.Spread != SpreadMachine {
		v.add(block+".verified", "", "is about attested machines: set placement.spread = %q, or remove it", SpreadMachine)
	}
	v.words(block+".nodes", p.Nodes, maxPlacementNodes, func(name string) string {
		if isPlainWord(name, 128) {
			return ""
		}
		return "is not the id or the name of a node: one word of at most 128 characters"
	})
	v.words(block+".machines", p.Machines, maxPlacementNodes, func(name string) string {
		if len(name) >= minMachineHex && len(name) <= maxMachineHex && isHex(name, len(name)) {
			return ""
		}
		return fmt.Sprintf("is not a machine: give %d to %d hex digits of the hash that `cadre admission explain` shows", minMachineHex, maxMachineHex)
	})
	v.others(s, block+".with", p.With)
	v.others(s, block+".not_with", p.NotWith)
	for i, name := range p.NotWith {
		if slices.Contains(p.With, name) {
			v.add(fmt.Sprintf("%s.not_with[%d]", block, i), "", "%q stands in placement.with too: keep one", name)
		}
	}
	v.room(s)
}

// others checks names of groups. A group of that name may come later: its absence is a condition.
func (v *validator) others(s Spec, path string, names []string) {
	v.words(path, names, maxPlacementGroups, func(name string) string {
		switch p := NameProblem(name); {
		case p != "":
			return p
		case name == s.Name:
			return "is this group: spread its members with placement.spread"
		}
		return ""
	})
}

// words checks a bounded list without repetitions.
func (v *validator) words(path string, list []string, limit int, problem func(string) string) {
	if len(list) > limit {
		v.add(path, "", "has %d entries, at most %d are allowed", len(list), limit)
		return
	}
	for i, name := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if p := problem(name); p != "" {
			v.add(at, "", "%.140q %s", name, p)
		} else if slices.Contains(list[:i], name) {
			v.add(at, "", "%q stands twice", name)
		}
	}
}

// room refuses hard rules that leave too few places for the group's Slots.
func (v *validator) room(s Spec) {
	p := s.Placement
	most, surge := clamp(p.MaxPer, 1, MaxReplicas), MaxSurge(s)
	if wanted := s.Replicas + surge; p.Require && (p.Spread == SpreadNode || p.Spread == SpreadMachine) && len(p.Nodes) > 0 && len(p.Nodes)*most < wanted {
		extra := ""
		if surge > 0 {
			extra = fmt.Sprintf(" and %d extra ones", surge)
		}
		v.add("placement.nodes", "", "has %d nodes for %d slots%s, with max_per %d and require: at most %d could be made; name more nodes, raise max_per, or remove require",
			len(p.Nodes), s.Replicas, extra, most, len(p.Nodes)*most)
	}
	if p.Verified && p.Spread == SpreadMachine && len(p.Machines) > 0 && len(p.Machines)*most < s.Replicas {
		v.add("placement.machines", "", "has %d machines for %d slots, with max_per %d and verified: at most %d could be admitted; name more machines, or raise max_per",
			len(p.Machines), s.Replicas, most, len(p.Machines)*most)
	}
}
