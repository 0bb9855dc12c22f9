package simulator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/raced"
	"cadre.dev/simulator"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// TestEachWordOfAPlanHasItsEffect: under the race detector only plans
// that end connections and sessions run: other plans start the same goroutines.
func TestEachWordOfAPlanHasItsEffect(t *testing.T) {
	const upgrade = "seed 1\ncoordinators 1\nheal 6m\nrest 1h\nstill 40m\nmove 0s pg one 3\nmove 1m30s pg two 3"
	const plain = "\ngroup pg 3 none none"
	for name, test := range map[string]struct {
		plan string
		is   func(trace.Trace) bool
	}{
		"size":  {upgrade + " size tdx.large" + plain, calls(cloud.Resize, 3)},
		"image": {upgrade + " image dstack-0.5.8" + plain, calls(cloud.Image, 3)},
		"own": {upgrade + " own pg-1" + plain, func(out trace.Trace) bool {
			return calls(cloud.Resize, 1)(out) && !calls(cloud.Resize, 2)(out)
		}},
		"as it was, without these": {upgrade + plain, func(out trace.Trace) bool {
			return calls(cloud.Update, 3)(out) && !calls(cloud.Resize, 1)(out) && !calls(cloud.Image, 1)(out)
		}},
		"partition": {upgrade + " partition 2" + plain, onlyUpdated("pg-2")},
		"exclude":   {upgrade + " exclude pg-1" + plain, onlyUpdated("pg-2", "pg-0")},
		"pin":       {upgrade + " pin pg-0" + plain, onlyUpdated("pg-2", "pg-1")},
		"pause": {upgrade + plain + "\nfault 1m25s pause pg 2m 0s", func(out trace.Trace) bool {
			begun := updates(out)
			return len(begun) == 3 && begun[0].At > 3*time.Minute
		}},
		"percent": {strings.ReplaceAll(upgrade, " 3", " 5") + "\ngroup pg 5 none none percent 40", func(out trace.Trace) bool {
			begun := updates(out)
			return len(begun) == 5 && begun[1].At-begun[0].At < 2*time.Second
		}},
		"a release that is ill":     {bad(plan.IllRelease), failsOnce},
		"one that is dead":          {bad(plan.DeadRelease), failsOnce},
		"an ill one that goes back": {back(plan.IllRelease), goesBack},
		"a dead one that goes back": {back(plan.DeadRelease), goesBack},
		"boots that take long": {upgrade + plain + "\ntakes boot 1m30s", func(out trace.Trace) bool {
			return slices.Max(gaps(out, trace.Stopped, trace.Served)) > 30*time.Second
		}},
		"boots as before": {upgrade + plain, func(out trace.Trace) bool {
			return slices.Max(gaps(out, trace.Stopped, trace.Served)) < 10*time.Second
		}},
		"lag": {upgrade + "\ngroup pg 3 patroni none\ntakes lag 1m", func(out trace.Trace) bool {
			return slices.Max(gaps(out, trace.Stopped, trace.Served)) > 20*time.Second
		}},
		"election": {upgrade + "\ngroup pg 3 etcd none\ntakes election 30s\nfault 3m30s reboot pg-0 0s 0s\nfault 3m30s reboot pg-1 0s 0s", func(out trace.Trace) bool {
			return slices.Max(leaderless(out)) > 5*time.Second
		}},
		"no election": {upgrade + "\ngroup pg 3 patroni none\nfault 3m30s reboot pg-0 0s 0s", func(out trace.Trace) bool {
			return len(leaderless(out)) == 0 || slices.Max(leaderless(out)) < time.Second
		}},
		"exclude-rollout": {upgrade + plain + "\nfault 1m exclude-rollout pg-1 3m 0s", func(out trace.Trace) bool {
			begun := updates(out)
			return len(begun) == 3 && begun[2].Slot == "pg-1" && begun[1].At < 3*time.Minute && begun[2].At > 4*time.Minute
		}},
		"exclude-healing": {upgrade + "\ngroup pg 3 none auto\nfault 3m exclude-healing pg-1 3m 0s\nfault 3m10s halt pg-1 0s 0s", func(out trace.Trace) bool {
			at := slices.IndexFunc(out, func(e trace.Event) bool { return e.Operation != nil && e.Operation.Actor == operation.ActorHealing })
			return at >= 0 && out[at].At > 6*time.Minute
		}},
		"refuse": {upgrade + plain + "\nfault 1m20s refuse all 2m 0s", func(out trace.Trace) bool {
			refused, last := 0, time.Duration(0)
			for _, e := range out {
				if e.Kind == trace.Answered && e.Outcome == trace.Refused {
					refused, last = refused+1, e.At
				}
			}
			return refused > 1 && last < 3*time.Minute+20*time.Second && calls(cloud.Update, 3)(out)
		}},
		"hide": {upgrade + plain + "\nfault 1m20s hide all 2m 0s", func(out trace.Trace) bool {
			begun := updates(out)
			return len(begun) == 3 && begun[0].At < 2*time.Minute && begun[1].At > 3*time.Minute
		}},
		"busy": {upgrade + plain + "\nodds busy 0.5", func(out trace.Trace) bool {
			return calls(cloud.Update, 3)(out) && slices.ContainsFunc(out, func(e trace.Event) bool {
				return e.Operation != nil && e.Operation.Call.Outcome == operation.OutcomeBusy
			})
		}},
		"cut-store all": {strings.Replace(upgrade, "coordinators 1", "coordinators 3", 1) + plain + "\nfault 1m20s cut-store all 1m30s 0s", func(out trace.Trace) bool {
			return calls(cloud.Update, 3)(out) && !slices.ContainsFunc(out, func(e trace.Event) bool {
				return e.Kind == trace.Committed && e.By != "operator" && e.Term > 0 && e.At > 82*time.Second && e.At < 169*time.Second
			})
		}},
		"floor": {upgrade + plain + "\nfault 1m35s floor pg 0s 0s", func(out trace.Trace) bool {
			return evicted(out, 95*time.Second, "pg-0", "pg-1") && calls(cloud.Update, 3)(out) && out[len(out)-1].Resting["pg"] == ""
		}},
		"a floor above what is asked for again": {upgrade + "\nmove 3m pg one 3" + plain + "\nfault 2m45s floor pg 0s 0s", func(out trace.Trace) bool {
			return len(updates(out)) == 3 && slices.Contains(out[len(out)-1].Waiting["pg"].Holds, rollout.HoldBelowFloor)
		}},
		"revoke": {upgrade + plain + "\nfault 3m revoke pg 1m 0s", func(out trace.Trace) bool {
			return evicted(out, 3*time.Minute, "pg-0", "pg-1", "pg-2") && len(updates(out)) == 3 && out[len(out)-1].Resting["pg"] == ""
		}},
		"withdraw": {upgrade + plain + " approval 5s\nfault 1m45s withdraw pg 1m30s 0s", func(out trace.Trace) bool {
			begun := updates(out)
			return len(begun) == 3 && begun[0].At < 105*time.Second && begun[2].At > 3*time.Minute && out[len(out)-1].Resting["pg"] == ""
		}},
		"a member that the group grows by": {upgrade + "\nmove 2m30s pg two 5" + plain + "\nfault 4m mute pg-4 30s 0s", func(out trace.Trace) bool {
			return slices.ContainsFunc(out, func(e trace.Event) bool { return e.Kind == trace.Muted && e.Slot == "pg-4" })
		}},
	} {
		if raced.Enabled && name != "pause" && name != "cut-store all" && name != "revoke" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := plan.Parse(test.plan)
			if err != nil {
				t.Fatal(err)
			}
			if out, broken := simulator.Judge(t, p); len(broken) > 0 || !test.is(out) {
				t.Errorf("it does not happen, or breaks something: %s", simulator.Explain(p, out, broken))
			}
		})
	}
}

// evicted reports that exactly these Slots were evicted directly after that time.
func evicted(out trace.Trace, after time.Duration, slots ...string) bool {
	var got []string
	for _, e := range out {
		if e.Kind == trace.Stopped && e.Text == "lost its slot" && e.At > after && e.At < after+5*time.Second {
			got = append(got, e.Slot)
		}
	}
	slices.Sort(got)
	return slices.Equal(got, slots)
}

// calls reports that n calls of that verb had their effect.
func calls(verb cloud.Verb, n int) func(trace.Trace) bool {
	return func(out trace.Trace) bool {
		made := 0
		for _, e := range out {
			if e.Kind == trace.Effected && e.Call.Verb == verb {
				made++
			}
		}
		return made >= n
	}
}

// updates are the first records of the updates that take a member away, one of each. A record is
// written again when its reason changes, which depends on the order of simultaneous events.
func updates(out trace.Trace) []trace.Event {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(out), func(e trace.Event) bool {
		if e.Operation == nil || e.Operation.Kind != operation.Update || e.Operation.Phase != operation.Draining || seen[e.Key] {
			return true
		}
		seen[e.Key] = true
		return false
	})
}

// onlyUpdated reports that exactly these Slots were updated, in that order.
func onlyUpdated(slots ...string) func(trace.Trace) bool {
	return func(out trace.Trace) bool {
		var got []string
		for _, e := range updates(out) {
			got = append(got, e.Slot)
		}
		return slices.Equal(got, slots)
	}
}

// gaps are the times from an event of a Slot to its next one of another kind.
func gaps(out trace.Trace, from, to trace.Kind) []time.Duration {
	since, all := map[string]time.Duration{}, []time.Duration{0}
	for _, e := range out {
		switch at, is := since[e.Slot]; {
		case e.Kind == from:
			since[e.Slot] = e.At
		case e.Kind == to && is:
			all = append(all, e.At-at)
			delete(since, e.Slot)
		}
	}
	return all
}

// leaderless are the times in which a workload that was led had no leader.
func leaderless(out trace.Trace) []time.Duration {
	var all []time.Duration
	since := time.Duration(-1)
	for _, e := range out {
		if e.Kind != trace.Led {
			continue
		}
		if e.Slot == "" {
			since = e.At
		} else if since >= 0 {
			all, since = append(all, e.At-since), -1
		}
	}
	return all
}

// bad is a plan in which a group gets that release, and another one later.
func bad(release string) string {
	return "seed 1\ncoordinators 1\nheal 8m\nrest 1h\nstill 40m\nmove 0s pg one 3\nmove 1m30s pg " + release + " 3\nmove 6m pg two 3\ngroup pg 3 none none deadline 2m"
}

// back is bad without a later change, in a group whose failed rollouts go back.
func back(release string) string {
	return strings.Replace(bad(release), "move 6m pg two 3\n", "", 1) + " rollback"
}

// goesBack: one member moves and goes back, and at rest every CVM has the first release again.
func goesBack(out trace.Trace) bool {
	last := out[len(out)-1]
	others := func(e trace.Event) bool { return e.Slot != "pg-2" }
	return !slices.ContainsFunc(updates(out), others) && strings.Contains(last.Resting["pg"], "ROLLED_BACK: rolled back to ") &&
		!slices.ContainsFunc(last.CVMs, func(vm trace.CVM) bool { return vm.Hash != last.CVMs[0].Hash })
}

// failsOnce: a step runs out of time, and no other member is taken away before the next change.
// That change is made all the same.
func failsOnce(out trace.Trace) bool {
	failed, early := 0, 0
	for _, e := range out {
		if e.Operation != nil && e.Operation.Phase == operation.Failed && e.Operation.Failure.Cause == operation.CauseDeadline {
			failed++
		}
	}
	for _, e := range updates(out) {
		if e.At < 6*time.Minute {
			early++
		}
	}
	return failed == 1 && early == 1 && out[len(out)-1].Resting["pg"] == ""
}
