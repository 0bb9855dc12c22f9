package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"pgregory.net/rapid"
)

func deployed(t testingT, n int, kind string) *model {
	t.Helper()
	m := newModel(t, testSpec(n, kind))
	m.want("A")
	p := m.runUntil(operation.Complete, time.Hour)
	if p.Stable != p.Target || p.Status.Available != n {
		t.Fatalf("deployed: stable %s target %s\n%s", p.Stable, p.Target, describe(p))
	}
	return m
}

func TestSimulationUpdatesEachSlotOnceLeaderLast(t *testing.T) {
	for _, kind := range []string{"consul", "etcd", "patroni"} {
		for _, n := range []int{3, 5} {
			m := deployed(t, n, kind)
			leader := m.leader
			m.want("B")
			p := m.runUntil(operation.Complete, 2*time.Hour)
			if m.transfers != 1 || p.Status.Transfers != 1 {
				t.Errorf("%s %d: %d transfers made, %d in the status, want 1", kind, n, m.transfers, p.Status.Transfers)
			}
			for slot, moves := range m.updates {
				if len(moves) != 1 {
					t.Errorf("%s %d: %s was moved %d times", kind, n, slot, len(moves))
				}
			}
			if len(m.order) != n || m.order[n-1] != leader {
				t.Errorf("%s %d: order %v, want %s last", kind, n, m.order, leader)
			}
			if m.maxDown > 1 {
				t.Errorf("%s %d: %d were down at once", kind, n, m.maxDown)
			}
			if p.Stable != p.Target {
				t.Errorf("%s %d: stable %s is not the target", kind, n, p.Stable)
			}
		}
	}
}

func TestSimulationWithoutRolesGoesFromTheHighestOrdinal(t *testing.T) {
	m := deployed(t, 3, "none")
	m.want("B")
	m.runUntil(operation.Complete, time.Hour)
	if want := []string{"db-2", "db-1", "db-0"}; !slices.Equal(m.order, want) {
		t.Errorf("order %v, want %v", m.order, want)
	}
}

func TestSimulationSupersedeMidRollout(t *testing.T) {
	for delay := time.Duration(0); delay < 90*time.Second; delay += 7 * time.Second {
		m := deployed(t, 3, "consul")
		leader := m.leader
		m.want("B")
		m.run(delay)
		m.want("C")
		m.runUntil(operation.Complete, 2*time.Hour)
		b, c := revisionOf(m.spec, "B"), revisionOf(m.spec, "C")
		sawB := 0
		for slot, moves := range m.updates {
			if moves[len(moves)-1] != c {
				t.Errorf("delay %s: %s ends at %v", delay, slot, moves)
			}
			if slices.Contains(moves, b) {
				sawB++
			}
		}
		if sawB > 2 || m.transfers > 1 || m.order[len(m.order)-1] != leader {
			t.Errorf("delay %s: %d slots saw B, %d transfers, order %v, leader was %s", delay, sawB, m.transfers, m.order, leader)
		}
	}
}

func TestOPS02_SimulationBrokenTargetStopsAtTheFirstSlotAndACorrectedSpecRollsForward(t *testing.T) {
	for _, kind := range []string{"consul", "patroni", "none"} {
		m := deployed(t, 3, kind)
		a := m.rec.Status.Stable
		m.want("B")
		b := revisionOf(m.spec, "B")
		m.broken[b] = true
		p := m.runUntil(operation.FailedState, 2*time.Hour)
		if p.Stable != a {
			t.Errorf("%s: stable moved to %s", kind, p.Stable)
		}
		p = m.run(30 * time.Minute)
		if len(m.order) != 1 || p.Rollout.State != operation.FailedState {
			t.Errorf("%s: moved %v, state %s; want one slot and FAILED", kind, m.order, p.Rollout.State)
		}
		if !slices.Contains(p.Status.FailedRevisions, b) {
			t.Errorf("%s: failed revisions %v miss %s", kind, p.Status.FailedRevisions, b)
		}
		first := m.order[0]
		m.want("C")
		p = m.runUntil(operation.Complete, 2*time.Hour)
		if m.order[1] != first || len(m.order) != 4 {
			t.Errorf("%s: order %v, want %s again first and each other once", kind, m.order, first)
		}
		if p.Stable != revisionOf(m.spec, "C") {
			t.Errorf("%s: stable is %s", kind, p.Stable)
		}
	}
}

func TestSimulationGoingBackToTheStableRevision(t *testing.T) {
	m := deployed(t, 3, "consul")
	m.want("B")
	m.broken[revisionOf(m.spec, "B")] = true
	m.runUntil(operation.FailedState, 2*time.Hour)
	first := m.order[0]
	m.want("A")
	p := m.runUntil(operation.Complete, 2*time.Hour)
	if !slices.Equal(m.order, []string{first, first}) {
		t.Errorf("order %v, want only %s, twice", m.order, first)
	}
	if p.Rollout.Transfers != 0 {
		t.Errorf("%d transfers", p.Rollout.Transfers)
	}
}

func TestSimulationGoesBackWhileTheSlotStillBoots(t *testing.T) {
	m := deployed(t, 3, "none")
	m.want("B")
	for m.calls < 4 {
		m.run(time.Second)
	}
	m.want("A")
	m.runUntil(operation.Complete, time.Hour)
	a := revisionOf(m.spec, "A")
	if n := m.nodes["db-2"]; n.revision != a || len(m.order) != 2 {
		t.Errorf("db-2 runs %s after %v, want %s after two moves", n.revision, m.order, a)
	}
}

func TestSimulationPauseFinishesTheStepAndResumes(t *testing.T) {
	m := deployed(t, 3, "consul")
	m.want("B")
	for m.calls < 4 {
		m.run(time.Second)
	}
	m.paused = true
	p := m.run(time.Hour)
	if len(m.order) != 1 || p.Rollout.State != operation.PausedState || p.Status.Available != 3 {
		t.Fatalf("paused: moved %v\n%s", m.order, describe(p))
	}
	m.paused = false
	m.runUntil(operation.Complete, 2*time.Hour)
	if len(m.order) != 3 {
		t.Errorf("moved %v", m.order)
	}
}

func TestSimulationScaleOutAndIn(t *testing.T) {
	m := deployed(t, 3, "none")
	m.spec.Replicas = 5
	m.runUntil(operation.Running, time.Minute)
	p := m.runUntil(operation.Complete, time.Hour)
	if p.Status.Available != 5 || len(m.order) != 0 {
		t.Fatalf("scale-out: %d available, moved %v", p.Status.Available, m.order)
	}
	m.spec.Replicas, m.deleteDisks = 3, []string{"db-3", "db-4"}
	p = m.run(10 * time.Minute)
	if len(m.nodes) != 3 || len(p.Slots) != 3 {
		t.Errorf("scale-in: %d CVMs and %d records left, want 3", len(m.nodes), len(p.Slots))
	}
}

// Whatever specs, failures, lost answers and changes of leader come: no call takes
// down a member that could not be spared, no rollout transfers twice, and once it
// is quiet and the spec is good, the rollout completes.
func TestR70_PropertySimulationOfEverythingAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"consul", "patroni", "none"}).Draw(t, "kind")
		m := deployed(t, rapid.SampledFrom([]int{3, 3, 4, 5}).Draw(t, "size"), kind)
		bad := rapid.SampledFrom([]string{"", "B", "C"}).Draw(t, "bad revision")
		m.broken[revisionOf(m.spec, bad)] = bad != ""
		m.lose = func() string { return rapid.SampledFrom([]string{"", "", "answer", "request"}).Draw(t, "lost") }
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			disturbModel(t, m)
			for range rapid.IntRange(1, 40).Draw(t, "passes") {
				p := m.pass()
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second)
				if m.harmed != "" || p.Rollout.Transfers > 1 {
					t.Fatalf("%s; %d transfers\n%s", m.harmed, p.Rollout.Transfers, describe(p))
				}
			}
		}
		m.lose, m.paused = nil, false
		m.want("D")
		if p := m.runUntil(operation.Complete, 6*time.Hour); m.harmed != "" || p.Stable != revisionOf(m.spec, "D") {
			t.Fatalf("%s; stable %s", m.harmed, p.Stable)
		}
	})
}

func disturbModel(t *rapid.T, m *model) {
	switch rapid.SampledFrom([]string{"spec", "spec", "reboot", "leader", "pause", "election"}).Draw(t, "event") {
	case "spec":
		m.want(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "revision"))
	case "reboot": // by itself
		slot := rapid.SampledFrom(m.spec.Members()).Draw(t, "slot")
		if n := m.nodes[slot]; n != nil && m.up(n) {
			n.boots++
			n.boot, n.bootAt, n.drained = fmt.Sprintf("boot-%s-%d", slot, n.boots), m.now.Add(bootTime), map[string]operation.StepReport{}
		}
	case "leader": // the coordinator's process died: what it remembered is gone
		m.term++
		m.answers = map[string]*operation.CallResult{}
	case "pause":
		m.paused = !m.paused
	case "election":
		if n := m.nodes[m.leader]; n != nil {
			m.leader = ""
		}
	}
}
