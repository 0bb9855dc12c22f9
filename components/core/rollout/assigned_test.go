package rollout

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// refreshed is a group with healing, whose Slots proved an edit of checks alone. It returns the previous Revision
// as well.
func refreshed() (f *fixture, before string) {
	f = heals(3, "none")
	before = f.spec.Revision()
	f.noteRevision()
	f.spec.HealthChecks = []group.HealthCheck{{Name: "ready", TCP: &group.TCPCheck{Port: 81}}}
	f.spec.Normalize()
	settle(f).noteRevision()
	return f, before
}

// noteRevision records the spec's Revision with its agent spec.
func (f *fixture) noteRevision() {
	digest := f.spec.Revision()
	f.rec.Revisions[digest] = group.RevisionRecord{Digest: digest, ComposeHash: hashOf("A"), Template: f.spec.Template, AgentSpec: f.spec.AgentSpec()}
}

// TestR10_ABootThatProvedACalledOffRefreshIsNotMovedAway: the step was cancelled, or late, a moment before the Boot
// attested, so that the record names the previous Revision. The planner records the proven Revision, and heals a
// silent Boot as usual.
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

// TestR112_ASilentAgentIsHealedBeforeItsRefresh: a silent agent cannot prove a refresh. The restart continues once
// it is recorded, and a reporting agent is updated.
func TestR112_ASilentAgentIsHealedBeforeItsRefresh(t *testing.T) {
	edited := func() *fixture {
		f := heals(3, "none")
		f.noteRevision()
		f.spec.HealthChecks = []group.HealthCheck{{Name: "ready", TCP: &group.TCPCheck{Port: 81}}}
		f.spec.Normalize()
		f.noteRevision()
		return f.rolling().silent(1, f.now.Add(-6*time.Minute))
	}
	f := edited()
	was := f.obs.Slots[1].Admission.Revision
	p := f.plan()
	a := actionOf(t, p, "db-1")
	if a.Kind != operation.Restart || a.Actor != operation.ActorHealing || a.To != was || !a.Execute {
		t.Fatalf("%s on behalf of %s to %.8s, held by %v", a.Kind, a.Actor, a.To, holdNames(a))
	}
	op, _ := p.Begin(a, 3, f.now)
	op.Phase = operation.Drained
	f.rec.Operations = append(f.rec.Operations, op)
	if facts := f.facts(op); facts.Unwanted != "" || !facts.Safe {
		t.Errorf("unwanted: %q, unsafe: %q", facts.Unwanted, facts.SafeReason)
	}
	for _, phase := range []operation.Phase{operation.Booting, operation.Joining} {
		f.rec.Operations[0].Phase, f.rec.Operations[0].Call.Number = phase, 1
		if a := actionOf(t, f.plan(), "db-1"); a.Operation != op.ID {
			t.Errorf("%s: it is to be %sd instead", phase, a.Kind)
		}
	}
	for name, c := range map[string]struct {
		edit func(f *fixture)
		kind operation.Kind
		by   operation.Actor
	}{
		"it stopped": {func(f *fixture) { f.stopped(1) }, operation.Update, operation.ActorRollout},
		"it speaks": {func(f *fixture) {
			f.obs.Slots[1].Report = healthyReport("db-1", f.now, "none", nil)
			f.failing(1, "ready")
		}, operation.Update, operation.ActorRollout},
		"a new compose": {func(f *fixture) { f.want("B").rolling() }, operation.Update, operation.ActorRollout},
		"not healed":    {func(f *fixture) { f.spec.AutoHealing = nil }, operation.Update, operation.ActorRollout},
		"another one takes more than is allowed": {func(f *fixture) {
			f.spec.UpdatePolicy.MostDisruptiveAllowedAction = group.ActionRefresh
			f.obs.Slots[2].Instance.ComposeHash = hashOf("C")
		}, operation.Restart, operation.ActorHealing},
	} {
		f := edited()
		c.edit(f)
		if a := actionOf(t, f.plan(), "db-1"); a.Kind != c.kind || a.Actor != c.by {
			t.Errorf("%s: %s on behalf of %s", name, a.Kind, a.Actor)
		}
	}
}

// TestR74_FromOfARefusedStepIsTheLastGivenContent: From is the content that the CVM was given last, since the Boot that
// proved earlier content is gone. A refused step restores From as Assigned. With the earlier content there, the silence
// of a CVM that never booted would look like the silence of a running one.
func TestR74_FromOfARefusedStepIsTheLastGivenContent(t *testing.T) {
	f := newFixture(1, "none").want("C").rolling().silent(0, epoch.Add(24*time.Hour-6*time.Minute))
	dead := revisionOf(f.spec, "B")
	f.rec.Slots[0].Assigned, f.obs.Slots[0].Instance.ComposeHash = dead, hashOf("B")
	p := f.plan()
	a := actionOf(t, p, "db-0")
	if a.Kind != operation.Update || !a.Execute || a.From != dead {
		t.Fatalf("%s from %.8s, held by %v, and its CVM was told %.8s", a.Kind, a.From, holdNames(a), dead)
	}
	op, _ := p.Begin(a, 3, f.now)
	op.Phase, op.Failure.Cause, op.Call.Number, op.Call.Outcome = operation.Failed, operation.CauseRefused, 1, operation.OutcomeRefused
	op.Times.Ended = f.now
	f.rec.Rollout, f.rec.Slots = p.Rollout, p.Slots
	f.rec.Slots[0].Assigned = op.AssignedAfter(f.rec.Slots[0].Assigned)
	f.rec.Operations = append(f.rec.Operations, op)
	f.now = f.now.Add(time.Minute)
	f.obs.At = f.now
	wantExecutes(t, f.plan(), "UPDATE db-0")
}

// TestR50_BothChecksJudgeAStepOfAnUnbootedMemberAlike: the step takes nothing away, so it begins while another member
// is down. The second evaluation does not cancel it after it is recorded.
func TestR50_BothChecksJudgeAStepOfAnUnbootedMemberAlike(t *testing.T) {
	for _, kind := range []string{"none", "etcd"} {
		f := newFixture(3, kind).want("C").rolling()
		f.silent(2, f.now.Add(-time.Minute)).stopped(1)
		f.rec.Slots[2].Assigned, f.obs.Slots[2].Instance.ComposeHash = revisionOf(f.spec, "B"), hashOf("B")
		p := f.plan()
		a := actionOf(t, p, "db-2")
		if !a.Execute {
			t.Fatalf("%s: held by %v", kind, a.Holds)
		}
		op, _ := p.Begin(a, 3, f.now)
		f.rec.Rollout, f.rec.Slots, f.rec.Operations = p.Rollout, p.Slots, []operation.Operation{op}
		if facts := f.facts(op); facts.Unwanted != "" || !facts.Safe {
			t.Errorf("%s: unwanted %q, unsafe %q", kind, facts.Unwanted, facts.SafeReason)
		}
	}
}
