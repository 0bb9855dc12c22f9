package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cadre.dev/core/group"
)

// Violation is a rule that the present places break.
type Violation struct {
	// Rule is the rule's field in the spec's placement.
	Rule string
	// Slots of the group that break it, sorted; empty for a rule that names an unknown group.
	Slots []string
	// Text states the fact, Clears the way out.
	Text, Clears string
}

// Judge returns the rules that the present members break, in the order of the rules. A preference to
// spread is broken only where the nodes that answer permit more than the present spread.
func Judge(r Request) (out []Violation) {
	if !r.Rules.Places() {
		return nil
	}
	out = append(out, unknownGroups(r)...)
	if r.Rules.Spread != group.SpreadNone {
		out = append(out, crowded(r)...)
	}
	byRule := map[string]map[string][]string{}
	members := sortedMembers(r.Members)
	alone := r
	alone.Rules.Spread, alone.Members = group.SpreadNone, nil
	b := NewBoard(alone)
	for _, m := range members {
		if m.Node == "" {
			continue
		}
		n, _ := Find(r.Nodes, m.Node)
		for _, one := range b.breaks(n) {
			if byRule[one.rule] == nil {
				byRule[one.rule] = map[string][]string{}
			}
			text := n.Title() + " " + one.why
			byRule[one.rule][text] = append(byRule[one.rule][text], m.Slot)
		}
	}
	for _, rule := range []string{ruleNodes, ruleWith, ruleNotWith} {
		for _, text := range slices.Sorted(maps.Keys(byRule[rule])) {
			slots := byRule[rule][text]
			out = append(out, Violation{Rule: rule, Slots: slots, Text: fmt.Sprintf("%s on a node that does not fit: %s", are(slots), text), Clears: moving(slots[len(slots)-1])})
		}
	}
	return out
}

// unknownGroups are the names without a spec.
func unknownGroups(r Request) (out []Violation) {
	for _, list := range []struct {
		rule  string
		names []string
	}{{ruleWith, r.Rules.With}, {ruleNotWith, r.Rules.NotWith}} {
		for _, name := range list.names {
			if !slices.ContainsFunc(r.Others, func(o Other) bool { return o.Group == name && o.Known }) {
				out = append(out, Violation{Rule: list.rule, Text: fmt.Sprintf("placement.%s names group %s, which does not exist", list.rule, name),
					Clears: "make that group, or take it out of placement." + list.rule})
			}
		}
	}
	return out
}

// crowded are the domains with too many members.
func crowded(r Request) (out []Violation) {
	domains, in := map[string]bool{}, map[string][]string{}
	usable := NewBoard(Request{Rules: group.Placement{Nodes: r.Rules.Nodes}, Nodes: r.Nodes})
	for _, o := range usable.options(Ask{}) {
		if !o.node.Silent && len(o.broken) == 0 {
			domains[Domain(r.Rules.Spread, o.node)] = true
		}
	}
	for _, m := range sortedMembers(r.Members) {
		if m.Node != "" {
			n, _ := Find(r.Nodes, m.Node)
			d := Domain(r.Rules.Spread, n)
			in[d] = append(in[d], m.Slot)
		}
	}
	limit := max(r.Rules.MaxPer, 1)
	if !r.Rules.Require {
		// A preference asks for no more than an even spread over the domains.
		limit = max(limit, (len(r.Members)+max(len(domains), 1)-1)/max(len(domains), 1))
	}
	for _, d := range slices.Sorted(maps.Keys(in)) {
		slots := in[d]
		if len(slots) <= limit {
			continue
		}
		out = append(out, Violation{Rule: ruleSpread, Slots: slots,
			Text:   fmt.Sprintf("%s in one %s (%s), where at most %d belong", are(slots), domainWord(r.Rules.Spread), title(r, d), limit),
			Clears: moving(slots[len(slots)-1])})
	}
	return out
}

// title is the domain's name for people.
func title(r Request, domain string) string {
	if r.Rules.Spread == group.SpreadRegion {
		if domain == "" {
			return "without a region"
		}
		return domain
	}
	n, _ := Find(r.Nodes, domain)
	return n.Title()
}

// moving is the command that makes a slot's CVM on another node.
func moving(slot string) string {
	return "cadre instance replace " + slot + " makes its CVM again by the rules and LOSES ITS DISK, or change placement"
}

func are(slots []string) string {
	if len(slots) == 1 {
		return slots[0] + " is"
	}
	some := slots
	if len(some) > named {
		some = append(slices.Clone(slots[:named]), fmt.Sprintf("%d more", len(slots)-named))
	}
	return strings.Join(some, ", ") + " are"
}
