package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/placement"
)

// places are the platform's nodes in a story, and the places of other groups.
type places struct {
	nodes  []placement.Node
	others []placement.Other
	// chosen is the node that the current call names.
	chosen string
	// notOn are the silent hosts that the current create needs no answer of.
	notOn []string
}

// nodeFor is where the platform makes a CVM: on the named node, or on its first node.
func (p *places) nodeFor() string {
	if p.chosen == "" && len(p.nodes) > 0 {
		return p.nodes[0].ID
	}
	return p.chosen
}

// placementOption sets a field of the placement, or the platform's nodes: "nodes a b@west".
func (s *story) placementOption(word, value string) error {
	p := &s.c.spec.Placement
	words := strings.Fields(value)
	switch word {
	case "nodes":
		s.w.nodes = nil
		for _, text := range words {
			id, region, _ := strings.Cut(text, "@")
			s.w.nodes = append(s.w.nodes, placement.Node{ID: id, Name: "node-" + id, Region: region})
		}
	case "spread":
		p.Spread = group.Spread(value)
	case "max_per":
		n, err := strconv.Atoi(value)
		p.MaxPer = n
		return err
	case "on":
		p.Nodes = words
	case "with":
		p.With = words
	case "not_with":
		p.NotWith = words
	case "require":
		p.Require = true
	case "prefer":
		p.Require = false
	case "by_domain":
		s.c.spec.UpdatePolicy.Order = group.OrderByDomain
	default:
		return fmt.Errorf("there is no option %q", word)
	}
	return nil
}

func placeEvents() []event {
	node := func(s *story, id string) *placement.Node {
		i := slices.IndexFunc(s.w.nodes, func(n placement.Node) bool { return n.ID == id })
		if i < 0 {
			return nil
		}
		return &s.w.nodes[i]
	}
	return []event{
		{"the platform gets node WORD", func(s *story, arg []string) error {
			s.w.nodes = append(s.w.nodes, placement.Node{ID: arg[0], Name: "node-" + arg[0]})
			return nil
		}},
		{"node WORD (does not answer|answers again)", func(s *story, arg []string) error {
			n := node(s, arg[0])
			if n == nil {
				return errors.New("there is no such node")
			}
			n.Silent = arg[1] == "does not answer"
			return nil
		}},
		{"the platform moves SLOT to node WORD", func(s *story, arg []string) error {
			c := s.w.of(arg[0])
			if c == nil {
				return errors.New("it has no CVM")
			}
			c.node = arg[1]
			return nil
		}},
		{"group WORD has members on REST", func(s *story, arg []string) error {
			s.w.others = append(slices.DeleteFunc(s.w.others, func(o placement.Other) bool { return o.Group == arg[0] }),
				placement.Other{Group: arg[0], Known: true, Nodes: strings.Fields(arg[1])})
			return nil
		}},
	}
}

func placeExpectations() []event {
	return []event{
		{"SLOT is on node WORD", func(s *story, arg []string) error {
			c := s.w.of(arg[0])
			if c == nil {
				return errors.New("it has no CVM")
			}
			return want(c.node+" "+s.instance(arg[0]).Node, arg[1]+" "+arg[1])
		}},
		{"SLOT has node WORD in its record", func(s *story, arg []string) error { return want(s.c.store.slots[arg[0]].Node, arg[1]) }},
		{"SLOT has no node in its record", func(s *story, arg []string) error { return want(s.c.store.slots[arg[0]].Node, "") }},
		{"condition WORD says REST", func(s *story, arg []string) error {
			for _, c := range s.c.plan.Status.Conditions {
				if c.Type == arg[0] {
					if !strings.Contains(c.Message, arg[1]) {
						return fmt.Errorf("it says %q", c.Message)
					}
					return nil
				}
			}
			return errors.New("there is no such condition")
		}},
		{"no condition WORD", func(s *story, arg []string) error {
			for _, c := range s.c.plan.Status.Conditions {
				if c.Type == arg[0] {
					return fmt.Errorf("it says %q", c.Message)
				}
			}
			return nil
		}},
	}
}

// placed checks the node of a CVM that is about to be made. A hard rule is never broken, and a node that does not
// answer gets no CVM.
func (k *checker) placed(op operation.Operation) {
	node := op.Call.Node
	n, listed := placement.Find(k.w.nodes, node)
	if node != "" && (!listed || n.Silent) {
		k.broke("placement: %s is made on %s, which does not answer", op.Slot, node)
	}
	if p := k.c.spec.Placement; p.Require && (p.Spread == group.SpreadNode) {
		on := 0
		for _, c := range k.w.cvms {
			on += btoi(!c.gone && c.slot != op.Slot && c.node == node)
		}
		if on+1 > max(p.MaxPer, 1) {
			k.broke("placement: %s is made on %s with %d others", op.Slot, node, on)
		}
	}
}
