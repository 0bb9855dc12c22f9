package rollout

import (
	"strings"
	"testing"

	"cadre.dev/core/group"
)

// TestADeletionLeavesNoCVMThatNobodyKnowsOf: one that carries the group's name, and came of a call that seemed to
// have had no effect, is told until somebody removes it. One that is to keep its CVMs leaves them.
func TestADeletionLeavesNoCVMThatNobodyKnowsOf(t *testing.T) {
	for name, c := range map[string]struct {
		deletion *Deletion
		orphans  []string
		blind    bool
		gone     bool
		says     string
	}{
		"nothing is left":         {deletion: &Deletion{}, gone: true},
		"one is left":             {deletion: &Deletion{}, orphans: []string{"c-db-1 (vm-7)"}, says: "no slot claims c-db-1 (vm-7)"},
		"they are to be kept":     {deletion: &Deletion{KeepCVMs: true}, orphans: []string{"c-db-1 (vm-7)"}, gone: true},
		"nobody can tell":         {deletion: &Deletion{}, blind: true},
		"it is not to be deleted": {orphans: []string{"c-db-1 (vm-7)"}},
	} {
		f := newFixture(1, "none")
		f.obs.Deletion, f.obs.Orphans = c.deletion, c.orphans
		f.rec.Slots, f.obs.Slots = []group.SlotRecord{}, nil
		if c.blind {
			f.blind("503")
		}
		if p := f.plan(); p.Gone != c.gone || !strings.Contains(p.Message, c.says) {
			t.Errorf("%s: gone %t, says %q", name, p.Gone, p.Message)
		}
	}
}

// TestADeletionForgetsNobodyWhoMayBeListed: who takes it back has to know whom those that are left list.
func TestADeletionForgetsNobodyWhoMayBeListed(t *testing.T) {
	for kind, want := range map[string]int{"none": 1, "etcd": 0, "consul": 0, "patroni": 1} {
		f := newFixture(3, kind)
		f.obs.Deletion = &Deletion{}
		f.obs.Slots[2].Instance, f.obs.Slots[2].Report, f.obs.Slots[2].Admission = nil, nil, nil
		if p := f.plan(); len(p.Forget) != want {
			t.Errorf("%s, two are left: forgets %v", kind, p.Forget)
		}
		for i := range 2 {
			f.obs.Slots[i].Instance = nil
		}
		if p := f.plan(); len(p.Forget) != 3 {
			t.Errorf("%s, nobody is left: forgets %v", kind, p.Forget)
		}
	}
	f := newFixture(3, "etcd")
	f.obs.Deletion = &Deletion{KeepCVMs: true}
	if p := f.plan(); len(p.Forget) != 3 {
		t.Errorf("they are kept: forgets %v", p.Forget)
	}
}
