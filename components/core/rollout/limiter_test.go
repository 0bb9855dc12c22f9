package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// TestR117_TheRateOfRepairsFollowsTheShareOfTheIll, of the group and of the cluster.
func TestR117_TheRateOfRepairsFollowsTheShareOfTheIll(t *testing.T) {
	for name, c := range map[string]struct {
		l              limiter
		group, cluster time.Duration
	}{
		"nothing is known":            {limiter{}, 0, 0},
		"one of three":                {limiter{group: share{1, 3}, cluster: share{1, 3}}, 0, 0},
		"two of five":                 {limiter{group: share{2, 5}, cluster: share{}}, unwellFor, 0},
		"half of a group":             {limiter{group: share{2, 4}}, unwellFor, 0},
		"more than half":              {limiter{group: share{3, 5}}, paceMost, 0},
		"both of two":                 {limiter{group: share{2, 2}}, unwellFor, 0},
		"the only one":                {limiter{group: share{1, 1}}, 0, 0},
		"few of a large cluster":      {limiter{group: share{1, 3}, cluster: share{3, 30}}, 0, paceFew},
		"more than a tenth":           {limiter{group: share{1, 3}, cluster: share{4, 30}}, 0, unwellFor},
		"two of a small cluster":      {limiter{group: share{1, 3}, cluster: share{2, 6}}, 0, unwellFor},
		"a third silent together":     {limiter{group: share{1, 3}, cluster: share{10, 30}, dark: true}, 0, paceMost},
		"a group and a whole cluster": {limiter{group: share{3, 3}, cluster: share{30, 30}}, paceMost, unwellFor},
		"two of four that vote":       {limiter{group: share{2, 4}, noQuorum: true}, paceMost, 0},
		"one, without a quorum":       {limiter{group: share{1, 2}, noQuorum: true}, 0, 0},
	} {
		group, cluster, why := c.l.pace()
		if group != c.group || cluster != c.cluster || (why == "") != (group == 0 && cluster <= paceFew) {
			t.Errorf("%s: %s and %s (%s), want %s and %s", name, group, cluster, why, c.group, c.cluster)
		}
	}
}

// TestR117_RepairsGoOnAtTheRate: for any shares, the repairs of a group continue. The first repair begins when the
// outage is as old as the rate demands. Two repairs of the cluster never fall within its interval, even if groups are
// planned at the same time.
func TestR117_RepairsGoOnAtTheRate(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		groups := 1 + random.IntN(6)
		size := 1 + random.IntN(5)
		all := groups*size + random.IntN(40)
		ills := make([]UnhealthyMember, groups)
		for n := range ills {
			ills[n] = UnhealthyMember{Slot: fmt.Sprintf("g%d-0", n), Since: epoch.Add(time.Duration(random.IntN(30)) * time.Second)}
		}
		slices.SortFunc(ills, UnhealthyMember.compare)
		ill := 1 + random.IntN(size)
		begun, last, repairs := map[string]time.Time{}, time.Time{}, 0
		for now := epoch; now.Before(epoch.Add(2 * time.Hour)); now = now.Add(time.Second) {
			before := slices.Clone(ills) // the state that every group sees at this moment
			seen := last
			for n, one := range before {
				l := limiter{group: share{ill, size}, cluster: share{groups, all}, ahead: n}
				from, _ := l.next(one.Since, begun[one.Slot], seen)
				if now.Before(from) {
					continue
				}
				group, cluster, _ := l.pace()
				if group == 0 && cluster == 0 {
					group = time.Minute // the back-off of the Slot is another rule
				}
				if at, was := begun[one.Slot]; was && now.Sub(at) < group {
					if group != time.Minute || cluster > 0 {
						t.Fatalf("%+v: %s is repaired %s after %s", l, one.Slot, now, at)
					}
					continue
				}
				if !last.IsZero() && now.Sub(last) < cluster {
					t.Fatalf("%+v: the cluster is repaired at %s and %s", l, last, now)
				}
				begun[one.Slot], last = now, now
				repairs++
				at := slices.IndexFunc(ills, func(i UnhealthyMember) bool { return i.Slot == one.Slot })
				ills[at].TriedAt = now
			}
			slices.SortFunc(ills, UnhealthyMember.compare)
		}
		for _, one := range ills {
			if one.TriedAt.IsZero() {
				t.Fatalf("%s of %d groups is never repaired", one.Slot, groups)
			}
		}
	}
}

// TestR119_AStormIsATrial: a fault of most of a group has probably one shared cause. One member is restarted once the
// outage has lasted for the interval, and no other member within the interval. A member that the platform reports as
// down is started at once.
func TestR119_AStormIsATrial(t *testing.T) {
	storm := func(ago time.Duration) *fixture {
		f := heals(5, "none").failing(1, "ready").failing(2, "ready").failing(3, "ready")
		for _, i := range []int{1, 2, 3} {
			f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince = time.Time{}, f.now.Add(-ago)
		}
		return f
	}
	p := storm(paceMost - time.Second).plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-3", HoldHealStorm)
	if h := actionOf(t, p, "db-3").Holds[0]; h.Predicate != HoldHealStorm || !strings.HasSuffix(h.Message, ": cadre instance restart db-3") {
		t.Errorf("%+v", h)
	}
	wantExecutes(t, storm(paceMost).plan(), "RESTART db-3")
	f := storm(paceMost)
	f.tried(3, 1, 0)
	f.rec.Slots[3].Heals.RatedAt = f.now.Add(-paceMost + time.Second)
	p = f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-2", HoldHealStorm)
	wantExecutes(t, storm(0).stopped(1).plan(), "RESTART db-1")
	step := storm(unwellFor)
	step.op(1, operation.Booting, func(*operation.Operation) {})
	for _, h := range actionOf(t, step.plan(), "db-3").Holds {
		if h.Predicate == HoldHealStorm {
			t.Errorf("a member in a step counts as ill: %+v", h)
		}
	}
}

// TestR117_TheClusterHasOneRate: members of many groups fail at the same time, for example when a shared service
// fails. Their boots succeed, so only the number of faults shows it.
func TestR117_TheClusterHasOneRate(t *testing.T) {
	ill := func(ago time.Duration, others int) *fixture {
		f := heals(3, "none").failing(1, "ready")
		since := f.now.Add(-ago)
		f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, since
		f.obs.Fleet = Fleet{Expected: 30, Heard: 30, Unhealthy: []UnhealthyMember{{Slot: "db-1", Since: since}}}
		for n := range others {
			f.obs.Fleet.Unhealthy = append(f.obs.Fleet.Unhealthy, UnhealthyMember{Slot: fmt.Sprintf("a-%d", n), Since: since})
		}
		return f
	}
	wantHeld(t, ill(paceFew-time.Second, 0).plan(), "db-1", HoldHealBackoff) // other members may not be recorded yet
	wantExecutes(t, ill(paceFew, 0).plan(), "RESTART db-1")
	alone := ill(0, 0)
	alone.obs.Fleet.Expected = darkFrom - 1
	wantExecutes(t, alone.plan(), "RESTART db-1")
	turn := unwellFor + 3*paceFew
	wantHeld(t, ill(turn-time.Second, 3).plan(), "db-1", HoldHealStorm)
	f := ill(turn, 3)
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.obs.Fleet.RepairedAt = f.now.Add(-unwellFor)
	wantHeld(t, f.plan(), "db-1", HoldHealStorm)
	wantExecutes(t, ill(0, 3).stopped(1).plan(), "RESTART db-1") // the start takes nothing away
}

// TestR117_SilentMembersGoInTurn: eight of thirty agents stop reporting together, each in another group. Their groups
// are planned at the same time, and all see the same last repair.
func TestR117_SilentMembersGoInTurn(t *testing.T) {
	begun := 0
	for n := range 8 {
		f := heals(3, "none")
		since := f.now.Add(-f.t.LostAfter - unwellFor)
		f.silent(1, since)
		f.obs.Fleet = Fleet{Expected: 30, Heard: 22, Unhealthy: []UnhealthyMember{{Slot: "db-1", Since: since}}}
		for other := range 7 {
			slot := fmt.Sprintf("z-%d", other)
			if other < n {
				slot = fmt.Sprintf("a-%d", other)
			}
			f.obs.Fleet.Silences = append(f.obs.Fleet.Silences, since)
			f.obs.Fleet.Unhealthy = append(f.obs.Fleet.Unhealthy, UnhealthyMember{Slot: slot, Since: since})
		}
		f.obs.Fleet.RepairedAt = f.now.Add(-unwellFor)
		begun += len(executes(f.plan()))
	}
	if begun != 1 {
		t.Errorf("%d are restarted in the same moment", begun)
	}
}

// TestR117_StartsTakeNoTurn: two CVMs that never boot are started repeatedly. A third member with a failing check is
// repaired anyway, in the group and elsewhere in the cluster.
func TestR117_StartsTakeNoTurn(t *testing.T) {
	f := heals(5, "none").stopped(1).stopped(2).failing(3, "ready")
	five := 5
	f.spec.UpdatePolicy.MaxUnavailableFixed = &five
	for _, i := range []int{1, 2, 3} {
		f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince = time.Time{}, f.now.Add(-paceMost)
	}
	p := f.plan()
	wantExecutes(t, p, "RESTART db-2", "RESTART db-1")
	for _, a := range p.Actions {
		if a.Execute {
			p.Begin(a, 1, f.now)
		}
	}
	f.rec.Slots = p.Slots // the starts failed at once
	wantExecutes(t, f.plan(), "RESTART db-3")
	if at := f.plan(); !at.Slots[1].Heals.RatedAt.IsZero() {
		t.Errorf("a start is rated: %+v", at.Slots[1].Heals)
	}
}

// TestR119_AfterAStormTheOthersHaveTheirTimeAgain: a member that is still unhealthy a minute after others recovered is
// repaired. A member that a step brought back does not count as recovered from an outage.
func TestR119_AfterAStormTheOthersHaveTheirTimeAgain(t *testing.T) {
	f := heals(5, "none").failing(1, "ready")
	for _, i := range []int{2, 3} {
		f.rec.Slots[i].AvailableSince = f.now.Add(-group.MinReady(f.spec) - unwellFor + time.Second)
	}
	p := f.plan()
	wantHeld(t, p, "db-1", HoldHealStorm)
	if want := f.now.Add(time.Second); !p.Clock.Equal(want) {
		t.Errorf("looks again at %s, want %s", p.Clock, want)
	}
	back := f.rec.Slots
	f.rec.Operations = nil
	for _, i := range []int{2, 3} {
		f.op(i, operation.Done, func(op *operation.Operation) {
			if op.Times.Ended = f.now; i == 2 {
				op.Kind, op.Actor, op.Rollout = operation.Restart, operation.ActorHealing, ""
			}
		})
	}
	wantExecutes(t, f.plan(), "RESTART db-1")
	f.rec.Operations, f.rec.Slots = nil, back
	for _, i := range []int{2, 3} {
		f.rec.Slots[i].AvailableSince = f.now.Add(-group.MinReady(f.spec) - unwellFor)
	}
	wantExecutes(t, f.plan(), "RESTART db-1")
}

// TestR119_TheEndOfASplitRestartsNoMember whose agent is about to report too: most of a small cluster did not report
// for an hour, and the first agent is back.
func TestR119_TheEndOfASplitRestartsNoMember(t *testing.T) {
	f := heals(5, "none")
	for _, i := range []int{1, 2} {
		f.silent(i, f.now.Add(-time.Hour))
	}
	f.rec.Slots[3].AvailableSince = f.now.Add(-group.MinReady(f.spec))
	wantHeld(t, f.plan(), "db-2", HoldHealStorm)
	f.rec.Slots[3].AvailableSince = f.now.Add(-group.MinReady(f.spec) - unwellFor)
	wantExecutes(t, f.plan(), "RESTART db-2")
}

// TestR119_AQuorumThatOneMemberLostIsGivenBackAtOnce: the only voter hangs, or one of two voters, where the other
// voter only has no leader. If another voter is unhealthy too, a repair is a trial.
func TestR119_AQuorumThatOneMemberLostIsGivenBackAtOnce(t *testing.T) {
	hung := func(n int) *fixture {
		f := heals(n, "etcd").sick(0)
		f.rec.Slots[0].DownSince = f.now.Add(-time.Hour)
		for i := range n {
			f.rec.Slots[i].AvailableSince, f.rec.Slots[i].UnavailableSince = time.Time{}, f.now.Add(-2*unwellFor)
			if r := f.obs.Slots[i].Report; i > 0 {
				r.Role, r.Leader, r.MemberReady = RoleFollower, "", false
			}
		}
		return f
	}
	for n := 1; n <= 4; n++ {
		wantExecutes(t, hung(n).plan(), "RESTART db-0")
	}
	f := hung(2)
	f.silent(1, f.now.Add(-time.Minute))
	wantHeld(t, f.plan(), "db-0", HoldHealStorm)
	f = hung(4).sick(1)
	f.rec.Slots[1].DownSince = f.now.Add(-time.Hour)
	p := f.plan()
	wantExecutes(t, p)
	wantHeld(t, p, "db-0", HoldHealStorm)
	wantHeld(t, p, "db-1", HoldHealStorm)
}

// TestR122_AnOutageSpendsNoAttempts and costs no disk: CVMs of one or several groups are started in vain while the key
// service is away. Once the other CVMs are back, the last CVM is started again. It keeps its disk and its attempts.
func TestR122_AnOutageSpendsNoAttempts(t *testing.T) {
	for name, away := range map[string]func(f *fixture){
		"of one group": func(f *fixture) { f.stopped(2) },
		"of two groups": func(f *fixture) {
			f.obs.Fleet = Fleet{Expected: 28, Heard: 28, Down: 2, Downs: [][]time.Time{{f.now.Add(-time.Minute)}, {f.now}}}
		},
	} {
		for _, replace := range []string{group.ReplaceAuto, group.ReplaceAsk} {
			f := heals(5, "none").stopped(1)
			f.spec.AutoHealing.Replace = replace
			f.rec.Slots[1].AvailableSince, f.rec.Slots[1].UnavailableSince = time.Time{}, f.now
			start := func() operation.Operation {
				t.Helper()
				p := f.plan()
				a := actionOf(t, p, "db-1")
				op, ok := p.Begin(a, 1, f.now)
				if !a.Execute || !ok || op.Kind != operation.Restart {
					t.Fatalf("%s: %+v", name, a)
				}
				op.Phase, op.Failure.Cause, op.Call.Number = operation.Failed, operation.CauseBootError, 1
				f.rec.Slots[1] = p.Slots[1]
				f.rec.Slots[1].Heals = op.HealsAfter(p.Slots[1].Heals)
				f.now = f.now.Add(maxHealWait)
				f.obs.At = f.now
				for i := range f.obs.Slots {
					if r := f.obs.Slots[i].Report; r != nil {
						r.ReceivedAt, f.rec.Slots[i].AvailableSince = f.now, epoch
					}
				}
				return op
			}
			report := f.obs.Slots[2].Report
			away(f)
			for range 12 {
				if op := start(); !op.Before.Shared {
					t.Fatalf("%s: %+v", name, op.Before)
				}
			}
			f.obs.Slots[2].Instance.Status, f.obs.Slots[2].Report, f.obs.Fleet = "running", report, Fleet{}
			report.ReceivedAt = f.now
			f.rec.Slots[2].AvailableSince, f.rec.Slots[2].UnavailableSince = epoch, time.Time{}
			limit := group.MaxAttempts(f.spec)
			if replace == group.ReplaceAsk {
				limit *= 2
			}
			for range limit {
				if op := start(); op.Before.Shared {
					t.Fatalf("%s: alone, and %+v", name, op.Before)
				}
			}
			if a := actionOf(t, f.plan(), "db-1"); replace == group.ReplaceAuto && a.Kind != operation.Replace {
				t.Errorf("%s: %+v", name, a)
			} else if replace == group.ReplaceAsk && !a.HeldBy(HoldQuarantined) {
				t.Errorf("%s: %+v", name, a)
			}
		}
	}
}

// TestR122_AGuestThatShowsNoBootSpendsNoAttempts: the platform reports that the guest runs, and a restart showed that
// nothing serves there. While other members failed at the same time, further restarts are not counted, and follow the
// limiter's rate.
func TestR122_AGuestThatShowsNoBootSpendsNoAttempts(t *testing.T) {
	f := heals(5, "none").tried(1, 1, time.Hour)
	for _, i := range []int{1, 2} {
		f.silent(i, f.now.Add(-2*time.Hour))
	}
	shared := func() bool {
		t.Helper()
		a := actionOf(t, f.plan(), "db-1")
		if a.Actor != operation.ActorHealing || a.Kind != operation.Restart {
			t.Fatalf("%+v", a)
		}
		return a.Before.Shared
	}
	if shared() {
		t.Error("a silent member may serve, and its restarts are not counted")
	}
	f.op(1, operation.Failed, func(op *operation.Operation) {
		op.Kind, op.Actor, op.Rollout, op.Failure.Cause, op.Call.Number = operation.Restart, operation.ActorHealing, "", operation.CauseDeadline, 1
	})
	if !shared() {
		t.Error("a restart that showed no boot is counted while others are silent as well")
	}
}
