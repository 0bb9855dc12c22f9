package rollout_test

import (
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// mostPasses is how many passes of the leader may write one update with a drain, from its first record to its last.
const mostPasses = 8

// TestAnUpdateTakesFewPasses: each write of an Operation is a transaction, wakes every coordinator and begins a pass.
// Known facts advance an Operation several Phases within one pass.
func TestAnUpdateTakesFewPasses(t *testing.T) {
	for _, line := range []string{"group web: 3 replicas of none", "group pg: 3 replicas of patroni"} {
		s, err := newStory(t, line)
		if err != nil {
			t.Fatal(err)
		}
		clear(s.c.writes)
		s.wants(func(content *group.Template) { content.Compose = storyCompose("B") })
		revision := s.c.spec.Revision()
		if !s.until(time.Hour, func() bool { return s.c.plan.Target == revision && s.state() == operation.Complete }) {
			t.Fatalf("%s: %s", line, s.c.plan.Message)
		}
		if len(s.c.writes) != 3 {
			t.Errorf("%s: operations %v", line, s.c.writes)
		}
		for id, passes := range s.c.writes {
			t.Logf("%s: %d passes wrote %s", line, passes, id)
			if op := s.c.store.operations[id]; passes > mostPasses || op.Phase != operation.Done || op.Entered[operation.Draining].IsZero() {
				t.Errorf("%s: %d passes wrote %s, at most %d may; it is %s", line, passes, id, mostPasses, op.Phase)
			}
		}
	}
}
