package plan

import (
	"reflect"
	"strings"
	"testing"
)

// TestTextKeepsAPlan: a drawn plan can be written and read again, and the same seed draws the same
// plan.
func TestTextKeepsAPlan(t *testing.T) {
	for seed := range uint64(500) {
		p := Draw(seed)
		if again := Draw(seed); !reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d: %v and %v", seed, p, again)
		}
		p.CrashPoints, p.Groups[0].Service = []int{int(seed) + 1, 900}, true
		read, err := Parse(p.String())
		if err != nil || !reflect.DeepEqual(read, p) {
			t.Fatalf("seed %d: %v\n%s\n%s", seed, err, p, read)
		}
	}
}

func TestParseNamesEveryLine(t *testing.T) {
	_, err := Parse("# a plan\nseed x\ngroup pg 3 patroni none 4\ngroup kv 1 mongo none\nfault 1s melt all 1s 0s\nodds late 2\nodds luck 1\nmove 1s\nfly\n" +
		"move 2s web one 1\nfault 3s lose web-0 0s 0s")
	if err == nil {
		t.Fatal("nothing is wrong with it")
	}
	for _, want := range []string{"line 2: seed", "line 3: group", `"mongo" is none of`, "line 5: fault", `"melt" is no fault`, "line 6: odds: it must be 0 to 1", `"luck" is unknown`, "line 8: move", "line 9: fly: the word is unknown",
		"a plan has coordinators", "group pg has replicas, and a move at 0s", `move at 2s: there is no group "web"`, `there is no member "web-0"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// TestShorterIsShorter: each plan has something less, and p stays unchanged.
func TestShorterIsShorter(t *testing.T) {
	for seed := range uint64(50) {
		p := Draw(seed)
		p.Groups[0].Service = true
		before := p.String()
		for _, less := range Shorter(p) {
			if size(less) >= size(p) {
				t.Errorf("seed %d:\n%s\nis no shorter than\n%s", seed, less, p)
			}
		}
		if p.String() != before {
			t.Fatalf("seed %d was changed", seed)
		}
	}
}

func size(p Plan) (n int) {
	if p.StopFirst {
		n++
	}
	for _, g := range p.Groups {
		if n++; g.Healing != Unhealed {
			n++
		}
		if g.Surge > 0 {
			n++
		}
		if g.Service {
			n++
		}
		if g.Hook != Unhooked {
			n++
		}
		if g.Percent > 0 {
			n++
		}
		if g.Deadline > 0 {
			n++
		}
		if g.Rollback {
			n++
		}
		if g.MinReady > 0 {
			n++
		}
		if g.Approval > 0 {
			n++
		}
		if g.Launch != Unhooked {
			n++
		}
		if g.Order != (Order{}) {
			n++
		}
		if g.Choices != (Choices{}) {
			n++
		}
		if g.Gate != (Gate{}) {
			n++
		}
		for _, one := range g.named() {
			if *one.most > 0 {
				n++
			}
		}
	}
	for _, m := range p.Moves {
		n += len(m.Without)
		if m.GiveUp {
			n++
		}
		for _, one := range m.words() {
			if *one.text != "" {
				n++
			}
		}
		if m.Partition > 0 {
			n++
		}
		if m.Opportunistic {
			n++
		}
		if m.Window != "" {
			n++
		}
		if m.Checks != OneCheck {
			n++
		}
	}
	for _, one := range p.Takes.named() {
		if *one.most != 0 {
			n++
		}
	}
	for _, odds := range p.Odds.named() {
		if *odds != 0 {
			n++
		}
	}
	return n + len(p.Limits) + len(p.CrashPoints) + len(p.Faults) + len(p.Moves) + p.Coordinators
}
