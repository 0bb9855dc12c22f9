package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// refreshed is a group that heals, whose Slots proved what an edit of checks alone brought, and the
// Revision before.
func refreshed() (f *fixture, before string) {
	f = heals(3, "none")
	before = f.spec.Revision()
	f.noteRevision()
	f.spec.HealthChecks = []group.HealthCheck{{Name: "ready", TCP: &group.TCPCheck{Port: 81}}}
	f.spec.Normalize()
	settle(f).noteRevision()
	return f, before
}

// noteRevision records the spec's Revision with its conduct.
func (f *fixture) noteRevision() {
	digest := f.spec.Revision()
	f.rec.Revisions[digest] = group.RevisionRecord{Digest: digest, ComposeHash: hashOf("A"), Template: f.spec.Template, Conduct: f.spec.Conduct()}
}

// TestR10_ABootThatProvedACalledOffRefreshIsNotMovedAway: the step was called off, or late, a moment
// before the Boot attested, so that the record names what ran before. What it proved is noted, and its
// silence is healed as that of any other.
func TestR10_ABootThatProvedACalledOffRefreshIsNotMovedAway(t *testing.T) {
	f, before := refreshed()
	f.rec.Slots[1].Assigned = before
	p := f.plan()
	if got := p.Slots[1].Assigned; got != p.Target {
		t.Fatalf("assigned %.8s, and it runs %.8s", got, p.Target)
	}
	f.rec.Slots = p.Slots
	wantExecutes(t, f.silent(1, f.now.Add(-6*time.Minute)).plan(), "RESTART db-1")

	for name, edit := range map[string]func(f *fixture){
		"silent":               func(f *fixture) { f.silent(1, f.now.Add(-time.Minute)) },
		"in a step":            func(f *fixture) { f.op(1, operation.Drained, nil) },
		"not listed":           func(f *fixture) { f.obs.Slots[1].Instance = nil },
		"something else on it": func(f *fixture) { f.obs.Slots[1].Instance.ComposeHash = hashOf("B") },
		"told to boot that": func(f *fixture) {
			b := *f
			b.want("B").noteRevision()
			f.rec.Slots[1].Assigned = b.spec.Revision()
		},
		"of unknown content": func(f *fixture) { delete(f.rec.Revisions, before) },
	} {
		f, before := refreshed()
		f.rec.Slots[1].Assigned = before
		edit(f)
		want := f.rec.Slots[1].Assigned
		if got := f.plan().Slots[1].Assigned; got != want {
			t.Errorf("%s: assigned %.8s, not %.8s as before", name, got, want)
		}
	}
}
