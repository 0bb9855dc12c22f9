package rollout_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"cadre.dev/core/operation"
)

// phasesPage contains the diagram of an Operation's Phases.
const phasesPage = "../../../docs/explanation/life-of-a-rollout.md"

// moves are changes of Phase, as the diagram writes them.
type moves map[string]bool

// made records a change of Phase.
func (m moves) made(from, to operation.Phase) {
	if from == to {
		return
	}
	m[string(from)+" --> "+string(to)] = true
}

var drawnArrow = regexp.MustCompile(`(?m)^ +([A-Z]+ --> [A-Z]+): `)

// rare are the arrows that no story takes: the operation package tests each of them.
var rare = map[string]bool{
	"DRAINED --> JOINING": true, "DRAINED --> FAILED": true, "ACTING --> JOINING": true, "SETTLING --> FAILED": true, "BOOTING --> DRAINING": true,
}

// isTheDiagram compares the changes with the diagram: the diagram has all of them, and in addition only the rare
// changes.
func (m moves) isTheDiagram(t *testing.T) {
	page, err := os.ReadFile(phasesPage)
	if err != nil {
		t.Error(err)
		return
	}
	drawn := map[string]bool{}
	for _, found := range drawnArrow.FindAllSubmatch(page, -1) {
		drawn[string(found[1])] = true
	}
	for _, pair := range []struct {
		what string
		a, b map[string]bool
	}{{"a story moves an Operation, and the diagram does not", m, drawn}, {"the diagram moves an Operation, and no story does", drawn, m}} {
		missing := []string{}
		for move := range pair.a {
			if !pair.b[move] && (!drawn[move] || !rare[move]) {
				missing = append(missing, move)
			}
		}
		slices.Sort(missing)
		for _, move := range missing {
			t.Errorf("%s: %s: %s", phasesPage, pair.what, move)
		}
	}
}
