package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/upgrade"
)

func versionCompose(image string) string {
	return "services:\n  app:\n    image: example/" + image + "@sha256:" + strings.Repeat("ab", 32) + "\n"
}

// versionFixture is a group at one version whose spec wants another one.
func versionFixture(n int, kind, from, to string) *fixture {
	f := newFixture(n, kind)
	a := f.spec.Revision()
	record := f.rec.Revisions[a]
	record.Template = f.spec.Template
	record.Template.Compose, record.AgentSpec.Workload = versionCompose(from), f.spec.Workload
	f.rec.Revisions[a] = record
	f.spec.Template.Compose = versionCompose(to)
	f.rec.Revisions[f.spec.Revision()] = group.RevisionRecord{Template: f.spec.Template, ComposeHash: hashOf("B")}
	return f
}

// runs gives the members' reports versions.
func (f *fixture) runs(version, data string, ordinals ...int) *fixture {
	for _, i := range ordinals {
		f.obs.Slots[i].Report.Version, f.obs.Slots[i].Report.DataFormat = version, data
	}
	return f
}

// atTarget moves a member to the spec's Revision.
func (f *fixture) atTarget(i int) *fixture {
	to := f.spec.Revision()
	f.rec.Slots[i].Assigned, f.rec.Slots[i].WasAvailableAt = to, to
	f.obs.Slots[i].Admission.Revision = to
	f.obs.Slots[i].Instance.ComposeHash = hashOf("B")
	return f
}

func holdsAt(p Plan, slot string) (names []string) {
	for _, a := range p.Actions {
		for _, h := range a.Holds {
			if a.Slot == slot {
				names = append(names, h.Predicate)
			}
		}
	}
	return names
}

func TestWhichStepNeverWorks(t *testing.T) {
	for name, c := range map[string]struct {
		f    *fixture
		want bool
	}{
		"by the report":               {versionFixture(3, "etcd", "etcd:3.5.35", "etcd:3.7.3").runs("3.5.35", "3.5.0", 0, 1, 2), true},
		"by the Revision that it ran": {versionFixture(3, "etcd", "etcd:3.5.35", "etcd:3.7.3"), true},
		"the report counts first":     {versionFixture(3, "etcd", "etcd:3.5.35", "etcd:3.7.3").runs("3.6.16", "3.6.0", 0, 1, 2), false},
		"an allowed step":             {versionFixture(3, "etcd", "etcd:3.5.35", "etcd:3.6.16"), false},
		"no version is named":         {versionFixture(3, "etcd", "other:1", "other:2").runs("3.5.35", "3.5.0", 0, 1, 2), false},
		"PostgreSQL by its data":      {versionFixture(3, "patroni", "other:1", "postgres:17.2").runs("4.1.5", "15", 0, 1, 2), true},
		"PostgreSQL of the same":      {versionFixture(3, "patroni", "other:1", "postgres:15.9").runs("4.1.5", "15", 0, 1, 2), false},
	} {
		if got := slices.Contains(holdsAt(c.f.plan(), "db-2"), HoldVersionStep); got != c.want {
			t.Errorf("%s: held %t", name, got)
		}
	}
	// A member whose server does not start on its disk goes back to the Revision at which it was available.
	f := versionFixture(3, "patroni", "postgres:15.4", "postgres:17.2")
	f.sick(2)
	f.obs.Slots[2].Admission.Revision = f.spec.Revision()
	f.spec.Template.Compose = versionCompose("postgres:15.4")
	if got := holdsAt(f.plan(), "db-2"); slices.Contains(got, HoldVersionStep) {
		t.Errorf("the way back is held: %v", got)
	}
}

// TestTwoStepsAtOnceLeaveOneMemberBehind: with two steps at a time, the second of the last two waits.
func TestTwoStepsAtOnceLeaveOneMemberBehind(t *testing.T) {
	f := versionFixture(5, "etcd", "etcd:3.5.35", "etcd:3.6.16").runs("3.5.35", "3.5.0", 0, 1, 2, 3, 4)
	two := 2
	f.spec.UpdatePolicy.MaxUnavailableFixed, f.spec.UpdatePolicy.ParallelVoters = &two, true
	for _, i := range []int{0, 3, 4} {
		f.atTarget(i).runs("3.6.16", "3.5.0", i)
	}
	p := f.plan()
	if a := holdsAt(p, "db-2"); len(a) > 0 {
		t.Fatalf("db-2 is held by %v", a)
	}
	if got := holdsAt(p, "db-1"); !slices.Contains(got, HoldIrreversible) {
		t.Errorf("the last one is held by %v", got)
	}
	f.spec.UpdatePolicy.Irreversible = group.IrreversibleAllow
	if got := holdsAt(f.plan(), "db-1"); slices.Contains(got, HoldIrreversible) {
		t.Errorf("it is allowed, and held by %v", got)
	}
}

// TestABrokenLastMemberAsksToo: its update is no repair, since the older server would come back as it was.
func TestABrokenLastMemberAsksToo(t *testing.T) {
	f := versionFixture(3, "etcd", "etcd:3.5.35", "etcd:3.6.16").runs("3.5.35", "3.5.0", 0, 1, 2)
	for _, i := range []int{1, 2} {
		f.atTarget(i).runs("3.6.16", "3.5.0", i)
	}
	f.lead(1)
	f.sick(0)
	if got := holdsAt(f.plan(), "db-0"); !slices.Contains(got, HoldIrreversible) {
		t.Errorf("held by %v", got)
	}
	f.asksFor(RequestUpdate, "db-0", "q")
	if got := holdsAt(f.plan(), "db-0"); slices.Contains(got, HoldIrreversible) || !PassedByName(HoldIrreversible) || PassedByName(HoldVersionStep) {
		t.Errorf("by its name it is held by %v", got)
	}
}

// TestTheRecordKeepsTheVersionOfTheData: only for a spec that uses the rules explicitly, until the disk goes.
func TestTheRecordKeepsTheVersionOfTheData(t *testing.T) {
	f := versionFixture(3, "etcd", "etcd:3.5.35", "etcd:3.6.16").runs("3.5.35", "3.5.0", 0, 1, 2)
	if got := f.plan().Slots[1].DataFormat; got != "" {
		t.Errorf("the record of a group that uses nothing new has %q", got)
	}
	f.spec.UpdatePolicy.Irreversible = group.IrreversibleAsk
	f.rec.Slots = f.plan().Slots
	if got := f.rec.Slots[1].DataFormat; got != "3.5.0" {
		t.Fatalf("the record has %q", got)
	}
	f.obs.Slots[1].Report = nil
	f.rec.Slots = f.plan().Slots
	if got := f.rec.Slots[1].DataFormat; got != "3.5.0" {
		t.Errorf("the record of a silent member has %q", got)
	}
	if got := f.rec.Slots[1].Unbound("replaced", f.now).DataFormat; got != "" {
		t.Errorf("the record of an empty disk has %q", got)
	}
}

func TestFindingsNameTheMembers(t *testing.T) {
	f := versionFixture(3, "etcd", "etcd:3.5.35", "etcd:3.6.16").runs("3.5.35", "3.5.0", 0, 1, 2)
	f.atTarget(2).runs("3.6.16", "3.5.0", 2)
	found := Evaluate(f.spec, f.rec, f.obs, f.now, f.t).VersionFindings()
	if len(found) != 1 || found[0].Code != upgrade.NoWayBack || !slices.Equal(found[0].Slots, []string{"db-0", "db-1"}) {
		t.Errorf("%+v", found)
	}
	// A spec that names no version says so if its images change, and is silent otherwise.
	f = versionFixture(3, "etcd", "own:1", "own:2")
	if got := Evaluate(f.spec, f.rec, f.obs, f.now, f.t).VersionFindings(); len(got) != 1 || got[0].Code != upgrade.VersionUnknown {
		t.Errorf("another image of one's own: %+v", got)
	}
	f = versionFixture(3, "etcd", "own:1", "own:1")
	f.spec.Template.Env = map[string]string{"A": "B"}
	if got := Evaluate(f.spec, f.rec, f.obs, f.now, f.t).VersionFindings(); len(got) != 0 {
		t.Errorf("the same images: %+v", got)
	}
}

// TestTheFirstFailureNamesTheDataThatItsServerMayNotOpen: no rule refuses a step whose version is not known, and the
// reason of its failure names the data.
func TestTheFirstFailureNamesTheDataThatItsServerMayNotOpen(t *testing.T) {
	for name, c := range map[string]struct {
		f    *fixture
		want string
	}{
		"an image of one's own":      {versionFixture(3, "patroni", "own:1", "own:2").runs("4.1.5", "15", 0, 1), "no version of PostgreSQL, and db-0 reported data of version 15: "},
		"its own report first":       {versionFixture(3, "etcd", "own:1", "own:2").runs("3.5.35", "3.5.0", 0, 2), "and db-2 reported data of version 3.5.0: "},
		"the version is known":       {versionFixture(3, "patroni", "own:1", "postgres:15.9").runs("4.1.5", "15", 0, 1), ""},
		"the images stay":            {versionFixture(3, "patroni", "own:1", "own:1").runs("4.1.5", "15", 0, 1), ""},
		"no member reports its data": {versionFixture(3, "patroni", "own:1", "own:2"), ""},
		"another workload":           {versionFixture(3, "none", "own:1", "own:2").runs("1", "1", 0, 1), ""},
	} {
		f := c.f.rolling()
		f.atTarget(2).sick(2)
		f.op(2, operation.Joining, func(op *operation.Operation) {
			op.From, op.To, op.Reason = f.rec.Status.Stable, f.spec.Revision(), "member is down"
			op.Before.BootID, op.Times.HealthyBy = "earlier", f.now
			op.Call = operation.Call{Number: 1, IssuedAt: f.now.Add(-time.Hour), Outcome: operation.OutcomeDone}
		})
		op := f.rec.Operations[0]
		got, _ := operation.Advance(op, f.facts(op), f.now.Add(time.Second))
		named := strings.Contains(got.Reason, "a server that cannot open this data")
		if got.Phase != operation.Failed || named != (c.want != "") || !strings.Contains(got.Reason, c.want) {
			t.Errorf("%s: %s, %q", name, got.Phase, got.Reason)
		}
	}
}
