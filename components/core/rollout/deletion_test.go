package rollout

import "testing"

// TestADeletionForgetsNobodyWhoMayBeListed: who takes it back has to know whom those that are left list.
func TestADeletionForgetsNobodyWhoMayBeListed(t *testing.T) {
	for kind, want := range map[string]int{"none": 1, "etcd": 0, "consul": 1, "patroni": 1} {
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
