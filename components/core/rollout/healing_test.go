package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// heals is a settled group with healing, and with the check that healing uses.
func heals(n int, kind string) *fixture {
	f := newFixture(n, kind)
	f.spec.HealthChecks = []group.HealthCheck{{Name: "ready", TCP: &group.TCPCheck{Port: 80}}}
	f.spec.AutoHealing = &group.AutoHealing{HealthCheck: "ready"}
	f.rec.Status.Target = f.spec.Revision()
	return settle(f)
}

// settle sets the Revision that all members run, after the checks, which are part of the Revision.
func settle(f *fixture) *fixture {
	a := f.spec.Revision()
	f.rec.Revisions[a] = group.RevisionRecord{Digest: a, ComposeHash: hashOf("A"), Template: f.spec.Template}
	f.rec.Status.Target, f.rec.Status.Stable, f.rec.Rollout.To = a, a, a
	for i := range f.rec.Slots {
		f.rec.Slots[i].Assigned, f.rec.Slots[i].WasAvailableAt = a, a
		f.obs.Slots[i].Admission.Revision = a
	}
	return f
}

// failing makes the check of ordinal i fail.
func (f *fixture) failing(i int, check string) *fixture {
	r := f.obs.Slots[i].Report
	r.Health, r.HealthReason, r.Failing = Unhealthy, "check "+check+": no", []string{check}
	return f
}

// gone removes the CVM of ordinal i from the listing; since is how long listings lack it.
func (f *fixture) gone(i int, since time.Duration) *fixture {
	f.obs.Slots[i].Instance, f.obs.Slots[i].Report = nil, nil
	f.rec.Slots[i].MissedSince = f.now.Add(-since)
	return f
}

// tried records attempts to heal ordinal i, the last one some time ago.
func (f *fixture) tried(i, n int, ago time.Duration) *fixture {
	f.rec.Slots[i].Heals = &group.Heals{Attempts: n, LastAt: f.now.Add(-ago), LastKind: "RESTART", LastWhy: "it was down"}
	return f
}

// TestR112_ABrokenMemberIsRestarted: healing restarts the member at its own Revision. The rollout neither does the step
// nor is judged by it.
func TestR112_ABrokenMemberIsRestarted(t *testing.T) {
	for name, breaks := range map[string]func(f *fixture){
		"its CVM stopped":     func(f *fixture) { f.stopped(1) },
		"it does not boot":    func(f *fixture) { f.obs.Slots[1].Instance.BootError = "no disk"; f.obs.Slots[1].Report = nil },
		"its check fails":     func(f *fixture) { f.failing(1, "ready") },
		"its agent is silent": func(f *fixture) { f.silent(1, f.now.Add(-6*time.Minute)) },
		"in a pause too":      func(f *fixture) { f.stopped(1); f.obs.Pause = &Override{} },
	} {
		f := heals(3, "none")
		breaks(f)
		p := f.plan()
		wantExecutes(t, p, "RESTART db-1")
		a := actionOf(t, p, "db-1")
		if a.Actor != operation.ActorHealing || a.To != f.spec.Revision() || a.Request.Note == "" || !strings.HasPrefix(a.Why, "heals: ") {
			t.Errorf("%s: %+v", name, a)
		}
		op, ok := p.Begin(a, 3, f.now)
		if !ok || op.Rollout != "" || op.Actor != operation.ActorHealing {
			t.Errorf("%s: %t %+v", name, ok, op)
		}
		if h := p.Slots[1].Heals; h == nil || h.Attempts != 1 || !h.LastAt.Equal(f.now) || h.LastWhy != a.Request.Note {
			t.Errorf("%s: attempts %+v", name, h)
		}
		if p.Rollout.State != operation.Complete {
			t.Errorf("%s: the rollout is %s", name, p.Rollout.State)
		}
	}
}

// TestR112_FaultsOutsideHealingAreLeft: healing leaves a group without the block, a fault that an update causes, a
// member that was never available, and an excluded member.
func TestR112_FaultsOutsideHealingAreLeft(t *testing.T) {
	for name, edit := range map[string]func(f *fixture){
		"no block":                     func(f *fixture) { f.spec.AutoHealing = nil },
		"not that failure":             func(f *fixture) { f.spec.RestartPolicy.On = []string{group.OnUnhealthy} },
		"excluded":                     func(f *fixture) { f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, ExcludeFromHealing: true}} },
		"never available at it (R99)":  func(f *fixture) { f.rec.Slots[1].WasAvailableAt = revisionOf(f.spec, "C") },
		"frozen":                       func(f *fixture) { f.obs.Freeze = &Override{} },
		"the platform is busy with it": func(f *fixture) { f.obs.Slots[1].Instance.InProgress = true },
		"not listed, and unknown":      func(f *fixture) { f.obs.Slots[1].Instance = nil; f.blind("no answer") },
	} {
		f := heals(3, "none").stopped(1)
		edit(f)
		if p := f.plan(); len(executes(p)) > 0 {
			t.Errorf("%s: begins %v", name, executes(p))
		}
	}
	f := heals(3, "none").stopped(1).want("B")
	wantExecutes(t, f.plan(), "UPDATE db-1")

	// Its step ended while the other members had to restore the quorum, and then its CVM stopped.
	f = heals(3, "none").want("B").rolling()
	f.at(0, "B").at(1, "B").at(2, "B").stopped(1)
	f.rec.Slots[1].WasAvailableAt = revisionOf(f.spec, "A")
	wantExecutes(t, f.plan())
	f.op(1, operation.Done, nil)
	wantExecutes(t, f.plan(), "RESTART db-1")
}

// TestR113_NothingCountsRightAfterABoot: a Boot has its grace period. R114: any check except the check of healing
// is readiness for traffic.
func TestR113_NothingCountsRightAfterABoot(t *testing.T) {
	f := heals(3, "none").failing(1, "ready")
	f.rec.Slots[1].AvailableBoot = "the one before"
	f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-group.DefaultInitialDelay + time.Second)
	p := f.plan()
	wantExecutes(t, p)
	if want := f.now.Add(time.Second); p.Clock.After(want) || p.Clock.IsZero() {
		t.Errorf("looks again at %s, want %s", p.Clock, want)
	}
	f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-group.DefaultInitialDelay)
	wantExecutes(t, f.plan(), "RESTART db-1")
	wantExecutes(t, heals(3, "none").failing(1, "traffic").plan())
}

// TestR2_ThePlanHasThePendingHeals: the plan has the step and its wait before the step is due. The plan has no step for
// a member that an operator has to repair, that is excluded, or that has another planned step.
func TestR2_ThePlanHasThePendingHeals(t *testing.T) {
	booted := func(f *fixture) {
		f.failing(1, "ready").obs.Slots[1].Admission.AdmittedAt = f.now.Add(-10 * time.Second)
		f.rec.Slots[1].AvailableBoot = "" // not ready in this Boot yet: its grace period lasts
	}
	for name, c := range map[string]struct {
		kind string
		ill  func(*fixture)
		want string // the holds of db-1; "": no step is planned
		why  string
	}{
		"just booted": {"none", booted, HoldHealBackoff, "heals: its check ready fails"},
		"process just down": {"patroni", func(f *fixture) {
			f.sick(1).rec.Slots[1].UnavailableSince, f.rec.Slots[1].AvailableSince = f.now, time.Time{}
			f.rec.Slots[1].DownSince = f.now
		}, HoldHealBackoff, "heals: its workload is down: no word from it"},
		"silent":             {"none", func(f *fixture) { f.silent(1, f.now.Add(-time.Minute)) }, HoldUnknownHealth, "heals: its agent is silent"},
		"stopped, and heard": {"none", func(f *fixture) { f.obs.Slots[1].Instance.Status = "stopped" }, HoldHealBackoff, "heals: the platform says stopped"},
		"tried a moment ago": {"none", func(f *fixture) { booted(f.tried(1, 2, time.Second)) }, HoldHealBackoff + " " + HoldHealBackoff, "heals: its check ready fails"},
		"tried too often":    {"none", func(f *fixture) { booted(f.tried(1, 5, time.Hour)) }, "", ""},
		"excluded": {"none", func(f *fixture) {
			booted(f)
			f.spec.Instances = []group.InstanceSettings{{Ordinal: 1, ExcludeFromHealing: true}}
		}, "", ""},
		"no healing": {"none", func(f *fixture) { booted(f); f.spec.AutoHealing = nil }, "", ""},
		"well":       {"none", func(*fixture) {}, "", ""},
	} {
		f := heals(3, c.kind)
		c.ill(f)
		p := f.plan()
		wantExecutes(t, p)
		if c.want == "" {
			if len(p.Actions) != 0 {
				t.Errorf("%s: planned %+v", name, p.Actions)
			}
			continue
		}
		if len(p.Actions) != 1 {
			t.Errorf("%s: planned %+v", name, p.Actions)
			continue
		}
		a := p.Actions[0]
		if a.Slot != "db-1" || a.Kind != operation.Restart || a.Actor != operation.ActorHealing || a.Why != c.why || strings.Join(holdNames(a), " ") != c.want {
			t.Errorf("%s: planned %+v", name, a)
		}
		// A silent member may be healthy, and so may a reporting member that an old listing shows as stopped. A
		// process that gives no answer for a moment may be healthy too.
		if broken := name != "silent" && name != "stopped, and heard" && name != "process just down"; (a.Class == ClassBroken) != broken {
			t.Errorf("%s: class %d", name, a.Class)
		}
		if h := a.Holds[len(a.Holds)-1]; !h.Until.After(f.now) || p.Wake.After(h.Until) {
			t.Errorf("%s: held until %s, looked at again at %s", name, h.Until, p.Wake)
		}
	}
}

// TestR113_TheFirstHealthEndsTheGrace: it ends the grace period of that Boot alone. The record keeps the Boot's id
// after the pass that sees the member broken, since healing may have to wait.
func TestR113_TheFirstHealthEndsTheGrace(t *testing.T) {
	f := heals(3, "none")
	f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-time.Minute)
	f.rec.Slots[1].AvailableBoot = ""
	f.rec.Slots[1] = f.plan().Slots[1] // it is ready
	f.failing(1, "ready")
	p := f.plan()
	wantExecutes(t, p, "RESTART db-1")
	f.rec.Slots[1] = p.Slots[1]
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.obs.Slots[1].Admission.BootID, f.obs.Slots[1].Report.BootID = "the next one", "the next one"
	wantExecutes(t, f.plan())

	f = heals(3, "patroni").sick(1) // its process is down, and its supervisor has its time all the same
	f.rec.Slots[1].DownSince = time.Time{}
	f.obs.Slots[1].Admission.AdmittedAt = f.now.Add(-2 * time.Minute)
	p = f.plan()
	wantExecutes(t, p)
	f.rec.Slots[1] = p.Slots[1]
	f.rec.Slots[1].DownSince = f.now.Add(-unwellFor)
	wantExecutes(t, f.plan(), "RESTART db-1")
}

// TestR34_AMemberThatMerelyHasNoLeaderIsNotHealed: a process that is down is healed, after its own supervisor had
// its time.
func TestR34_AMemberThatMerelyHasNoLeaderIsNotHealed(t *testing.T) {
	f := heals(3, "patroni").failing(1, "ready")
	f.stopped(0)
	f.spec.RestartPolicy.On = []string{group.OnUnhealthy}
	wantExecutes(t, f.plan())
	f = heals(3, "patroni").sick(1)
	f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince, f.rec.Slots[1].DownSince = time.Time{}, f.now.Add(-time.Hour), time.Time{}
	p := f.plan()
	wantExecutes(t, p) // down since now, after any earlier fault
	if !p.Slots[1].DownSince.Equal(f.now) {
		t.Fatalf("down since %s", p.Slots[1].DownSince)
	}
	f.rec.Slots[1].DownSince = f.now.Add(-unwellFor)
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.obs.Slots[1].Report.MemberKnown = false
	wantExecutes(t, f.plan()) // the driver has not answered yet (R10)
}

// TestR10_ABrokenAdapterHealsNothing: a report without a checked process is no proof after any time. The rollout holds,
// and shows the adapter's fault.
func TestR10_ABrokenAdapterHealsNothing(t *testing.T) {
	const fault = "no adapter listens at 127.0.0.1:9900"
	for name, c := range map[string]struct {
		kind, voters string
		broken       int
	}{"without votes": {"none", "false", 1}, "a follower": {"etcd", "true", 1}, "the leader": {"etcd", "true", 0}} {
		t.Run(name, func(t *testing.T) {
			f := heals(3, c.kind)
			f.spec.Workload = group.Workload{Kind: group.WorkloadCustom, Settings: map[string]string{"http": "127.0.0.1:9900", "voters": c.voters}}
			f.spec.AutoHealing.Service = "web"
			settle(f)
			r, rec := f.obs.Slots[c.broken].Report, &f.rec.Slots[c.broken]
			r.MemberView, r.SetView = MemberView{Role: RoleUnknown, Message: fault, MayDisruptReason: fault}, SetView{}
			r.Health, r.HealthReason, r.HealthyFor = Unknown, fault, 0
			rec.AvailableSince, rec.UnavailableSince = time.Time{}, f.now.Add(-time.Hour)
			for range 3 {
				p := f.plan()
				wantExecutes(t, p)
				if !p.Slots[c.broken].DownSince.IsZero() {
					t.Errorf("down since %s", p.Slots[c.broken].DownSince)
				}
				*rec = p.Slots[c.broken]
				f.now = f.now.Add(2 * unwellFor)
				f.obs.At = f.now
				for i := range f.obs.Slots {
					f.obs.Slots[i].Report.ReceivedAt = f.now.Add(-time.Second)
				}
			}
			if c.broken != 0 { // the others vouch for the leader
				rec.DownSince, r.MemberKnown, r.Liveness = f.now.Add(-unwellFor), true, LivenessRefused
				wantExecutes(t, f.plan(), "RESTART db-1")
				rec.DownSince, r.MemberKnown, r.Liveness = time.Time{}, false, LivenessUnknown
			}
			f.want("B").rolling()
			p := f.plan()
			wantExecutes(t, p)
			wantHeld(t, p, f.obs.Slots[c.broken].Slot, HoldUnknownHealth)
			if c.broken == 0 {
				wantHeld(t, p, "db-0", HoldLeaderByPeers) // R125: its own report does not say that it leads
			}
			if a := actionOf(t, p, f.obs.Slots[c.broken].Slot); !slices.ContainsFunc(a.Holds, func(h Hold) bool { return strings.Contains(h.Message, fault) }) {
				t.Errorf("no hold names the fault: %v", a.Holds)
			}
		})
	}
}

// TestR127_ADeadLeaderIsStartedAtOnce: for a while its last report still claims leadership, and no agent could run
// the drain.
func TestR127_ADeadLeaderIsStartedAtOnce(t *testing.T) {
	f := heals(3, "patroni")
	f.obs.Slots[0].Instance.Status = "stopped"
	wantExecutes(t, f.plan()) // it reported a moment ago: the listing may be wrong
	f.obs.Slots[0].Report.ReceivedAt = f.now.Add(-operation.LiveWithin)
	wantExecutes(t, f.plan(), "RESTART db-0")
	f.obs.Slots[0].Report.ReceivedAt = f.now.Add(-time.Second)
	f.obs.Slots[0].Report.CutAt = f.obs.At.Add(time.Millisecond)
	wantExecutes(t, f.plan()) // its connection ended, and the listing is older than that
	f.obs.Slots[0].Report.CutAt = f.obs.At
	p := f.plan()
	wantExecutes(t, p, "RESTART db-0")
	a := actionOf(t, p, "db-0")
	if !a.Way.SkipDrain || a.Transfer != nil {
		t.Errorf("skip_drain %t, hands over by %+v", a.Way.SkipDrain, a.Transfer)
	}
	op, _ := p.Begin(a, 3, f.now)
	op.Phase = operation.Drained
	f.rec.Operations = append(f.rec.Operations, op)
	if facts := f.facts(op); !facts.Safe || facts.Unwanted != "" {
		t.Errorf("unsafe: %q, unwanted: %q", facts.SafeReason, facts.Unwanted)
	}
}

// TestR116_AMemberWithAHeldUpdateIsHealed: a failure, a pause or a missing approval holds the update. Healing keeps the
// Revision that the member ran.
func TestR116_AMemberWithAHeldUpdateIsHealed(t *testing.T) {
	refused := func(n int) func(f *fixture) {
		return func(f *fixture) {
			for range n {
				f.op(1, operation.Failed, func(op *operation.Operation) {
					op.Kind, op.Call.Number, op.Failure.Cause, op.Times.Ended = operation.Update, 1, operation.CauseRefused, f.now.Add(-time.Hour)
				})
			}
		}
	}
	for name, hold := range map[string]func(f *fixture){
		"failed":      func(f *fixture) { f.rec.Rollout.State = operation.FailedState },
		"refused":     refused(maxRefusals),
		"not offered": func(f *fixture) { f.obs.Refused = map[string]string{f.spec.Revision(): "no such image"} },
		"paused":      func(f *fixture) { f.obs.Pause = &Override{} },
		"not approved": func(f *fixture) {
			f.spec.UpdatePolicy.RequireApproval = true
			f.rec.Policy.RequireApproval = true
			f.rec.Policy.Approvals = map[string]policy.Approval{f.rec.Status.Stable: {ComposeHash: hashOf("A")}}
		},
	} {
		f := heals(3, "none").want("B").rolling().stopped(1)
		was := f.obs.Slots[1].Admission.Revision
		hold(f)
		p := f.plan()
		wantExecutes(t, p, "RESTART db-1")
		if a := actionOf(t, p, "db-1"); a.To != was {
			t.Errorf("%s: to %.8s, want what it runs, %.8s", name, a.To, was)
		}
	}
	f := heals(3, "none").want("B").rolling().stopped(1)
	refused(maxRefusals - 1)(f)
	wantExecutes(t, f.plan(), "UPDATE db-1") // the update gets one more attempt
}

// TestR116_TheSpecChoosesTheRevisionOfARepair: restarts at the running Revision come first, and the update follows when
// all were made. An update is no repair in a group whose updates wait for an operator.
func TestR116_TheSpecChoosesTheRevisionOfARepair(t *testing.T) {
	attempts := func(n int) func(f *fixture) {
		return func(f *fixture) {
			f.rec.Slots[1].Heals = &group.Heals{Attempts: n, LastAt: f.now.Add(-time.Hour), LastKind: "RESTART", LastWhy: "it stopped"}
		}
	}
	for name, c := range map[string]struct {
		at   string
		edit func(f *fixture)
		want string
	}{
		"newest":                 {group.HealAtNewest, nil, "UPDATE db-1"},
		"by default":             {"", nil, "UPDATE db-1"},
		"running":                {group.HealAtRunning, nil, "RESTART db-1"},
		"running, once more":     {group.HealAtRunning, attempts(9), "RESTART db-1"}, // twice max_attempts, since it is down
		"running, all were made": {group.HealAtRunning, attempts(10), "UPDATE db-1"},
		"running, asked for":     {group.HealAtRunning, func(f *fixture) { f.asksFor(RequestUpdate, "db-1", "q") }, "UPDATE db-1"},
		"running, but not healed": {group.HealAtRunning, func(f *fixture) {
			f.spec.RestartPolicy.On = []string{group.OnUnhealthy}
		}, "UPDATE db-1"},
		"running, never well at it": {group.HealAtRunning, func(f *fixture) { f.rec.Slots[1].WasAvailableAt = "" }, "UPDATE db-1"},
	} {
		f := heals(3, "none").want("B").rolling().stopped(1)
		f.spec.AutoHealing.At = c.at
		if c.edit != nil {
			c.edit(f)
		}
		if got := executes(f.plan()); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: begins %v, want %s\n%s", name, got, c.want, describe(f.plan()))
		}
	}
	f := heals(3, "none").want("B").rolling().stopped(1)
	f.spec.AutoHealing.At, f.spec.UpdatePolicy.Type = group.HealAtRunning, group.Opportunistic
	attempts(10)(f)
	wantHeld(t, f.plan(), "db-1", HoldOpportunistic)
}

// TestR116_ASilentMemberWaitsForItsRestart: its fault is not due yet, and no update takes its place.
func TestR116_ASilentMemberWaitsForItsRestart(t *testing.T) {
	f := heals(3, "none").want("B").rolling()
	f.silent(1, f.now.Add(-time.Minute)).spec.AutoHealing.At = group.HealAtRunning
	a := actionOf(t, f.plan(), "db-1")
	if a.Kind != operation.Restart || a.Execute || a.To != f.obs.Slots[1].Admission.Revision {
		t.Errorf("%+v", a)
	}
}

// TestR116_ARepairKeepsItsRevision: the open restart is not given the Revision of the update.
func TestR116_ARepairKeepsItsRevision(t *testing.T) {
	f := heals(3, "none").want("B").rolling().stopped(1).op(1, operation.Booting, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.To = operation.Restart, operation.ActorHealing, "", op.From
	})
	wantExecutes(t, f.plan(), "UPDATE db-1")
	f.spec.AutoHealing.At = group.HealAtRunning
	if a := actionOf(t, f.plan(), "db-1"); a.Kind != operation.Restart || a.Retarget != nil {
		t.Errorf("%+v", a)
	}
}

// TestR45_AllThatStoppedStartTogether: database members do not wait for their stopped leader to start first.
func TestR45_AllThatStoppedStartTogether(t *testing.T) {
	for _, kind := range []string{"none", "patroni", "etcd"} {
		f := heals(3, kind).stopped(0).stopped(1).stopped(2)
		if p := f.plan(); len(executes(p)) != 3 {
			t.Errorf("%s: begins %v\n%s", kind, executes(p), describe(p))
		}
	}
}

// TestR128_AnAgentThatSpeaksIsNotReplaced: a listing without its CVM is wrong.
func TestR128_AnAgentThatSpeaksIsNotReplaced(t *testing.T) {
	f := heals(3, "none")
	f.spec.AutoHealing.Replace = group.ReplaceAuto
	f.obs.Slots[1].Instance = nil
	f.rec.Slots[1].MissedSince = f.now.Add(-time.Hour)
	wantExecutes(t, f.plan())
}

// TestR136_AMemberWithTheLastCopyIsNotReplaced: the member with the last copy of a database is not replaced.
func TestR136_AMemberWithTheLastCopyIsNotReplaced(t *testing.T) {
	f := heals(2, "patroni").gone(1, time.Hour)
	f.spec.AutoHealing.Replace = group.ReplaceAuto
	wantExecutes(t, f.plan(), "REPLACE db-1")
	f.lagging(0, 10)
	wantHeld(t, f.plan(), "db-1", HoldNoSource)
}

// TestR117_OneAtATimeIsHealed: only one member of the group is healed at a time.
func TestR117_OneAtATimeIsHealed(t *testing.T) {
	f := heals(5, "none").failing(1, "ready").failing(2, "ready")
	p := f.plan()
	wantExecutes(t, p) // two unhealthy members of a group may share the cause
	wantHeld(t, p, "db-2", HoldHealStorm)
	for _, i := range []int{1, 2} {
		f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince = time.Time{}, f.now.Add(-unwellFor)
	}
	p = f.plan()
	wantExecutes(t, p, "RESTART db-2")
	wantHeld(t, p, "db-1", HoldHealInProgress)
	f.op(2, operation.Booting, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout = operation.Restart, operation.ActorHealing, ""
	})
	wantHeld(t, f.plan(), "db-1", HoldHealInProgress)
}

// TestR120_ASplitIsNotHealed: when many agents of the fleet are silent, one silent member a minute is restarted.
// While a third of the fleet is silent, silence does not count.
func TestR120_ASplitIsNotHealed(t *testing.T) {
	f := heals(3, "none")
	f.silent(1, f.now.Add(-6*time.Minute))
	f.obs.Fleet = Fleet{Expected: 100, Heard: 89}
	f.obs.Fleet.RepairedAt = f.now.Add(-unwellFor + time.Second)
	wantHeld(t, f.plan(), "db-1", HoldHealStorm) // many are silent: one a minute
	f.obs.Fleet.RepairedAt = f.now.Add(-unwellFor)
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.obs.Fleet.Silences = nil
	f.obs.Fleet.Heard = 66
	p := f.plan()
	wantExecutes(t, p)
	if !p.Slots[1].SilenceFrom.Equal(f.now) {
		t.Fatalf("silence counts from %s", p.Slots[1].SilenceFrom)
	}
	// After the split, the silence of a member counts from zero.
	f.rec.Slots[1], f.obs.Fleet.Heard = p.Slots[1], 99
	wantExecutes(t, f.plan())
	f.rec.Slots[1].SilenceFrom = f.now.Add(-f.t.LostAfter)
	wantExecutes(t, f.plan(), "RESTART db-1")
}

// TestHealingIsCalledOffWhereItIsNotNeededAnyMore: removed healing and a recovered member cancel the step.
func TestHealingIsCalledOffWhereItIsNotNeededAnyMore(t *testing.T) {
	heal := func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.Way.SkipDrain, op.Before.Unavailable = operation.Restart, operation.ActorHealing, "", true, true
	}
	f := heals(3, "none").stopped(1)
	f.op(1, operation.Drained, heal)
	if facts := f.facts(f.rec.Operations[0]); facts.Unwanted != "" || !facts.Safe {
		t.Fatalf("unwanted: %q, unsafe: %q", facts.Unwanted, facts.SafeReason)
	}
	f.obs.Pause = &Override{}
	if facts := f.facts(f.rec.Operations[0]); facts.Paused {
		t.Error("a pause stops healing")
	}
	f.spec.AutoHealing = nil
	if facts := f.facts(f.rec.Operations[0]); facts.Unwanted == "" {
		t.Error("wanted though auto_healing_policies was removed")
	}
	f = heals(3, "none")
	f.op(1, operation.Drained, heal)
	if facts := f.facts(f.rec.Operations[0]); facts.Unwanted == "" {
		t.Error("wanted though the slot is well")
	}
}

// TestR115_AGuestThatHangsIsNotAskedTwice: force follows a CVM restart of this outage that brought no boot, where
// the CVM runs. A restart whose boot came, and a restart of a service, are not followed by force.
func TestR115_AGuestThatHangsIsNotAskedTwice(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(op *operation.Operation)
		want bool
	}{
		"no boot came":      {func(*operation.Operation) {}, true},
		"a boot came":       {func(op *operation.Operation) { op.Entered[operation.Joining] = op.Times.Created }, false},
		"it was refused":    {func(op *operation.Operation) { op.Failure.Cause = operation.CauseRefused }, false},
		"never called":      {func(op *operation.Operation) { op.Call.Number = 0 }, false},
		"a service's":       {func(op *operation.Operation) { op.Way.Service = "app" }, false},
		"an earlier outage": {func(op *operation.Operation) { op.Times.Created = epoch }, false},
	} {
		f := heals(3, "none").silent(1, epoch.Add(24*time.Hour-30*time.Minute)).tried(1, 1, 10*time.Minute)
		f.op(1, operation.Failed, func(op *operation.Operation) {
			op.Kind, op.Actor, op.Rollout, op.Call.Number, op.Failure.Cause = operation.Restart, operation.ActorHealing, "", 1, operation.CauseDeadline
			op.To, op.Entered = f.spec.Revision(), operation.PhaseTimes{}
			op.Times.Created, op.Times.Ended = f.now.Add(-20*time.Minute), f.now.Add(-10*time.Minute)
			c.edit(op)
		})
		p := f.plan()
		a := actionOf(t, p, "db-1")
		op, ok := p.Begin(a, 3, f.now)
		if !ok || (op.Way.Mode == operation.ModeForce) != c.want {
			t.Errorf("%s: %t, force %t: %+v", name, ok, (op.Way.Mode == operation.ModeForce), a)
		}
		if c.want {
			at := f.obs.Slots[1].Admission.AdmittedAt
			f.obs.Slots[1].Admission.AdmittedAt = op.Times.Created.Add(-time.Minute) // late, after the deadline
			if a := actionOf(t, f.plan(), "db-1"); a.Way.Mode == operation.ModeForce {
				t.Errorf("its boot came late, and it is forced: %+v", a)
			}
			f.obs.Slots[1].Admission.AdmittedAt = at
			if a := actionOf(t, f.stopped(1).plan(), "db-1"); a.Way.Mode == operation.ModeForce {
				t.Errorf("what does not run is forced: %+v", a)
			}
		}
	}
}

// TestR113_AMemberThatWaitsToBeListedIsNotDown: the member's workload must not run before the other members list it,
// after any time. The workload has its time to start from then on.
func TestR113_AMemberThatWaitsToBeListedIsNotDown(t *testing.T) {
	f := heals(3, "etcd")
	f.joiner(2)
	f.rec.Slots[2].DownSince = f.now.Add(-2 * time.Hour)
	waits := f.plan().Slots[2]
	f.joiner(2, "db-0", "db-1", "db-2")
	down := f.plan().Slots[2]
	if waits.Slot != "db-2" || !waits.DownSince.IsZero() || down.DownSince.IsZero() {
		t.Errorf("%s waits, down since %s; listed, down since %s", waits.Slot, waits.DownSince, down.DownSince)
	}
}

// TestR112_ASilentCVMWhoseNewBootIsRefusedIsNotRestarted: another start gives the same refusal. Only a proven refusal
// of this CVM, in this outage, counts, and only for as long as the refusal is recent.
func TestR112_ASilentCVMWhoseNewBootIsRefusedIsNotRestarted(t *testing.T) {
	for name, c := range map[string]struct {
		edit     func(f *fixture, r *policy.Refusal)
		restarts bool
	}{
		"refused a moment ago":       {func(*fixture, *policy.Refusal) {}, false},
		"refused by an unproven one": {func(_ *fixture, r *policy.Refusal) { r.Proven = false }, true},
		"another CVM was refused":    {func(_ *fixture, r *policy.Refusal) { r.InstanceID = "i-other" }, true},
		"the admitted Boot itself":   {func(f *fixture, r *policy.Refusal) { r.BootID = f.obs.Slots[1].Admission.BootID }, true},
		"before this outage":         {func(f *fixture, r *policy.Refusal) { r.At = f.rec.Slots[1].UnavailableSince.Add(-time.Second) }, true},
		"as long ago as a loss takes": {func(f *fixture, r *policy.Refusal) {
			r.At = f.now.Add(-f.t.LostAfter)
		}, true},
	} {
		f := heals(3, "none").silent(1, epoch)
		r := &policy.Refusal{Slot: "db-1", BootID: "boot-next", InstanceID: "i-db-1", Code: policy.CodeTCBOutOfDate, Proven: true, At: f.now.Add(-time.Second)}
		c.edit(f, r)
		f.obs.Slots[1].Refusal = r
		got := hasAction(f.plan(), "db-1")
		if got != c.restarts {
			t.Errorf("%s: a restart is planned: %t\n%s", name, got, describe(f.plan()))
		}
	}
}

// TestR112_ACVMThatIsStartingIsLeftAlone, however long its agent is silent.
func TestR112_ACVMThatIsStartingIsLeftAlone(t *testing.T) {
	for status, planned := range map[string]bool{"running": true, "starting": false, "": false, "stopped": true} {
		f := heals(3, "none").silent(1, epoch)
		f.obs.Slots[1].Instance.Status = status
		if got := hasAction(f.plan(), "db-1"); got != planned {
			t.Errorf("%q: a repair is planned: %t\n%s", status, got, describe(f.plan()))
		}
	}
}
