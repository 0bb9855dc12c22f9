package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fixture is the input of one pass, settled at revision A. A test disturbs it.
type fixture struct {
	spec group.Spec
	rec  Records
	obs  Observation
	now  time.Time
	t    Timing
}

func compose(name string) string {
	return "services:\n  app:\n    image: example/app@sha256:" + strings.Repeat("ab", 32) + "\n# " + name + "\n"
}

func testSpec(n int, kind string) group.Spec {
	s := group.Spec{
		Name: "db", Platform: "phala", AppID: strings.Repeat("a", 40), Replicas: n,
		Template: group.Template{Compose: compose("A"), InstanceType: "tdx.small", OSImage: "dstack-0.5.7"},
		Workload: group.Workload{Kind: kind},
	}
	s.Normalize()
	return s
}

func revisionOf(s group.Spec, name string) string {
	s.Template.Compose = compose(name)
	return s.Revision()
}

// newFixture is a group of n available Slots at A, whose rollout to A completed.
func newFixture(n int, kind string) *fixture {
	f := &fixture{spec: testSpec(n, kind), now: epoch.Add(24 * time.Hour), t: DefaultTiming()}
	a := revisionOf(f.spec, "A")
	f.rec = Records{SpecIndex: 7, Revisions: map[string]group.RevisionRecord{}}
	for _, name := range []string{"A", "B", "C"} {
		f.rec.Revisions[revisionOf(f.spec, name)] = group.RevisionRecord{Digest: revisionOf(f.spec, name), ComposeHash: hashOf(name)}
	}
	f.rec.Status = group.Status{Group: "db", Generation: 1, Target: a, Stable: a, Replicas: n, At: f.now.Add(-time.Second)}
	f.rec.Rollout = &operation.Rollout{ID: "db-1-" + a[:8], Group: "db", Generation: 1, To: a, State: operation.Complete,
		StartedAt: epoch, ProgressAt: epoch, EndedAt: epoch}
	f.obs = Observation{Platform: Source{Known: true}, Records: Source{Known: true}, At: f.now}
	members := f.spec.Members()
	for i := range n {
		slot := members[i]
		f.rec.Slots = append(f.rec.Slots, group.SlotRecord{
			Group: "db", Slot: slot, Ordinal: i, VIP: fmt.Sprintf("127.50.1.%d", i+1), AppID: f.spec.AppID,
			InstanceID: "i-" + slot, VMUUID: "vm-" + slot, PlatformName: "c-" + slot, Assigned: a,
			AvailableSince: epoch, AvailableBoot: "boot-" + slot, WasAvailableAt: a,
		})
		f.obs.Slots = append(f.obs.Slots, SlotObservation{
			Slot: slot, Ordinal: i,
			Instance:  &Instance{VMUUID: "vm-" + slot, InstanceID: "i-" + slot, AppID: f.spec.AppID, Name: "c-" + slot, Status: "running", ComposeHash: hashOf("A")},
			Admission: &policy.Admission{Group: "db", Slot: slot, BootID: "boot-" + slot, InstanceID: "i-" + slot, Revision: a, AdmittedAt: epoch},
			Report:    healthyReport(slot, f.now, kind, members),
		})
	}
	if kind != "none" {
		f.lead(0)
	}
	return f
}

func hashOf(name string) string { return strings.Repeat(fmt.Sprintf("%02x", name[0]), 32) }

func healthyReport(slot string, now time.Time, kind string, members []string) *Report {
	yes := true
	r := &Report{
		BootID: "boot-" + slot, ReceivedAt: now.Add(-time.Second), Health: Healthy, HealthyFor: 23 * time.Hour,
		BootAt:     epoch.Add(-time.Hour),
		MemberView: MemberView{Role: RoleNone, MemberKnown: true, Liveness: LivenessAlive, MemberReady: true, CaughtUp: &yes, MayDisrupt: true},
	}
	r.HealthyFor = r.ReceivedAt.Sub(epoch)
	switch kind {
	case "consul", "etcd":
		r.Role, r.QuorumMember, r.Voters, r.Epoch = RoleFollower, true, members, 5
	case "patroni":
		r.Role, r.Epoch = RoleFollower, 5
	}
	return r
}

// lead makes ordinal i the leader that all members name.
func (f *fixture) lead(i int) {
	for j := range f.obs.Slots {
		r := f.obs.Slots[j].Report
		if r == nil {
			continue
		}
		r.Leader = f.obs.Slots[i].Slot
		if r.Role == RoleLeader {
			r.Role = RoleFollower
		}
	}
	f.obs.Slots[i].Report.Role = RoleLeader
}

// asks adds an operator's request for a restart.
func (f *fixture) asks(slot, id string) *fixture {
	return f.asksFor(RequestRestart, slot, id)
}

// asksFor adds an operator's request about a Slot.
func (f *fixture) asksFor(kind RequestKind, slot, id string) *fixture {
	f.obs.Requests = append(f.obs.Requests, Request{ID: id, Kind: kind, Slot: slot, Reason: "asked", By: "somebody"})
	return f
}

// blind removes the platform's listing.
func (f *fixture) blind(why string) *fixture {
	f.obs.Platform = Source{Silent: why}
	return f
}

// want changes the template to the named one.
func (f *fixture) want(name string) *fixture {
	f.spec.Template.Compose = compose(name)
	return f
}

// at makes ordinal i run and prove the named revision.
func (f *fixture) at(i int, name string) *fixture {
	f.obs.Slots[i].Admission.Revision = revisionOf(f.spec, name)
	f.obs.Slots[i].Instance.ComposeHash = hashOf(name)
	f.rec.Slots[i].Assigned = revisionOf(f.spec, name)
	f.rec.Slots[i].WasAvailableAt = revisionOf(f.spec, name)
	return f
}

// sick makes the workload of ordinal i refuse connections, for long enough to count as down.
func (f *fixture) sick(i int) *fixture {
	r := f.obs.Slots[i].Report
	f.rec.Slots[i].DownSince = f.now.Add(-unwellFor)
	no := false
	r.Health, r.HealthReason, r.Liveness, r.MemberReady, r.CaughtUp, r.HealthyFor = Unhealthy, "does not answer", LivenessRefused, false, &no, 0
	r.Role, r.Voters, r.QuorumMember, r.Leader, r.Epoch = RoleUnknown, nil, false, "", 0
	return f
}

// lagging makes ordinal i alive but not caught up.
func (f *fixture) lagging(i int, bytes int64) *fixture {
	no := false
	r := f.obs.Slots[i].Report
	r.CaughtUp, r.LagBytes = &no, &bytes
	return f
}

// silent removes the report of ordinal i, which is unavailable since the given time.
func (f *fixture) silent(i int, since time.Time) *fixture {
	f.obs.Slots[i].Report = nil
	f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince, f.rec.Slots[i].SilenceFrom = time.Time{}, since, since
	return f
}

// stopped makes the platform list the CVM of ordinal i as stopped.
func (f *fixture) stopped(i int) *fixture {
	f.obs.Slots[i].Instance.Status = "stopped"
	f.obs.Slots[i].Report = nil
	return f
}

// missing removes all records and observations of ordinal i: its CVM was never created.
func (f *fixture) missing(i int) *fixture {
	slot := f.obs.Slots[i].Slot
	f.obs.Slots[i] = SlotObservation{Slot: slot, Ordinal: i}
	f.rec.Slots[i] = group.SlotRecord{Group: "db", Slot: slot, Ordinal: i}
	return f
}

// rolling starts the rollout to the spec's target, as an earlier pass would have.
func (f *fixture) rolling() *fixture {
	p := f.plan()
	f.rec.Rollout = p.Rollout
	f.rec.Rollout.StartedAt, f.rec.Rollout.ProgressAt = f.now.Add(-time.Minute), f.now.Add(-time.Minute)
	f.rec.Status.Target, f.rec.Status.Generation = p.Target, p.Generation
	return f
}

// op adds an Operation of the current rollout towards the target.
func (f *fixture) op(i int, phase operation.Phase, edit func(*operation.Operation)) *fixture {
	n := len(f.rec.Operations) + 1
	op := operation.Operation{
		ID: fmt.Sprintf("%s.%d.%s", f.rec.Rollout.ID, n, f.obs.Slots[i].Slot), Rollout: f.rec.Rollout.ID, Group: "db",
		Slot: f.obs.Slots[i].Slot, Kind: operation.Update, CVM: operation.CVM{InstanceID: f.rec.Slots[i].InstanceID, VMUUID: f.rec.Slots[i].VMUUID},
		From: revisionOf(f.spec, "A"), To: f.rec.Rollout.To, Attempt: 1, Order: n, Phase: phase, Before: operation.Before{BootID: "boot-" + f.obs.Slots[i].Slot},
		Entered: operation.PhaseTimes{phase: f.now.Add(-10 * time.Second)}, Times: operation.Times{Created: f.now.Add(-time.Minute + time.Duration(n)*time.Second),
			DrainBy: f.now.Add(time.Minute), HealthyBy: f.now.Add(time.Minute)},
	}
	if phase.Ended() {
		op.Times.Ended = f.now.Add(-10 * time.Second)
	}
	if edit != nil {
		edit(&op)
	}
	f.rec.Operations = append(f.rec.Operations, op)
	return f
}

func (f *fixture) plan() Plan { return Decide(f.spec, f.rec, f.obs, f.now, f.t) }

func (f *fixture) facts(op operation.Operation) operation.Facts {
	return FactsFor(f.spec, f.rec, f.obs, f.now, f.t, op)
}

// executes lists the steps that p begins, in order, e.g. "UPDATE db-2".
func executes(p Plan) []string {
	var out []string
	for _, a := range p.Actions {
		if a.Execute && a.Operation == "" {
			out = append(out, string(a.Kind)+" "+a.Slot)
		}
	}
	return out
}

func actionOf(t *testing.T, p Plan, slot string) Action {
	t.Helper()
	for _, a := range p.Actions {
		if a.Slot == slot {
			return a
		}
	}
	t.Fatalf("no action for %s in %s", slot, describe(p))
	return Action{}
}

func hasAction(p Plan, slot string) bool {
	for _, a := range p.Actions {
		if a.Slot == slot {
			return true
		}
	}
	return false
}

func holdNames(a Action) []string {
	var out []string
	for _, h := range a.Holds {
		out = append(out, h.Predicate)
	}
	return out
}

func wantExecutes(t *testing.T, p Plan, want ...string) {
	t.Helper()
	if got := executes(p); strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("begins %v, want %v\n%s", got, want, describe(p))
	}
}

func wantHeld(t *testing.T, p Plan, slot, predicate string) {
	t.Helper()
	a := actionOf(t, p, slot)
	if a.Execute || !a.HeldBy(predicate) {
		t.Errorf("%s: execute %t, held by %v, want %q", slot, a.Execute, holdNames(a), predicate)
	}
}

func wantNotHeld(t *testing.T, p Plan, slot, predicate string) {
	t.Helper()
	if a := actionOf(t, p, slot); a.HeldBy(predicate) {
		t.Errorf("%s is held by %q: %v", slot, predicate, a.Holds)
	}
}

func describe(p Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rollout %s %s: %s\n", p.Rollout.ID, p.Rollout.State, p.Message)
	for _, a := range p.Actions {
		fmt.Fprintf(&b, "  %s %s class %d execute %t %v %s\n", a.Kind, a.Slot, a.Class, a.Execute, a.Holds, a.Operation)
	}
	for _, i := range p.Status.Instances {
		fmt.Fprintf(&b, "  %s %s %s: %s\n", i.Slot, i.State, i.Health, i.Reason)
	}
	return b.String()
}
