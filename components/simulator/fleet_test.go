package simulator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/operation"
	"cadre.dev/raced"
	"cadre.dev/simulator"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// TestEachWordAboutTheFleetHasItsEffect: words about limits, order and the choices of a rollout.
func TestEachWordAboutTheFleetHasItsEffect(t *testing.T) {
	if raced.Enabled {
		t.Skip("these plans start the goroutines of TestEachWordOfAPlanHasItsEffect")
	}
	const one = "seed 1\ncoordinators 1\nheal 6m\nrest 1h\nstill 40m\nmove 0s pg one 3\nmove 1m30s pg two 3"
	const two = "seed 1\ncoordinators 1\nheal 6m\nrest 1h\nstill 40m\nmove 0s pg one 3\nmove 0s app one 3\nmove 1m30s pg two 3\nmove 1m30s app two 3\ngroup pg 3 none"
	const app = "\ngroup app 3 none none"
	const staged = one + "\ngroup pg 3 none none stage "
	for name, test := range map[string]struct {
		plan string
		is   func(trace.Trace) bool
	}{
		"no limits": {two + " none" + app, func(out trace.Trace) bool {
			return mostAtOnce(out, operation.Update) == 2 && mostAtOnce(out, operation.Create) > 1
		}},
		"limit of steps": {two + " none" + app + "\nlimits 0s 1 0 0", func(out trace.Trace) bool {
			return mostAtOnce(out, operation.Update) == 1 && !inOneGo(updates(out), "pg") && !inOneGo(updates(out), "app")
		}},
		"limit of rollouts": {two + " none" + app + "\nlimits 0s 0 1 0", func(out trace.Trace) bool {
			return inOneGo(updates(out), "app") || inOneGo(updates(out), "pg")
		}},
		"limit of creations": {two + " none" + app + "\nlimits 0s 0 0 1", func(out trace.Trace) bool {
			return mostAtOnce(out, operation.Create) == 1 && mostAtOnce(out, operation.Update) == 2
		}},
		"limits hold no repair": {strings.Replace(strings.Replace(two, "heal 6m", "heal 12m", 1), "move 1m30s pg two 3\nmove 1m30s app two 3", "move 1m30s app ill 3\nmove 11m app one 3", 1) + " auto" + app + " deadline 8m\nlimits 0s 1 1 1\nfault 2m halt pg-0 0s 0s", func(out trace.Trace) bool {
			failed := slices.IndexFunc(out, func(e trace.Event) bool { return e.Operation != nil && e.Operation.Phase == operation.Failed })
			served := slices.IndexFunc(out, func(e trace.Event) bool { return e.Kind == trace.Served && e.Slot == "pg-0" && e.At > 2*time.Minute })
			return failed > 0 && out[failed].At > 9*time.Minute && served > 0 && out[served].At < 3*time.Minute
		}},
		"limits that are removed": {two + " none" + app + "\nlimits 0s 1 0 0\nlimits 1m 0 0 0", func(out trace.Trace) bool { return mostAtOnce(out, operation.Update) == 2 }},
		"priority": {two + " none priority 90" + app + "\nlimits 0s 1 0 0", func(out trace.Trace) bool {
			begun := updates(out)
			return len(begun) == 6 && inOneGo(begun[min(1, len(begun)):], "pg") // the first step may be the other group's
		}},
		"after": {two + " none" + app + " after pg", func(out trace.Trace) bool {
			return inOneGo(updates(out), "pg") && mostAtOnce(out, operation.Update) == 1 && firstOf(out, "app", operation.Create) > firstOf(out, "pg", operation.Create)+5*time.Second
		}},
		"override-after": {two + " none" + app + " after pg\nfault 1m25s pause pg 4m 0s\nfault 2m override-after app 3m 0s", func(out trace.Trace) bool {
			at := firstOf(out, "app", operation.Update)
			return at > 2*time.Minute && at < 3*time.Minute && firstOf(out, "pg", operation.Update) > 5*time.Minute
		}},
		"window": {one + " window 3-20\ngroup pg 3 none none", func(out trace.Trace) bool { return firstOf(out, "pg", operation.Update) >= 3*time.Minute }},
		"override-window": {one + " window 4-20\ngroup pg 3 none none\nfault 2m override-window pg 1m 0s", func(out trace.Trace) bool {
			at := firstOf(out, "pg", operation.Update)
			return at >= 2*time.Minute && at < 3*time.Minute
		}},
		"promote": {staged + "5s promote 1m", func(out trace.Trace) bool {
			begun := updates(out)
			return len(begun) == 3 && begun[1].At-begun[0].At > time.Minute
		}},
		"a stage without promote": {staged + "5s", func(out trace.Trace) bool {
			begun := updates(out)
			return len(begun) == 3 && begun[1].At-begun[0].At < time.Minute
		}},
		"override-bake": {staged + "15m\nfault 2m override-bake pg 2m 0s", func(out trace.Trace) bool {
			begun := updates(out)
			return len(begun) == 3 && begun[1].At > 2*time.Minute && begun[1].At < 3*time.Minute
		}},
		"renew": {one + "\ngroup pg 3 none none surge 1 renew", func(out trace.Trace) bool {
			return effects(cloud.Delete, 90*time.Second, "pg-0", "pg-1", "pg-2", "pg-3")(out) && len(updates(out)) == 1
		}},
		"an extra member that leads goes first": {strings.ReplaceAll(one, " 3", " 1") + "\ngroup pg 1 patroni none surge 1 renew\nfault 1m39s reboot pg-0 0s 0s", func(out trace.Trace) bool {
			leads := slices.ContainsFunc(out, func(e trace.Event) bool { return e.Kind == trace.Led && e.Slot == "pg-1" })
			return leads && effects(cloud.Delete, 90*time.Second, "pg-0", "pg-1")(out) && out[len(out)-1].Resting["pg"] == ""
		}},
		"max-failed": {strings.ReplaceAll(one, " 3", " 5") + "\ngroup pg 5 none none percent 40 deadline 2m max-failed 1\nfault 1m31s halt pg-4 0s 0s", func(out trace.Trace) bool {
			return len(updates(out)) == 5 && strings.Contains(out[len(out)-1].Resting["pg"], "PARTITION_REACHED: ")
		}},
	} {
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

// mostAtOnce is the highest number of open Operations of a kind.
func mostAtOnce(out trace.Trace, kind operation.Kind) (most int) {
	open := map[string]bool{}
	for _, e := range out {
		if op := e.Operation; op != nil && op.Kind == kind {
			if open[op.ID] = true; e.Deleted || op.Phase.Ended() {
				delete(open, op.ID)
			}
			most = max(most, len(open))
		}
	}
	return most
}

// inOneGo reports that all updates of the group come before those of other groups.
func inOneGo(all []trace.Event, name string) bool {
	of := func(e trace.Event) bool { return e.Group == name }
	first := slices.IndexFunc(all, func(e trace.Event) bool { return !of(e) })
	return first > 0 && !slices.ContainsFunc(all[first:], of)
}

// firstOf is when the first Operation of a kind is recorded for the group.
func firstOf(out trace.Trace, name string, kind operation.Kind) time.Duration {
	at := slices.IndexFunc(out, func(e trace.Event) bool { return e.Operation != nil && e.Group == name && e.Operation.Kind == kind })
	if at < 0 {
		return 0
	}
	return out[at].At
}
