package plan

import (
	"reflect"
	"strings"
	"testing"
)

// TestTextKeepsAPlan: what is drawn can be written down and read again, and the same seed
// draws the same.
func TestTextKeepsAPlan(t *testing.T) {
	for seed := range uint64(500) {
		p := Draw(seed)
		if again := Draw(seed); !reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d: %v and %v", seed, p, again)
		}
		read, err := Parse(p.String())
		if err != nil || !reflect.DeepEqual(read, p) {
			t.Fatalf("seed %d: %v\n%s\n%s", seed, err, p, read)
		}
	}
}

func TestParseNamesEveryLine(t *testing.T) {
	_, err := Parse("# a plan\nseed x\nreplicas 3 4\nfault 1s melt 0 1s 0s\nodds late 2\nodds luck 1\nmove 1s\nfly\n")
	if err == nil {
		t.Fatal("nothing is wrong with it")
	}
	for _, want := range []string{"line 2: seed", "line 3: replicas", "line 4: fault", `"melt" is no fault`, "line 5: odds: it must be 0 to 1", `"luck" is unknown`, "line 7: move", "line 8: fly: the word is unknown", "a plan has coordinators"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// TestShorterIsShorter: each has something less, and p stays as it was.
func TestShorterIsShorter(t *testing.T) {
	for seed := range uint64(50) {
		p := Draw(seed)
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
	if p.Healing != Unhealed {
		n++
	}
	for _, odds := range p.Odds.named() {
		if *odds != 0 {
			n++
		}
	}
	return n + len(p.Faults) + len(p.Moves) + p.Coordinators
}
