package placement

import (
	"cmp"
	"slices"

	"cadre.dev/core/group"
)

// Node is a place for CVMs, as the platform names it.
type Node struct {
	ID, Name, Region string
	// Free is how many CVMs still fit. Where no node of the platform has a free place, Free is
	// unknown, and the platform decides.
	Free int
	// Silent: the node does not answer. No CVM is made there, and its CVMs are where they were.
	Silent bool
}

// Title is the node's name for people.
func (n Node) Title() string { return cmp.Or(n.Name, n.ID) }

// is reports that the text is the node's id or name.
func (n Node) is(text string) bool { return text == n.ID || text != "" && text == n.Name }

// Find returns the node with the id or name; a node that is not listed has only an ID.
func Find(nodes []Node, text string) (Node, bool) {
	for _, n := range nodes {
		if n.ID == text {
			return n, true
		}
	}
	for _, n := range nodes {
		if n.is(text) {
			return n, true
		}
	}
	return Node{ID: text}, false
}

// Member is a CVM that is there, or is about to be made.
type Member struct {
	Slot string
	// Node is an id or a name; empty: not known.
	Node string
}

// Other is another group that a rule names.
type Other struct {
	Group string
	// Known: the group has a spec.
	Known bool
	// Nodes of its members, by id or name.
	Nodes []string
}

// Request is the input of a choice.
type Request struct {
	Rules group.Placement
	// Nodes of the platform; empty: the platform names none.
	Nodes []Node
	// Members of the group that are there, or are about to be.
	Members []Member
	// Others are the groups that the rules name.
	Others []Other
}

// Ask is the member that needs a node. Its own place among the Members does not count.
type Ask struct {
	Slot string
	// Frees is the node of a CVM of the Slot that is deleted first; empty: none.
	Frees string
	// Avoid are nodes that refused the Slot's CVM before: they come last.
	Avoid []string
}

// Domain is the failure domain of a node for a rule: its region, or the node.
func Domain(spread group.Spread, n Node) string {
	if spread == group.SpreadRegion {
		return n.Region
	}
	return n.ID
}

// Choose is the choice for one more member.
func Choose(r Request, a Ask) (node, why string) { return NewBoard(r).Choose(a) }

// Board holds the places of a Request, for several choices one after the other. A Board is not safe
// for concurrent use.
type Board struct {
	r Request
	// at is the node of each member, perNode and perDomain count them.
	at                 map[string]string
	perNode, perDomain map[string]int
	// blindBy is, by member, why its place keeps hard rules from being judged.
	blindBy map[string]string
	// taken counts, by node, the CVMs that the platform does not count yet.
	taken map[string]int
	// slots: the platform knows its free places.
	slots bool
}

// NewBoard returns a Board with the members of r.
func NewBoard(r Request) *Board {
	b := &Board{r: r, at: map[string]string{}, perNode: map[string]int{}, perDomain: map[string]int{}, blindBy: map[string]string{}, taken: map[string]int{}}
	b.slots = slices.ContainsFunc(r.Nodes, func(n Node) bool { return n.Free > 0 })
	for _, m := range r.Members {
		b.Put(m)
	}
	return b
}

// Put gives a member its place, or another one.
func (b *Board) Put(m Member) {
	b.remove(m.Slot)
	b.at[m.Slot] = m.Node
	if why := unjudged(b.r, m); why != "" {
		b.blindBy[m.Slot] = why
	}
	b.count(m.Node, 1)
}

// Take gives a member the place that was chosen for it. The place is free no longer.
func (b *Board) Take(m Member) {
	b.Put(m)
	b.taken[m.Node]++
}

func (b *Board) remove(slot string) {
	if node, there := b.at[slot]; there {
		b.count(node, -1)
		delete(b.at, slot)
		delete(b.blindBy, slot)
	}
}

func (b *Board) count(node string, by int) {
	if node != "" {
		n, _ := Find(b.r.Nodes, node)
		b.perNode[n.ID] += by
		b.perDomain[Domain(b.r.Rules.Spread, n)] += by
	}
}

// without runs do while the Slot has no place.
func (b *Board) without(slot string, do func()) {
	node, there := b.at[slot]
	b.remove(slot)
	do()
	if there {
		b.Put(Member{slot, node})
	}
}

// Choose returns the id of the node for the member. An empty node and an empty why leave the choice to
// the platform. A why is the reason for which hard rules let no node be chosen, with the way out.
// Preferences never give a why. Choose does not put the member there.
func (b *Board) Choose(a Ask) (node, why string) {
	if !b.r.Rules.Places() {
		return "", ""
	}
	b.without(a.Slot, func() { node, why = b.choose(a) })
	return node, why
}

func (b *Board) choose(a Ask) (node, why string) {
	if reason := b.blind(); reason != "" && b.r.Rules.Require {
		return "", reason
	}
	var best *option
	options := b.options(a)
	for i := range options {
		o := &options[i]
		if !o.usable() || b.r.Rules.Require && len(o.broken) > 0 {
			continue
		}
		if best == nil || o.compare(*best) < 0 {
			best = o
		}
	}
	switch {
	case best != nil:
		return best.node.ID, ""
	case b.r.Rules.Require:
		return "", refusal(options)
	}
	return "", ""
}

// Check returns why a node that was chosen earlier may not take the Slot's CVM now, with the way
// out; "": it may. Only hard rules are judged.
func (b *Board) Check(slot, node string) (why string) {
	if !b.r.Rules.Require {
		return ""
	}
	b.without(slot, func() {
		if why = b.blind(); why != "" {
			return
		}
		n, _ := Find(b.r.Nodes, node)
		if o := b.option(n, Ask{}); len(o.broken) > 0 {
			why = refusal([]option{o})
		}
	})
	return why
}

// option is one node for the member.
type option struct {
	node Node
	// full excludes the node.
	full bool
	// broken are the rules that a member on the node would break.
	broken []broken
	// avoid, inDomain and onNode rank the nodes that remain.
	avoid            bool
	inDomain, onNode int
}

func (b *Board) options(a Ask) []option {
	out := make([]option, 0, len(b.r.Nodes))
	for _, n := range b.r.Nodes {
		out = append(out, b.option(n, a))
	}
	slices.SortFunc(out, func(a, b option) int { return cmp.Compare(a.node.ID, b.node.ID) })
	return out
}

func (b *Board) option(n Node, a Ask) option {
	return option{
		node: n, full: b.slots && n.Free+btoi(n.is(a.Frees)) <= b.taken[n.ID], broken: b.breaks(n), avoid: slices.ContainsFunc(a.Avoid, n.is),
		inDomain: b.perDomain[Domain(b.r.Rules.Spread, n)], onNode: b.perNode[n.ID],
	}
}

func (o option) usable() bool { return !o.node.Silent && !o.full }

// compare puts the better node first. A node that refused the CVM comes last, since the platform
// would refuse it again. Preferences count in the order nodes, not_with, with, spread. No two nodes are
// equal.
func (o option) compare(other option) int {
	return cmp.Or(btoi(o.avoid)-btoi(other.avoid), cmp.Compare(o.breaks(ruleNodes), other.breaks(ruleNodes)),
		cmp.Compare(o.breaks(ruleNotWith), other.breaks(ruleNotWith)), cmp.Compare(o.breaks(ruleWith), other.breaks(ruleWith)), cmp.Compare(o.inDomain, other.inDomain), cmp.Compare(o.onNode, other.onNode), cmp.Compare(o.node.ID, other.node.ID))
}

// breaks counts how often a rule is broken. The bound of a domain is not asked: the order by members covers it.
func (o option) breaks(rule string) (n int) {
	for _, one := range o.broken {
		n += btoi(one.rule == rule)
	}
	return n
}

func btoi(ok bool) int {
	if ok {
		return 1
	}
	return 0
}
