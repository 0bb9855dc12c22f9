package rollout

import (
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
)

// approved is the fixture's group with required approvals, and an approval of its present Revision.
func approved(f *fixture, ownEnv string) {
	at := f.spec.Revision()
	f.rec.Policy = policy.GroupPolicy{
		Group: "db", RequireApproval: true, Last: 1,
		Revisions: map[string]policy.Numbered{at: {Number: 1, Content: group.Content(f.spec.Template)}},
		Approvals: map[string]policy.Approval{at: {Revision: at, ComposeHash: hashOf("A"), OwnEnv: ownEnv, By: "a person"}},
	}
}

func TestATT15_AValueOfOneSlotWaitsForApproval(t *testing.T) {
	f, name := coloured(t)
	approved(f, "")
	p := f.plan()
	if got := gateHolds(p); !slices.Equal(got, []string{"db-1 " + HoldNotApproved}) {
		t.Fatalf("holds %v", got)
	}
	if a := p.Actions[0]; a.Execute || !strings.Contains(a.Holds[0].Message, "cadre admission approve") || !strings.Contains(a.Holds[0].Message, "db-1") {
		t.Errorf("%+v", a)
	}
	// The approval covers the values at that time, and no other values.
	approved(f, f.spec.OwnEnvs(f.spec.Template))
	wantExecutes(t, f.plan(), "UPDATE db-1")
	f.spec.Instances[0].Env = map[string]string{"COLOR": "black"}
	if got := gateHolds(f.plan()); len(got) != 1 {
		t.Errorf("another value: holds %v", got)
	}
	// The Slot's last value and the template's own value are approved.
	f.spec.Instances[0].Env = map[string]string{"COLOR": "red"}
	approved(f, "")
	f.rec.Slots[1].OwnEnv = name
	if p := f.plan(); len(p.Actions) != 0 {
		t.Errorf("it was given already: %+v", p.Actions)
	}
	f.spec.Instances = nil
	wantExecutes(t, f.plan(), "UPDATE db-1")
}
