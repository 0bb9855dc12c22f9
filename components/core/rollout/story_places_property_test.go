package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"pgregory.net/rapid"
)

// TestR70_PropertyStoriesOfPlacesAndDomains: with a hard placement and one domain at a time, the same disturbances and
// those of nodes may come in any order. No hard rule is broken at any step, and the order of domains ends no rollout.
func TestR70_PropertyStoriesOfPlacesAndDomains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"consul", "patroni", "none"}).Draw(t, "kind")
		size := rapid.IntRange(3, 5).Draw(t, "size")
		rules := rapid.SampledFrom([]string{"spread node, require", "spread node, max_per 2, require", "spread region, max_per 3", "not_with batch, require"}).Draw(t, "rules")
		s, err := newStory(t, fmt.Sprintf("group db: %d replicas of %s, settle 1m, max_unavailable 2, nodes a@x b@y c@x d@y e@x f@y, %s, by_domain", size, kind, rules))
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 10).Draw(t, "events") {
			if rapid.Bool().Draw(t, "place") {
				s.displace(t)
			} else {
				s.disturb(t)
			}
			for range rapid.IntRange(1, 30).Draw(t, "passes") {
				s.w.now = s.w.now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second)
				s.turn()
				if s.c.dead {
					s.succeed(0)
				}
			}
		}
		for _, n := range s.w.nodes {
			s.one(t, "node "+n.ID+" answers again")
		}
		s.one(t, "group batch has members on e")
		s.calm(t)
		if !s.until(3*time.Hour, func() bool { return s.state() == operation.Complete && s.c.plan.Target == s.revision("D") }) {
			t.Fatalf("not complete: %s\n%s", s.state(), s.told())
		}
	})
}

// displace plays one random event about places.
func (s *story) displace(t *rapid.T) {
	slot := rapid.SampledFrom(s.c.spec.Members()).Draw(t, "slot")
	node := rapid.SampledFrom(s.w.nodes).Draw(t, "node").ID
	lines := []string{
		"node " + node + " does not answer", "node " + node + " answers again", "operator requests replacement of " + slot,
		"group batch has members on " + node, "operator sets by_domain",
	}
	s.one(t, rapid.SampledFrom(lines).Draw(t, "event"))
}
