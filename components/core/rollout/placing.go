package rollout

import (
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
	"cadre.dev/core/placement"
)

// put counts a choice. Without a node, the platform chooses or no node fits, and nothing is known to count.
func (p *places) put(m *member, node string) {
	if node != "" {
		p.board.Take(placement.Member{Slot: m.slot, Node: node})
	}
}

// nodeOf returns the node of m's CVM as far as known: by the listing, by the call that makes the CVM, or by the last
// listing that showed the CVM.
func (w *world) nodeOf(m *member) string {
	if i := m.seen.Instance; i != nil && i.Node != "" {
		return i.Node
	}
	if m.awaitsNode() {
		return ""
	}
	if m.open != nil && m.open.Call.Node != "" {
		return m.open.Call.Node
	}
	return m.record.Node
}

// awaitsNode: the open step of m is to make a CVM, and has not called for it.
func (m *member) awaitsNode() bool {
	return m.open != nil && (m.open.Kind == operation.Create || m.open.Kind == operation.Replace) && m.open.Call.Part != operation.PartCreate
}

// placeOf returns the node of m's CVM, with the platform's words for it.
func (w *world) placeOf(m *member) (id, name, region string) {
	node := w.nodeOf(m)
	if node == "" || m.missing() {
		return "", "", ""
	}
	n, _ := placement.Find(w.obs.Nodes, node)
	return n.ID, n.Name, n.Region
}

// placed is the input of a choice, with the members that have a CVM or whose CVM is being made.
func (w *world) placed() placement.Request {
	r := placement.Request{Rules: w.spec.Placement, Nodes: w.obs.Nodes, Others: w.obs.Others}
	for _, m := range w.everyone {
		making := m.open != nil && m.open.Call.Part == operation.PartCreate
		if !m.awaitsNode() && (!m.missing() || making) {
			r.Members = append(r.Members, placement.Member{Slot: m.slot, Node: w.nodeOf(m)})
		}
	}
	return r
}

// placesNow are the places before the pass begins steps. The open steps that await a node choose in the order of their
// Slots, so that each choice counts the earlier choices, whichever step calls first.
func (w *world) placesNow() *places {
	return w.tally.board.of(func() *places {
		p := &places{board: placement.NewBoard(w.placed()), chosen: map[*member]operation.Placing{}}
		for _, m := range w.everyone {
			if m.awaitsNode() {
				node, _ := p.board.Choose(m.ask())
				p.chosen[m] = operation.Placing{Node: node}
				p.put(m, node)
			}
		}
		return p
	})
}

// ask is the choice for m. The CVM of m that is there goes first.
func (m *member) ask() placement.Ask {
	a := placement.Ask{Slot: m.slot}
	if i := m.seen.Instance; i != nil {
		a.Frees = i.Node
	}
	for _, op := range m.makers {
		if op.Call.Node != "" && op.Call.Outcome == operation.OutcomeRefused {
			a.Avoid = append(a.Avoid, op.Call.Node)
		}
	}
	slices.Sort(a.Avoid)
	return a
}

// take counts the choice for a step that this pass begins.
func (w *world) take(c candidate) {
	if (c.kind == operation.Create || c.kind == operation.Replace) && w.spec.Placement.Places() {
		p := w.placesNow()
		node, _ := p.board.Choose(c.m.ask())
		p.put(c.m, node)
	}
}

// holdsOfPlacement: no node fits a hard rule.
func (w *world) holdsOfPlacement(c candidate, l evaluation) []Hold {
	if !w.spec.Placement.Require || w.ending() || l.op != nil && l.op.Call.Outcome == operation.OutcomeDone && l.op.Call.Part == operation.PartCreate {
		return nil
	}
	if _, why := w.placesNow().board.Choose(c.m.ask()); why != "" {
		return []Hold{hold(HoldPlacement, "%s", why)}
	}
	return nil
}

// placing is the choice for the next call of op, and the verdict on the recorded one.
func (w *world) placing(m *member, op operation.Operation) (out operation.Placing) {
	if !w.spec.Placement.Places() || op.Kind != operation.Create && op.Kind != operation.Replace {
		return out
	}
	p := w.placesNow()
	if chosen, awaits := p.chosen[m]; awaits {
		return chosen
	}
	out.Node, _ = p.board.Choose(m.ask())
	if op.Call.Part == operation.PartCreate {
		out.Misplaced = p.board.Check(m.slot, op.Call.Node)
	}
	return out
}

// addPlacement adds the conditions about places.
func (w *world) addPlacement(add func(kind string, status bool, reason, message string)) {
	var texts []string
	if w.spec.Placement.Places() {
		for _, v := range placement.Judge(w.placed()) {
			texts = append(texts, v.Text+"; to clear it: "+v.Clears)
		}
	}
	if len(texts) > 0 {
		add(ConditionPlacement, false, "RuleBroken", names.Few(texts, "; "))
	}
	if node, n := w.sharedNode(); node != "" {
		add(ConditionVotersShareNode, true, "OneNode", fmt.Sprintf("all %d voters are on %s, one of the platform's %d nodes: without it the group loses its quorum and its data; "+
			"to clear it: set placement.spread, then cadre instance replace for one slot after the other, each of which LOSES ITS DISK and copies the data from the others", n, node, len(w.obs.Nodes)))
	}
}

// sharedNode returns the one node on which all voters are, and their number. "": the voters are on several nodes, their
// nodes are not known, or the platform has one node only.
func (w *world) sharedNode() (node string, n int) {
	if !group.HasVoters(w.spec) || len(w.obs.Nodes) < 2 {
		return "", 0
	}
	for _, m := range w.members {
		if !w.voter(m) || m.missing() {
			continue
		}
		at, _ := placement.Find(w.obs.Nodes, w.nodeOf(m))
		switch {
		case at.ID == "", node != "" && node != at.Title():
			return "", 0
		}
		node = at.Title()
		n++
	}
	if n < 2 {
		return "", 0
	}
	return node, n
}

// firstOfNode: m is the first of the members on one node that does not answer. They are one event: its cause is the
// node, and says nothing about the members elsewhere.
func (w *world) firstOfNode(m *member, dead map[string]bool) bool {
	n, _ := placement.Find(w.obs.Nodes, w.nodeOf(m))
	first := !dead[n.ID]
	dead[n.ID] = dead[n.ID] || n.Silent
	return first
}
