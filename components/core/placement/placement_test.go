package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/group"
	"pgregory.net/rapid"
)

func nodes(ids ...string) (out []Node) {
	for _, id := range ids {
		out = append(out, Node{ID: id})
	}
	return out
}

func members(at ...string) (out []Member) {
	for i, node := range at {
		out = append(out, Member{Slot: fmt.Sprintf("db-%d", i), Node: node})
	}
	return out
}

func TestChoose(t *testing.T) {
	spread := group.Placement{Spread: group.SpreadNode, MaxPer: 1}
	hard := spread
	hard.Require = true
	regions := []Node{{ID: "1", Name: "a1", Region: "east"}, {ID: "2", Name: "a2", Region: "east"}, {ID: "3", Name: "b1", Region: "west"}}
	for name, c := range map[string]struct {
		r    Request
		a    Ask
		node string
		why  string // a part of it
	}{
		"no rule leaves the choice to the platform": {Request{Nodes: nodes("a", "b")}, Ask{}, "", ""},
		"a free node":                                 {Request{Rules: spread, Nodes: nodes("a", "b"), Members: members("a")}, Ask{}, "b", ""},
		"the emptier node when all have one":          {Request{Rules: spread, Nodes: nodes("a", "b"), Members: members("a", "b", "b")}, Ask{}, "a", ""},
		"by name or by id":                            {Request{Rules: spread, Nodes: regions, Members: members("a1", "2")}, Ask{}, "3", ""},
		"no platform's nodes, a preference":           {Request{Rules: spread}, Ask{}, "", ""},
		"no platform's nodes, hard":                   {Request{Rules: hard}, Ask{}, "", "the platform names no nodes"},
		"hard and full":                               {Request{Rules: hard, Nodes: nodes("a", "b"), Members: members("a", "b")}, Ask{}, "", "a has 1 of the group, max_per is 1, b has 1 of the group, max_per is 1; to clear it: add a node, or raise max_per, or remove placement.require"},
		"hard, one does not answer":                   {Request{Rules: hard, Nodes: []Node{{ID: "a"}, {ID: "b", Silent: true}}, Members: members("a")}, Ask{}, "", "b does not answer; to clear it: add a node, or raise max_per, or bring its host back"},
		"a node that does not answer is never chosen": {Request{Rules: spread, Nodes: []Node{{ID: "a"}, {ID: "b", Silent: true}}, Members: members("a")}, Ask{}, "a", ""},
		"none answers":                                {Request{Rules: spread, Nodes: []Node{{ID: "a", Silent: true}}}, Ask{}, "", ""},
		"hard and a member's node is unknown":         {Request{Rules: hard, Nodes: nodes("a", "b"), Members: members("")}, Ask{}, "", "the node of db-0 is unknown"},
		"the other region":                            {Request{Rules: group.Placement{Spread: group.SpreadRegion, MaxPer: 1}, Nodes: regions, Members: members("1")}, Ask{}, "3", ""},
		"hard, region of an unlisted node":            {Request{Rules: group.Placement{Spread: group.SpreadRegion, MaxPer: 1, Require: true}, Nodes: regions, Members: members("9")}, Ask{}, "", "does not list its node 9"},
		"hard, region of a node that never answered":  {Request{Rules: group.Placement{Spread: group.SpreadRegion, MaxPer: 1, Require: true}, Nodes: append([]Node{{ID: "9", Silent: true}}, regions...), Members: members("9")}, Ask{}, "", "does not list its node 9"},
		"listed nodes are preferred":                  {Request{Rules: group.Placement{Nodes: []string{"b"}}, Nodes: nodes("a", "b"), Members: members("b")}, Ask{}, "b", ""},
		"listed nodes are left where none of them is": {Request{Rules: group.Placement{Nodes: []string{"c"}}, Nodes: nodes("a", "b")}, Ask{}, "a", ""},
		"hard, none of the listed nodes is there":     {Request{Rules: group.Placement{Nodes: []string{"c"}, Require: true}, Nodes: nodes("a")}, Ask{}, "", "a is not in placement.nodes; to clear it: list more nodes"},
		"with another group":                          {Request{Rules: group.Placement{With: []string{"web"}}, Nodes: nodes("a", "b"), Others: []Other{{Group: "web", Known: true, Nodes: []string{"b"}}}}, Ask{}, "b", ""},
		"hard, the other group has no member":         {Request{Rules: group.Placement{With: []string{"web"}, Require: true}, Nodes: nodes("a"), Others: []Other{{Group: "web", Known: true}}}, Ask{}, "", "make group web there first"},
		"away from another group":                     {Request{Rules: group.Placement{NotWith: []string{"web"}}, Nodes: nodes("a", "b"), Others: []Other{{Group: "web", Known: true, Nodes: []string{"a"}}}}, Ask{}, "b", ""},
		"hard, the other group is everywhere":         {Request{Rules: group.Placement{NotWith: []string{"web"}, Require: true}, Nodes: nodes("a"), Others: []Other{{Group: "web", Nodes: []string{"a"}}}}, Ask{}, "", "a has a member of group web"},
		"a node with a free place":                    {Request{Rules: spread, Nodes: []Node{{ID: "a"}, {ID: "b", Free: 3}}, Members: members("b", "b")}, Ask{}, "b", ""},
		"the place that the replaced CVM frees":       {Request{Rules: spread, Nodes: []Node{{ID: "a"}, {ID: "b", Free: 3}}, Members: members("b")}, Ask{Frees: "a"}, "a", ""},
		"a node that refused the CVM comes last":      {Request{Rules: spread, Nodes: nodes("a", "b"), Members: members("b")}, Ask{Avoid: []string{"a"}}, "b", ""},
		"hard, more nodes than fit into a reason":     {Request{Rules: hard, Nodes: nodes("a", "b", "c", "d", "e", "f"), Members: members("a", "b", "c", "d", "e", "f")}, Ask{}, "", "1 more nodes do not fit either"},
		"a rule outweighs the spread":                 {Request{Rules: group.Placement{Spread: group.SpreadNode, MaxPer: 1, Nodes: []string{"a"}}, Nodes: nodes("a", "b"), Members: members("a")}, Ask{}, "a", ""},
	} {
		node, why := Choose(c.r, c.a)
		if node != c.node || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: %q, %q; want %q, %q", name, node, why, c.node, c.why)
		}
	}
}

func check(r Request, node string) string { return NewBoard(r).Check("db-9", node) }

func TestCheckJudgesARecordedChoice(t *testing.T) {
	hard := group.Placement{Spread: group.SpreadNode, MaxPer: 1, Require: true}
	if why := check(Request{Rules: hard, Nodes: nodes("a", "b"), Members: members("a")}, "b"); why != "" {
		t.Errorf("the free node: %s", why)
	}
	if why := check(Request{Rules: hard, Nodes: nodes("a", "b"), Members: members("b")}, "b"); !strings.Contains(why, "max_per") {
		t.Errorf("a member came there meanwhile: %q", why)
	}
	hard.Require = false
	if why := check(Request{Rules: hard, Nodes: nodes("a"), Members: members("a")}, "a"); why != "" {
		t.Errorf("a preference: %s", why)
	}
}

func TestJudgeNamesWhatWouldClearAViolation(t *testing.T) {
	spread := group.Placement{Spread: group.SpreadNode, MaxPer: 1}
	hard := spread
	hard.Require = true
	for name, c := range map[string]struct {
		r    Request
		want string
	}{
		"none":                        {Request{Rules: spread, Nodes: nodes("a", "b"), Members: members("a", "b")}, ""},
		"no rule":                     {Request{Nodes: nodes("a", "b"), Members: members("a", "a")}, ""},
		"two on one of two":           {Request{Rules: spread, Nodes: nodes("a", "b"), Members: members("a", "a")}, "max_per: db-0, db-1 are in one node (a), where at most 1 belong: cadre instance replace db-1 makes its CVM again by the rules and LOSES ITS DISK, or change placement"},
		"two on the only one, soft":   {Request{Rules: spread, Nodes: nodes("a"), Members: members("a", "a")}, ""},
		"two on the only one, hard":   {Request{Rules: hard, Nodes: nodes("a"), Members: members("a", "a")}, "max_per: db-0, db-1 are in one node (a), where at most 1 belong: cadre instance replace db-1"},
		"the other does not answer":   {Request{Rules: spread, Nodes: []Node{{ID: "a"}, {ID: "b", Silent: true}}, Members: members("a", "a")}, ""},
		"a node outside of the list":  {Request{Rules: group.Placement{Nodes: []string{"a"}}, Nodes: nodes("a", "b"), Members: members("a", "b")}, "nodes: db-1 is on a node that does not fit: b is not in placement.nodes"},
		"a group that does not exist": {Request{Rules: group.Placement{NotWith: []string{"web"}}, Nodes: nodes("a"), Members: members("a")}, "not_with: placement.not_with names group web, which does not exist: make that group, or take it out of placement.not_with"},
		"with a group that it avoids": {Request{Rules: group.Placement{NotWith: []string{"web"}}, Nodes: nodes("a"), Members: members("a"), Others: []Other{{Group: "web", Known: true, Nodes: []string{"a"}}}}, "not_with: db-0 is on a node that does not fit: a has a member of group web"},
	} {
		var text []string
		for _, v := range Judge(c.r) {
			text = append(text, v.Rule+": "+v.Text+": "+v.Clears)
		}
		if got := strings.Join(text, "\n"); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// drawn is a random request.
func drawn(t *rapid.T) (Request, Ask) {
	ids := []string{"a", "b", "c", "d", "e"}
	r := Request{Rules: group.Placement{
		Spread: rapid.SampledFrom([]group.Spread{"", group.SpreadNode, group.SpreadRegion, group.SpreadMachine}).Draw(t, "spread"),
		MaxPer: rapid.IntRange(0, 3).Draw(t, "max_per"), Require: rapid.Bool().Draw(t, "require"),
		Nodes: rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, 4, rapid.ID).Draw(t, "listed"),
		With:  rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"web"}), 0, 1, rapid.ID).Draw(t, "with"), NotWith: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"batch"}), 0, 1, rapid.ID).Draw(t, "not_with"),
	}}
	a := Ask{Slot: "db-9"}
	slots := rapid.Bool().Draw(t, "slots")
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, 5, rapid.ID).Draw(t, "nodes") {
		n := Node{ID: id, Name: "node-" + id, Region: rapid.SampledFrom([]string{"", "east", "west"}).Draw(t, "region"), Silent: rapid.IntRange(0, 3).Draw(t, "silent") == 0}
		if slots {
			n.Free = rapid.IntRange(0, 3).Draw(t, "free")
		}
		r.Nodes = append(r.Nodes, n)
	}
	for i, id := range rapid.SliceOfN(rapid.SampledFrom(append(ids, "", "node-a", "gone")), 0, 6).Draw(t, "members") {
		r.Members = append(r.Members, Member{Slot: fmt.Sprintf("db-%d", i), Node: id})
	}
	for _, name := range []string{"web", "batch"} {
		r.Others = append(r.Others, Other{Group: name, Known: true, Nodes: rapid.SliceOfN(rapid.SampledFrom(ids), 0, 2).Draw(t, name)})
	}
	if rapid.Bool().Draw(t, "frees") {
		a.Frees = rapid.SampledFrom(ids).Draw(t, "of")
	}
	a.Avoid = rapid.SliceOfN(rapid.SampledFrom(ids), 0, 2).Draw(t, "avoid")
	return r, a
}

// fits is the rules once more, written without the code under test.
func fits(r Request, n Node) bool {
	p := r.Rules
	if len(p.Nodes) > 0 && !slices.Contains(p.Nodes, n.ID) && !slices.Contains(p.Nodes, n.Name) {
		return false
	}
	on := func(name string) bool {
		for _, o := range r.Others {
			if o.Group == name && (slices.Contains(o.Nodes, n.ID) || slices.Contains(o.Nodes, n.Name)) {
				return true
			}
		}
		return false
	}
	for _, name := range p.With {
		if !on(name) {
			return false
		}
	}
	for _, name := range p.NotWith {
		if on(name) {
			return false
		}
	}
	if p.Spread == "" {
		return true
	}
	has := 0
	for _, m := range r.Members {
		for _, other := range r.Nodes {
			if m.Node != "" && (m.Node == other.ID || m.Node == other.Name) && (other.ID == n.ID || p.Spread == group.SpreadRegion && other.Region == n.Region) {
				has++
			}
		}
	}
	return has < max(p.MaxPer, 1)
}

// A hard rule is never broken, no node that does not answer or is full is chosen, and a hold is given only where no
// node fits.
func TestPropertyHardRulesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, a := drawn(t)
		node, why := Choose(r, a)
		slots := slices.ContainsFunc(r.Nodes, func(n Node) bool { return n.Free > 0 })
		usable := func(n Node) bool { return !n.Silent && (!slots || n.Free > 0 || n.ID == a.Frees) }
		if node != "" {
			n, listed := Find(r.Nodes, node)
			switch {
			case why != "" || !listed || !usable(n):
				t.Fatalf("%+v is chosen, %q", n, why)
			case r.Rules.Require && !fits(r, n):
				t.Fatalf("%+v is chosen, and breaks a rule", n)
			}
			if again := check(r, node); again != "" {
				t.Fatalf("the choice %s is refused: %s", node, again)
			}
			return
		}
		if r.Rules.Places() && r.Rules.Require != (why != "") {
			t.Fatalf("no node, require is %t, and the reason is %q", r.Rules.Require, why)
		}
		known := !slices.ContainsFunc(r.Members, func(m Member) bool {
			n, listed := Find(r.Nodes, m.Node)
			return m.Node == "" || (!listed || n.Silent && n.Region == "") && r.Rules.Spread == group.SpreadRegion
		})
		if why != "" && (known || r.Rules.Spread == "") && slices.ContainsFunc(r.Nodes, func(n Node) bool { return usable(n) && fits(r, n) }) {
			t.Fatalf("a node fits, and the reason is %q", why)
		}
	})
}

// A preference to spread gives domains whose members differ by one at most.
func TestPropertyAPreferenceIsBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, _ := drawn(t)
		r.Rules = group.Placement{Spread: rapid.SampledFrom([]group.Spread{group.SpreadNode, group.SpreadRegion}).Draw(t, "domain")}
		r.Members = nil
		domains := map[string]int{}
		for i := range r.Nodes {
			if r.Nodes[i].Free = 0; !r.Nodes[i].Silent {
				domains[Domain(r.Rules.Spread, r.Nodes[i])] = 0
			}
		}
		if len(domains) == 0 {
			return
		}
		for i := range rapid.IntRange(1, 12).Draw(t, "count") {
			node, why := Choose(r, Ask{Slot: fmt.Sprintf("db-%d", i)})
			if why != "" || node == "" {
				t.Fatalf("no node: %s", why)
			}
			n, _ := Find(r.Nodes, node)
			domains[Domain(r.Rules.Spread, n)]++
			r.Members = append(r.Members, Member{Slot: fmt.Sprintf("db-%d", i), Node: node})
		}
		least, most := 1<<30, 0
		for _, count := range domains {
			least, most = min(least, count), max(most, count)
		}
		if most-least > 1 {
			t.Fatalf("members by domain: %v", domains)
		}
		if v := Judge(r); len(v) > 0 {
			t.Fatalf("the best spread is a violation: %+v", v)
		}
	})
}

func TestPropertyTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, a := drawn(t)
		turned := r
		turned.Nodes = rapid.Permutation(r.Nodes).Draw(t, "nodes again")
		turned.Members = rapid.Permutation(r.Members).Draw(t, "members again")
		turned.Others = rapid.Permutation(r.Others).Draw(t, "others again")
		node, why := Choose(r, a)
		if n, w := Choose(turned, a); n != node || w != why {
			t.Fatalf("%q, %q and then %q, %q", node, why, n, w)
		}
		if a, b := fmt.Sprint(Judge(r)), fmt.Sprint(Judge(turned)); a != b {
			t.Fatalf("%s and then %s", a, b)
		}
	})
}

// The own place of a member that is placed again does not count, and a choice leaves the Board as it was.
func TestABoardServesSeveralChoices(t *testing.T) {
	b := NewBoard(Request{Rules: group.Placement{Spread: group.SpreadNode, MaxPer: 1, Require: true}, Nodes: nodes("a", "b"), Members: members("a", "b")})
	if node, why := b.Choose(Ask{Slot: "db-0"}); node != "a" || why != "" {
		t.Errorf("its own node is free for it: %q, %s", node, why)
	}
	if node, why := b.Choose(Ask{Slot: "db-2"}); node != "" || why == "" {
		t.Errorf("both nodes have a member: %q, %s", node, why)
	}
	b.Put(Member{"db-0", "b"})
	if node, _ := b.Choose(Ask{Slot: "db-2"}); node != "a" {
		t.Errorf("db-0 moved away: %q", node)
	}
	b.Put(Member{"db-3", ""})
	if _, why := b.Choose(Ask{Slot: "db-2"}); !strings.Contains(why, "the node of db-3 is unknown") {
		t.Errorf("a member is anywhere: %q", why)
	}
	if node, why := b.Choose(Ask{Slot: "db-3"}); node != "a" {
		t.Errorf("it is that member's own choice: %q, %s", node, why)
	}
}

// A choice takes a free place, although the platform does not count it yet.
func TestAChoiceTakesAFreePlace(t *testing.T) {
	b := NewBoard(Request{Rules: group.Placement{Spread: group.SpreadNode, MaxPer: 1}, Nodes: []Node{{ID: "a", Free: 1}, {ID: "b", Free: 2}}})
	for i, want := range []string{"a", "b", "b", ""} {
		a := Ask{Slot: fmt.Sprintf("db-%d", i)}
		node, why := b.Choose(a)
		if node != want || why != "" {
			t.Errorf("choice %d: %q, %s; want %q", i, node, why, want)
		}
		b.Take(Member{a.Slot, node})
	}
}
