package rollout

import (
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR108_ANewSlotGetsTheLastProvenRevision: stable stands still while a Slot is kept back, and no other Slot runs it.
func TestR108_ANewSlotGetsTheLastProvenRevision(t *testing.T) {
	pinned := func(f *fixture, to string) {
		f.spec.Instances = []group.InstanceSettings{{Ordinal: 2, PinnedRevision: revisionOf(f.spec, to)}}
	}
	for name, c := range map[string]struct {
		edit func(*fixture)
		want string
	}{
		"all at stable":                  {func(*fixture) {}, "A"},
		"all but the pinned one went on": {func(f *fixture) { pinned(f, "N"); f.at(0, "B").at(1, "B").at(2, "N") }, "B"},
		"the pinned one is at stable":    {func(f *fixture) { pinned(f, "A"); f.at(0, "B").at(1, "B") }, "A"},
		"one is at stable":               {func(f *fixture) { pinned(f, "N"); f.at(1, "B").at(2, "N") }, "A"},
		"nobody is pinned":               {func(f *fixture) { f.at(0, "B").at(1, "B").at(2, "B") }, "B"},
		"most of them":                   {func(f *fixture) { f.at(0, "B").at(1, "B").at(2, "N") }, "B"},
		"one was at the target":          {func(f *fixture) { f.at(0, "B").at(1, "C").at(2, "C").sick(1).sick(2) }, "B"},
		"all were at the target":         {func(f *fixture) { f.at(0, "C").at(1, "C").at(2, "C").sick(0).sick(1).sick(2) }, "C"},
		"one has proven the target":      {func(f *fixture) { f.at(0, "B").at(1, "B").at(2, "C") }, "C"},
		"what it ran is not recorded":    {func(f *fixture) { f.at(0, "X").at(1, "X").at(2, "X") }, "A"},
		"there is no stable one":         {func(f *fixture) { f.rec.Status.Stable = ""; f.at(0, "B").at(1, "B").at(2, "B") }, "C"},
		"it is excluded, and all went on": {func(f *fixture) {
			f.at(0, "B").at(1, "B").at(2, "B")
			f.spec.Instances = []group.InstanceSettings{{Ordinal: 3, ExcludeFromRollout: true}}
		}, "B"},
	} {
		f := newFixture(4, "none").missing(3)
		f.rec.Revisions[revisionOf(f.spec, "N")] = group.RevisionRecord{ComposeHash: hashOf("N")}
		f.rec.Rollout.To = revisionOf(f.spec, "B")
		f.rec.Rollout.State = "PARTITION_REACHED"
		c.edit(f)
		if got := seenBy(f.want("C")).find("db-3").want.revision; got != revisionOf(f.spec, c.want) {
			t.Errorf("%s: %.8s, want %s (%.8s)", name, got, c.want, revisionOf(f.spec, c.want))
		}
	}
}

// TestR108_ACreationAtTheLastProvenRevisionGoesOn: the target is proven while the Slot is being made. The proof is no
// reason to begin again, wherever stable stands still.
func TestR108_ACreationAtTheLastProvenRevisionGoesOn(t *testing.T) {
	for to, off := range map[string]bool{"A": false, "B": false, "C": false, "N": true} {
		f := newFixture(4, "none").missing(3).at(0, "B").at(1, "B").at(2, "C")
		f.rec.Revisions[revisionOf(f.spec, "N")] = group.RevisionRecord{ComposeHash: hashOf("N")}
		f.want("C").rolling().op(3, operation.Drained, func(op *operation.Operation) {
			op.Kind, op.From, op.To = operation.Create, "", revisionOf(f.spec, to)
		})
		if got := f.facts(f.rec.Operations[0]).Unwanted; (got != "") != off {
			t.Errorf("at %s: unwanted %q", to, got)
		}
	}
}
