package rollout

import (
	"testing"
	"time"
)

// TestADeletionForgetsNoMemberThatMayBeListed: an operator who takes the deletion back needs the records of all members
// that the remaining set lists. A CVM that one listing lacks may still exist, and its deletion needs its Slot's record.
func TestADeletionForgetsNoMemberThatMayBeListed(t *testing.T) {
	for kind, want := range map[string]int{"none": 1, "etcd": 0, "consul": 1, "patroni": 1} {
		f := newFixture(3, kind)
		f.obs.Deletion = &Deletion{}
		for i := range f.obs.Slots {
			f.obs.Slots[i].Report, f.obs.Slots[i].Admission = nil, nil
		}
		f.obs.Slots[2].Instance, f.rec.Slots[2].MissedSince = nil, f.now.Add(-goneFor+time.Second)
		if p := f.plan(); len(p.Forget) != 0 || !p.Clock.Equal(f.now.Add(time.Second)) {
			t.Errorf("%s, listings may be wrong: forgets %v, and looks again at %s", kind, p.Forget, p.Clock)
		}
		f.rec.Slots[2].MissedSince = f.now.Add(-goneFor)
		if p := f.plan(); len(p.Forget) != want {
			t.Errorf("%s, two are left: forgets %v", kind, p.Forget)
		}
		for i := range 2 {
			f.obs.Slots[i].Instance, f.rec.Slots[i].MissedSince = nil, f.now.Add(-goneFor)
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
