package rollout

import (
	"encoding/json"
	"math/rand"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"pgregory.net/rapid"
)

// anyFixture is a group in an arbitrary state, not only in sensible states.
func anyFixture(t *rapid.T) *fixture {
	kind := rapid.SampledFrom([]string{"none", "consul", "etcd", "patroni"}).Draw(t, "kind")
	n := rapid.IntRange(1, 7).Draw(t, "size")
	f := newFixture(n, kind)
	f.spec.UpdatePolicy.MaxUnavailableFixed = intp(rapid.IntRange(1, n).Draw(t, "budget"))
	f.spec.UpdatePolicy.ParallelVoters = rapid.Bool().Draw(t, "parallel voters")
	f.spec.UpdatePolicy.Partition = rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "partition")
	if kind != "none" {
		f.lead(rapid.IntRange(0, n-1).Draw(t, "leader"))
	}
	f.want("B").rolling()
	for i := range n {
		disturb(t, f, i)
	}
	if rapid.IntRange(0, 9).Draw(t, "paused") == 0 {
		f.obs.Pause = &Override{}
	}
	f.obs.Platform.Known = rapid.IntRange(0, 9).Draw(t, "complete") != 0
	return f
}

func disturb(t *rapid.T, f *fixture, i int) {
	if rapid.Bool().Draw(t, "updated") {
		f.at(i, "B")
	}
	switch rapid.IntRange(0, 13).Draw(t, "what happened") {
	case 0:
		f.sick(i)
	case 1:
		f.stopped(i)
	case 2:
		f.silent(i, f.now.Add(-time.Duration(rapid.IntRange(0, 600).Draw(t, "silent for"))*time.Second))
	case 3:
		f.lagging(i, 10)
	case 4:
		f.missing(i)
	case 5:
		phase := rapid.SampledFrom([]operation.Phase{operation.Draining, operation.Drained, operation.Acting,
			operation.Booting, operation.Joining, operation.Settling}).Draw(t, "phase")
		f.op(i, phase, nil)
	case 6:
		f.op(i, operation.Failed, func(op *operation.Operation) { op.Failure.Cause, op.Reason = operation.CauseDeadline, "late" })
	case 7:
		f.op(i, operation.Aborted, func(op *operation.Operation) { op.Failure.Cause = operation.CauseHook })
	case 8:
		f.asksFor(rapid.SampledFrom([]RequestKind{RequestRestart, RequestUpdate}).Draw(t, "request"), f.obs.Slots[i].Slot, "q")
	case 9:
		f.obs.Slots[i].Report.MayDisrupt = false
	}
}

func TestR1_PropertyDeterministicUnderShuffling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFixture(t)
		want := planText(t, f)
		shuffle := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		mix := func(n int, swap func(i, j int)) { shuffle.Shuffle(n, swap) }
		mix(len(f.obs.Slots), func(i, j int) { f.obs.Slots[i], f.obs.Slots[j] = f.obs.Slots[j], f.obs.Slots[i] })
		mix(len(f.rec.Slots), func(i, j int) { f.rec.Slots[i], f.rec.Slots[j] = f.rec.Slots[j], f.rec.Slots[i] })
		mix(len(f.rec.Operations), func(i, j int) { f.rec.Operations[i], f.rec.Operations[j] = f.rec.Operations[j], f.rec.Operations[i] })
		if got := planText(t, f); got != want {
			t.Fatalf("got %s\nwant %s", got, want)
		}
	})
}

func planText(t *rapid.T, f *fixture) string {
	text, err := json.Marshal(f.plan())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestR2_PropertyExecuteMeansNoHoldsAndHeldMeansSome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, a := range anyFixture(t).plan().Actions {
			if a.Execute == (len(a.Holds) > 0) {
				t.Fatalf("%s %s: execute %t, holds %v", a.Kind, a.Slot, a.Execute, a.Holds)
			}
			for _, h := range a.Holds {
				if h.Predicate == "" || h.Message == "" {
					t.Fatalf("%s: hold %+v explains nothing", a.Slot, h)
				}
			}
		}
	})
}

func TestR21_PropertyNeverMoreDisruptedThanTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFixture(t)
		p := f.plan()
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		u, grew := 0, false
		for _, m := range w.members {
			begins := slices.ContainsFunc(p.Actions, func(a Action) bool {
				return a.Slot == m.slot && a.Execute && a.Operation == "" && a.Kind != operation.Create
			})
			if m.unavailable() || begins {
				u++
			}
			grew = grew || begins && !m.unavailable()
		}
		if grew && u > group.MaxUnavailable(f.spec) {
			t.Fatalf("U grew to %d, budget %d\n%s", u, group.MaxUnavailable(f.spec), describe(p))
		}
	})
}

// TestR44_OPS01_PropertyNeverBreaksTheMajority: for any begun steps, a majority of the known healthy voters stays. The
// exception is a set that could spare none, with the operator's permission.
func TestR44_OPS01_PropertyNeverBreaksTheMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFixture(t)
		p := f.plan()
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		v := len(w.view.voters)
		if !w.view.voting || v < 3 {
			return
		}
		left, hurt := 0, false
		for _, m := range w.members {
			if !w.view.healthy[m.slot] || m.open != nil {
				continue
			}
			if slices.Contains(executes(p), "UPDATE "+m.slot) || slices.Contains(executes(p), "RESTART "+m.slot) {
				hurt = true
				continue
			}
			left++
		}
		if hurt && left < group.Quorum(v) {
			t.Fatalf("%d of %d healthy voters are left\n%s", left, v, describe(p))
		}
	})
}

// TestR28_PropertyABrokenSlotIsNeverStarvedByHealthyOnes: a broken outdated Slot that can be updated alone is not held
// by healthy Slots.
func TestR28_PropertyABrokenSlotIsNeverStarvedByHealthyOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFixture(t)
		f.obs.Requests = nil // a Slot that an operator names goes first
		p := f.plan()
		for _, a := range p.Actions {
			if a.Class != ClassBroken || a.Execute {
				continue
			}
			// A member that may serve costs budget like a healthy one.
			w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
			if !w.find(a.Slot).condition.mayServe() && a.HeldBy(HoldMaxUnavailable) {
				t.Fatalf("%s is down and outdated and held by the budget\n%s", a.Slot, describe(p))
			}
			healthyFirst := slices.ContainsFunc(p.Actions, func(b Action) bool {
				return b.Operation == "" && b.Execute && b.Class > ClassBroken && b.Kind == operation.Update
			})
			inStep := slices.ContainsFunc(p.Actions, func(b Action) bool { return b.Operation != "" })
			brokenFirst := slices.ContainsFunc(p.Actions, func(b Action) bool { return b.Execute && b.Class == ClassBroken })
			cap := a.HeldBy(HoldVoterCap)
			if healthyFirst && cap && !inStep && !brokenFirst {
				t.Fatalf("%s waits for a healthy one\n%s", a.Slot, describe(p))
			}
		}
	})
}

func TestR36_PropertyAtMostOneVoterInAStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFixture(t)
		f.spec.UpdatePolicy.ParallelVoters = false
		p := f.plan()
		w := newWorld(f.spec, f.rec, f.obs, f.now, f.t)
		inStep, begun := 0, 0
		for _, m := range w.members {
			if m.open != nil && w.voter(m) {
				inStep++
			}
			if w.voter(m) && (slices.Contains(executes(p), "UPDATE "+m.slot) || slices.Contains(executes(p), "RESTART "+m.slot)) {
				begun++
			}
		}
		if begun > 1 || begun == 1 && inStep > 0 {
			t.Fatalf("%d voters begin a step while %d are in one\n%s", begun, inStep, describe(p))
		}
	})
}

func TestR26_PropertyBlindBeginsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFixture(t)
		f.blind("the platform")
		if got := executes(f.plan()); len(got) > 0 {
			t.Fatalf("begins %v", got)
		}
	})
}

// TestR50_PropertyABegunStepIsSafeAtOnce: for steps of this pass, the precommit check is never more permissive than the
// preflight check.
func TestR50_PropertyABegunStepIsSafeAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFixture(t)
		p := f.plan()
		for _, a := range p.Actions {
			op, ok := p.Begin(a, 1, f.now)
			if !ok || a.Retarget != nil {
				continue
			}
			g := *f
			g.rec.Operations = append(slices.Clone(f.rec.Operations), op)
			g.rec.Rollout = p.Rollout
			facts := g.facts(op)
			leads := a.Transfer != nil // the member must hand over first
			if !facts.Safe && !leads && facts.SafeReason != "" && len(executes(f.plan())) == 1 {
				t.Fatalf("%s %s is begun and not safe: %s\n%s", a.Kind, a.Slot, facts.SafeReason, describe(p))
			}
			if facts.Unwanted != "" {
				t.Fatalf("%s %s is begun and not wanted: %s\n%s", a.Kind, a.Slot, facts.Unwanted, describe(p))
			}
		}
	})
}
