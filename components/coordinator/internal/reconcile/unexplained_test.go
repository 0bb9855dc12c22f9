package reconcile

import (
	"maps"
	"testing"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
)

func TestUnexplainedNodes(t *testing.T) {
	v := &view.View{Admissions: map[string]view.Rec[policy.Admission]{"pg-0": {Value: policy.Admission{Slot: "pg-0", BootID: "b1"}}}}
	for name, c := range map[string]struct {
		node tokens.Node
		gone bool
	}{
		"pg-0":           {tokens.Node{Listed: true, Boot: "b1"}, false},
		"pg-1":           {tokens.Node{Listed: true, Boot: "b2"}, true},
		"other":          {tokens.Node{Listed: true}, true},
		"coordinator-0":  {tokens.Node{Listed: true}, false},
		"cadre.lease-00": {tokens.Node{Listed: true}, false},
		"agent-0":        {tokens.Node{Listed: true, IDs: []string{"x"}}, false},
		"gossip-0":       {tokens.Node{Alive: true}, false},
	} {
		got := unexplained(v, map[string]tokens.Node{name: c.node}, "cadre.lease-00")
		want := map[string]string{}
		if c.gone {
			want[name] = c.node.Boot
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := unexplained(v, map[string]tokens.Node{"pg-0": {Listed: true, Boot: "b0"}}, ""); got["pg-0"] != "b0" {
		t.Errorf("the node of a boot before: %v", got)
	}
}
