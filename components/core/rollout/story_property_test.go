package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"pgregory.net/rapid"
)

// TestR70_PropertyStoriesOfEverythingAtOnce: specs, failures, silences, lost answers, late effects, clocks and changes
// of leader may come in any order. The invariants of story_check_test.go hold at every step. Once no event comes and
// the spec is good, the rollout completes.
func TestR70_PropertyStoriesOfEverythingAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"consul", "patroni", "none"}).Draw(t, "kind")
		size := rapid.SampledFrom([]int{3, 3, 4, 5}).Draw(t, "size")
		habit := rapid.SampledFrom([]string{"", "", ", stopping", ", stopping, nodes 2"}).Draw(t, "habit")
		habit += rapid.SampledFrom([]string{"", ", on_failure ROLLBACK, healthy_deadline 1m, progress_deadline 30m"}).Draw(t, "on failure")
		s, err := newStory(t, fmt.Sprintf("group db: %d replicas of %s, settle 1m%s", size, kind, habit))
		if err != nil {
			t.Fatal(err)
		}
		s.drawGates(t)
		s.drawStages(t)
		s.drawTurns(t)
		s.drawWindows(t)
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			s.disturb(t)
			for range rapid.IntRange(1, 30).Draw(t, "passes") {
				s.w.now = s.w.now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second)
				s.turn()
				if s.c.dead {
					s.succeed(0)
				}
				if n := s.c.plan.Status.Transfers; n > 1 {
					t.Fatalf("%d planned transfers in one rollout\n%s", n, s.told())
				}
				if back := s.c.plan.Rollout.Back; back != nil && back.Transfers > 1 {
					t.Fatalf("%d planned transfers in one rollback\n%s", back.Transfers, s.told())
				}
			}
		}
		s.calm(t)
		if !s.until(3*time.Hour, func() bool { return s.state() == operation.Complete && s.c.plan.Target == s.revision("D") }) {
			t.Fatalf("not complete: %s\n%s", s.state(), s.told())
		}
	})
}

// The whole story of a run, as a story file.
func (s *story) told() string {
	if len(s.script) == 0 {
		return ""
	}
	return strings.Join(s.script, "\n") + "\n" + strings.Join(s.peek(), "\n")
}

// one plays a line of a story and records it.
func (s *story) one(t *rapid.T, line string) {
	s.where = line
	s.script = append(s.script, s.stamp()+"  "+line)
	if err := s.happen(line); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

// disturb plays one random event of the stories.
func (s *story) disturb(t *rapid.T) {
	slot := rapid.SampledFrom(s.c.spec.Members()).Draw(t, "slot")
	revision := rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "revision")
	lines := []string{
		"operator wants revision " + revision, "operator wants revision B", "operator wants revision C",
		"operator stops the group", "operator stops the group", "operator starts the group",
		"operator pauses the group", "operator resumes the group", "operator requests restart of " + slot, "operator requests update of " + slot, "operator lets the rollout go on",
		"operator drains " + slot, "operator drains " + slot + " for 1m", "operator undrains " + slot,
		"operator protects " + slot, "operator unprotects " + slot,
		"operator excludes " + slot, "operator excludes " + slot + " from healing for 1m", "operator includes " + slot,
		"operator opens gate alarm", "operator closes gate alarm", "operator closes gate alarm for 1m", "operator opens gate balancer of " + slot,
		"revision B is broken", "revision B works",
		"the platform's list does not answer", "the platform's list answers again",
		"platform answers 500 to the next call of " + slot + ", without effect",
		"platform answers 500 to the next call of " + slot + ", which takes effect",
		"the answer to the next call of " + slot + " is lost",
		"the next call of " + slot + " times out, and its effect shows after 40s",
		"platform refuses the next call of " + slot + ": 409",
		"platform is busy with calls of " + slot + ": 503", "calls of " + slot + " succeed again",
		"hooks of " + slot + " call the drain off: no", "drains of " + slot + " take 20s", "hooks of " + slot + " are content",
		"the leader changes", "the leader changes, its clock is 3m ahead", "the leader changes, its clock is 3m behind",
		"the coordinator will die before its next call", "the coordinator will die after its next call",
	}
	if len(s.c.spec.UpdatePolicy.Stages) > 0 {
		lines = append(lines, s.promote())
	}
	if c := s.w.of(slot); c != nil && c.boot != "" {
		lines = append(lines, slot+" falls silent", slot+" is heard again", slot+" is sick", slot+" recovers",
			slot+" reboots by itself", "the agent of "+slot+" restarts", slot+" lags by 7 bytes", slot+" has caught up",
			slot+" must not be disrupted: a backup runs", slot+" may be disrupted again")
	}
	if s.w.stopFirst {
		lines = append(lines, "the host starts "+slot+" right before its next call to compose", "the host starts "+slot+" right before its next call to compose, unseen",
			"host host-1 dies", "host host-1 does not answer", "host host-1 answers again", "host host-0 dies", "host host-0 answers again",
			"the host starts "+slot+" right before its next call to restart", "the stop call of "+slot+" is without answer", "the compose call of "+slot+" is refused")
	}
	lines = append(lines, turnLines...)
	s.one(t, rapid.SampledFrom(lines).Draw(t, "event"))
}

// calm ends all disturbances.
func (s *story) calm(t *rapid.T) {
	lines := []string{"operator sets stages 0", "group base has finished", "the cluster has no limits", "operator removes the gates", "operator sets window none", "host host-0 answers again", "host host-1 answers again", "operator resumes the group", "operator starts the group", "revision B works", "the platform's list answers again", "the leader changes", "operator wants revision D"}
	for _, slot := range s.c.spec.Members() {
		lines = append(lines, "operator undrains "+slot, "operator unprotects "+slot, "operator includes "+slot, "calls of "+slot+" succeed again", "hooks of "+slot+" are content")
		if c := s.w.of(slot); c != nil {
			lines = append(lines, slot+" is heard again", slot+" recovers", slot+" has caught up", slot+" may be disrupted again")
		}
	}
	for _, line := range slices.Concat(lines) {
		s.one(t, line)
	}
	s.c.dies = ""
}
