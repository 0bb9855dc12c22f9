package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/queue"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ready(minute int) queue.Wait {
	return queue.Wait{Ready: true, Since: start.Add(time.Duration(minute) * time.Minute)}
}

func TestR98_WhoGoesFirst(t *testing.T) {
	groups := []queue.Group{
		{Name: "late", Priority: 50, Place: queue.Place{Step: ready(9)}},
		{Name: "early", Priority: 50, Place: queue.Place{Step: ready(1)}},
		{Name: "urgent", Priority: 90, Place: queue.Place{Step: ready(9)}},
		{Name: "never", Priority: 50, Place: queue.Place{Step: queue.Wait{Ready: true}}},
		{Name: "asks", Priority: 99, Place: queue.Place{Step: queue.Wait{Since: start}}}, // it waits for a person too
	}
	for name, room := range map[string]int{"urgent": 3, "early": 2, "late": 1, "never": 0, "asks": 3} {
		if v := queue.Judge(queue.Limits{Steps: 3}, groups, name).Step; v.Room != room {
			t.Errorf("%s may begin %d steps, want %d: %+v", name, v.Room, room, v)
		}
	}
	v := queue.Judge(queue.Limits{Steps: 3}, groups, "never").Step
	if got, want := v.Text(queue.Limits{Steps: 3}), "the cluster limit steps = 3; number 4 in the queue, after urgent, early, late"; got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
	if got := queue.Next(queue.Limits{Steps: 2}, groups); !slices.Equal(got, []string{"urgent", "early"}) {
		t.Errorf("next are %v", got)
	}
}

func TestR98_AGroupWithoutAPlaceForItsRolloutKeepsNoStep(t *testing.T) {
	limits := queue.Limits{Steps: 1, Rollouts: 1}
	groups := []queue.Group{
		{Name: "holder", Priority: 10, Place: queue.Place{Rollout: true, Step: ready(9)}},
		{Name: "urgent", Priority: 90, Place: queue.Place{Step: ready(1)}},
	}
	if v := queue.Judge(limits, groups, "holder").Step; v.Room != 1 {
		t.Errorf("the group with the place cannot go on: %+v", v)
	}
	v := queue.Judge(limits, groups, "urgent").Step
	if v.Room != 0 || v.Limit != queue.Rollouts || !slices.Equal(v.Users, []string{"holder"}) {
		t.Errorf("urgent: %+v", v)
	}
}

func TestR98_ALowerLimitTakesNothingAway(t *testing.T) {
	groups := []queue.Group{{Name: "a", Steps: 3, Creations: 2, Place: queue.Place{Rollout: true}}, {Name: "b", Place: queue.Place{Step: ready(1), Create: ready(1)}}}
	got := queue.Judge(queue.Limits{Steps: 1, Rollouts: 5, Creations: 1}, groups, "b")
	if got.Step.Room != 0 || got.Step.Limit != queue.Steps || got.Create.Room != 0 || got.Create.Users[0] != "a (2)" {
		t.Errorf("%+v", got)
	}
	if unlimited := queue.Judge(queue.Limits{}, groups, "b"); unlimited.Step.Room < queue.Max || unlimited.Create.Room < queue.Max {
		t.Errorf("without limits: %+v", unlimited)
	}
}

// model is a cluster whose groups obey Judge, with holds and ends at random.
type model struct {
	limits queue.Limits
	groups []queue.Group
	// work is left to do, and held by something else than a limit.
	steps, creations []int
	held             []bool
	now              time.Time
}

// pass is one turn of the leader for a group: it begins the granted work, and records how the group waits.
func (m *model) pass(i int) {
	g := &m.groups[i]
	g.Rollout = g.Rollout && m.steps[i]+g.Steps > 0 && (!m.held[i] || g.Steps > 0)
	wait := func(w queue.Wait, left int, ready bool) queue.Wait {
		switch {
		case left == 0:
			return queue.Wait{}
		case w.Since.IsZero():
			w.Since = m.now
		}
		w.Ready = ready
		return w
	}
	grant := queue.Judge(m.limits, m.groups, g.Name)
	n, c := min(grant.Step.Room, m.steps[i]), min(grant.Create.Room, m.creations[i])
	if m.held[i] {
		n, c = 0, 0
	}
	if n > 0 {
		g.Steps, m.steps[i], g.Rollout, g.Step.Since = g.Steps+n, m.steps[i]-n, true, time.Time{}
	}
	if c > 0 {
		g.Creations, m.creations[i], g.Create.Since = g.Creations+c, m.creations[i]-c, time.Time{}
	}
	g.Step, g.Create = wait(g.Step, m.steps[i], !m.held[i]), wait(g.Create, m.creations[i], !m.held[i])
}

func (m *model) check(t *rapid.T) {
	var steps, rollouts, creations int
	for _, g := range m.groups {
		steps, creations = steps+g.Steps, creations+g.Creations
		if g.Rollout {
			rollouts++
		}
		if g.Steps > 0 && !g.Rollout {
			t.Fatalf("%s has a step and no place for its rollout", g.Name)
		}
	}
	for name, n := range map[queue.Limit]int{queue.Steps: steps, queue.Rollouts: rollouts, queue.Creations: creations} {
		if l := m.limits.Of(name); l > 0 && n > l {
			t.Fatalf("%d %s, and the limit is %d: %+v", n, name, l, m.groups)
		}
	}
}

func TestR98_PropertyLimitsHoldAndNeverDeadlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 3)
		m := &model{limits: queue.Limits{Steps: limit.Draw(t, "steps"), Rollouts: limit.Draw(t, "rollouts"), Creations: limit.Draw(t, "creations")}, now: start}
		for i := range rapid.IntRange(1, 6).Draw(t, "groups") {
			m.groups = append(m.groups, queue.Group{Name: fmt.Sprintf("g%d", i), Priority: 50 + 10*rapid.IntRange(0, 2).Draw(t, "priority")})
			m.steps, m.creations = append(m.steps, rapid.IntRange(0, 4).Draw(t, "work")), append(m.creations, rapid.IntRange(0, 2).Draw(t, "new"))
			m.held = append(m.held, false)
		}
		one := rapid.IntRange(0, len(m.groups)-1)
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			m.now = m.now.Add(time.Second)
			i := one.Draw(t, "group")
			switch rapid.SampledFrom([]string{"pass", "pass", "pass", "end", "hold", "unhold"}).Draw(t, "event") {
			case "end":
				m.groups[i].Steps, m.groups[i].Creations = max(m.groups[i].Steps-1, 0), max(m.groups[i].Creations-1, 0)
			case "hold":
				m.held[i] = true
			case "unhold":
				m.held[i] = false
			default:
				m.pass(i)
			}
			m.check(t)
		}
		// A group that waits for a person, permanently, keeps the others from nothing.
		person := rapid.IntRange(-1, len(m.groups)-1).Draw(t, "person")
		for i := range m.held {
			m.held[i] = i == person
		}
		left := func() (n int) {
			for i := range m.groups {
				if i != person {
					n += m.steps[i] + m.creations[i]
				}
			}
			return n
		}
		for rounds := 0; left() > 0; rounds++ {
			for i := range m.groups {
				m.groups[i].Steps, m.groups[i].Creations = 0, 0
			}
			for range 2 { // the first round may only record the ready groups
				for i := range m.groups {
					m.pass(i)
					m.check(t)
				}
			}
			if rounds > 40 {
				t.Fatalf("nothing goes on: %+v, steps left %v, creations left %v", m.groups, m.steps, m.creations)
			}
		}
	})
}

func TestR98_EveryGroupOfOnePriorityGetsItsTurn(t *testing.T) {
	m := &model{limits: queue.Limits{Steps: 1}, now: start}
	for i := range 5 {
		m.groups = append(m.groups, queue.Group{Name: fmt.Sprintf("g%d", i), Priority: 50})
		m.steps, m.creations, m.held = append(m.steps, 100), append(m.creations, 0), append(m.held, false)
	}
	for turn := range 50 {
		m.now = m.now.Add(time.Minute)
		m.held[3] = turn%2 == 0 // a group whose other holds flap
		for i := range m.groups {
			m.pass(i)
		}
		for i := range m.groups {
			m.groups[i].Steps = 0
		}
		for i := range m.groups {
			m.pass(i)
		}
	}
	for i, left := range m.steps {
		if done := 100 - left; done < 7 {
			t.Errorf("%s made %d of 50 steps: %v", m.groups[i].Name, done, m.steps)
		}
	}
}
