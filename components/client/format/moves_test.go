package format

import (
	"fmt"
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

func TestAPlanNamesTheActionOfItsSteps(t *testing.T) {
	plan := rollout.Plan{
		Actions: []rollout.Action{
			{Slot: "web-1", Kind: operation.Update, From: "a1b2c3d4e5f60718", To: "ffeeddccbbaa9988", Takes: group.ActionRestart},
			{Slot: "web-0", Kind: operation.Update, From: "a1b2c3d4e5f60718", To: "ffeeddccbbaa9988", Takes: group.ActionRestart},
		},
		Moves: []rollout.Move{{From: "a1b2c3d4e5f60718", To: "ffeeddccbbaa9988", Changes: []group.Change{
			{Path: "template.compose", Class: group.ActionRestart}, {Path: "meta.a", Class: group.ActionRefresh},
		}}},
	}
	want := "a1b2c3d4 -> ffeeddcc takes RESTART: template.compose (RESTART), meta.a (REFRESH)"
	if got := Moves(plan); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for n := range 30 {
		plan.Moves[0].Changes = append(plan.Moves[0].Changes, group.Change{Path: fmt.Sprintf("template.env.V%d", n), Class: group.ActionRestart})
	}
	if got := Moves(plan); !strings.HasSuffix(got[0], ", 20 more") {
		t.Errorf("a long list is not cut: %s", got[0])
	}
}
