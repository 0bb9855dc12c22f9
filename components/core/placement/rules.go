package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cadre.dev/core/group"
)

// The rules of a placement.
const (
	ruleSpread  = "max_per"
	ruleNodes   = "nodes"
	ruleWith    = "with"
	ruleNotWith = "not_with"
)

// broken is a rule that a member on a node breaks.
type broken struct {
	rule, why, clears string
}

// breaks returns the rules that one more member on n would break.
func (b *Board) breaks(n Node) (out []broken) {
	p := b.r.Rules
	if len(p.Nodes) > 0 && !slices.ContainsFunc(p.Nodes, n.is) {
		out = append(out, broken{ruleNodes, "is not in placement.nodes", "list more nodes"})
	}
	if p.Spread != group.SpreadNone {
		if has := b.perDomain[Domain(p.Spread, n)]; has+1 > max(p.MaxPer, 1) {
			out = append(out, broken{ruleSpread, fmt.Sprintf("has %d of the group, max_per is %d", has, max(p.MaxPer, 1)), "add a " + domainWord(p.Spread) + ", or raise max_per"})
		}
	}
	for _, name := range p.With {
		if !b.holds(name, n) {
			out = append(out, broken{ruleWith, "has no member of group " + name, "make group " + name + " there first, or take it out of placement.with"})
		}
	}
	for _, name := range p.NotWith {
		if b.holds(name, n) {
			out = append(out, broken{ruleNotWith, "has a member of group " + name, "add a node without group " + name + ", or take it out of placement.not_with"})
		}
	}
	return out
}

// holds: a member of the other group is on the node.
func (b *Board) holds(name string, n Node) bool {
	return slices.ContainsFunc(b.r.Others, func(o Other) bool { return o.Group == name && slices.ContainsFunc(o.Nodes, n.is) })
}

// blind returns why hard rules cannot be judged; "": they can.
func (b *Board) blind() string {
	if len(b.r.Nodes) == 0 {
		return "the platform names no nodes, so a hard rule cannot be judged; it clears when the platform names them, or without placement.require"
	}
	if len(b.blindBy) == 0 {
		return ""
	}
	return b.blindBy[slices.Min(slices.Collect(maps.Keys(b.blindBy)))]
}

// unjudged returns why the place of m keeps a hard rule from being judged; "": it does not.
func unjudged(r Request, m Member) string {
	if r.Rules.Spread == group.SpreadNone {
		return ""
	}
	if m.Node == "" {
		return fmt.Sprintf("the node of %s is unknown, so placement.spread cannot be judged; it clears when the platform lists its CVM with a node, or without placement.require", m.Slot)
	}
	// A silent node may never have answered this leader: its region is then empty because it is unknown.
	if n, listed := Find(r.Nodes, m.Node); r.Rules.Spread == group.SpreadRegion && (!listed || n.Silent && n.Region == "") {
		return fmt.Sprintf("the region of %s is unknown: the platform does not list its node %s; it clears when the platform lists the node, or without placement.require", m.Slot, n.ID)
	}
	return ""
}

// named bounds the nodes in a reason.
const named = 5

// refusal is why none of the options may be taken, with the way out.
func refusal(options []option) string {
	var parts, clears []string
	for _, o := range options {
		why, clear := o.why()
		if len(parts) < named {
			parts = append(parts, o.node.Title()+" "+why)
		}
		if !slices.Contains(clears, clear) {
			clears = append(clears, clear)
		}
	}
	if more := len(options) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more nodes do not fit either", more))
	}
	slices.Sort(clears)
	return fmt.Sprintf("no node fits placement: %s; to clear it: %s, or remove placement.require", strings.Join(parts, ", "), strings.Join(clears, ", or "))
}

// why is the first reason against the node.
func (o option) why() (why, clears string) {
	switch {
	case len(o.broken) > 0:
		return o.broken[0].why, o.broken[0].clears
	case o.node.Silent:
		return "does not answer", "bring its host back"
	}
	return "has no free place", "free a place on a node"
}

func domainWord(s group.Spread) string {
	if s == group.SpreadRegion {
		return "region"
	}
	return "node"
}

func sortedMembers(list []Member) []Member {
	return slices.SortedFunc(slices.Values(list), func(a, b Member) int { return strings.Compare(a.Slot, b.Slot) })
}
