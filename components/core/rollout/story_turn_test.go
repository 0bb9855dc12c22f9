package rollout_test

import (
	"fmt"
	"slices"
	"strconv"

	"cadre.dev/core/operation"
	"cadre.dev/core/queue"
	"cadre.dev/core/rollout"
	"pgregory.net/rapid"
)

// turnEvents concern other groups, and the limits of the cluster.
func turnEvents() []event {
	waits := func(s *story, name, why string) {
		c := s.c
		c.order.Predecessors = append(slices.DeleteFunc(slices.Clone(c.order.Predecessors), func(p rollout.Predecessor) bool { return p.Group == name }),
			rollout.Predecessor{Group: name, Waits: why})
	}
	return []event{
		{"group WORD waits: REST", func(s *story, arg []string) error { waits(s, arg[0], arg[1]); return nil }},
		{"group WORD has finished", func(s *story, arg []string) error { waits(s, arg[0], ""); return nil }},
		{"group WORD follows", func(s *story, arg []string) error { s.c.order.Followers = []string{arg[0]}; return nil }},
		{"group WORD is gone", func(s *story, _ []string) error { s.c.order.Followers = nil; return nil }},
		{"the cluster has N places for WORD, and group WORD uses N", func(s *story, arg []string) error {
			places, _ := strconv.Atoi(arg[0])
			used, _ := strconv.Atoi(arg[3])
			q := &rollout.Queue{}
			other := queue.Group{Name: arg[2], Priority: 50}
			switch limit := queue.Limit(arg[1]); limit {
			case queue.Steps:
				q.Limits.Steps, other.Steps = places, used
				other.Rollout = used > 0
			case queue.Rollouts:
				q.Limits.Rollouts, other.Rollout = places, used > 0
			case queue.Creations:
				q.Limits.Creations, other.Creations = places, used
			default:
				return fmt.Errorf("%s is no limit", limit)
			}
			q.Groups = []queue.Group{other}
			s.c.queue = q
			return nil
		}},
		{"the cluster has no limits", func(s *story, _ []string) error { s.c.queue = nil; return nil }},
	}
}

// inTurn checks R98 and R158 for an Operation while it is recorded: it has a place at the limits of the cluster, and
// waits for no other group.
func (k *checker) inTurn(op operation.Operation) {
	if known, is := k.c.store.operations[op.ID]; k.c.deleting != nil || is && !known.Phase.Ended() {
		return
	}
	limit := rollout.LimitOf(op)
	if limit == queue.Steps && len(k.c.spec.After) > 0 {
		for _, p := range k.c.order.Predecessors {
			if p.Waits != "" {
				k.broke("R158: %s begins, and group %s has not finished: %s", op.ID, p.Group, p.Waits)
			}
		}
	}
	q := k.c.queue
	if q == nil || limit == "" || q.Limits.Of(limit) == 0 {
		return
	}
	n := 1
	for _, g := range q.Groups {
		n += map[queue.Limit]int{queue.Steps: g.Steps, queue.Creations: g.Creations}[limit]
	}
	for _, other := range k.c.store.operations {
		if !other.Phase.Ended() && rollout.LimitOf(other) == limit {
			n++
		}
	}
	if n > q.Limits.Of(limit) {
		k.broke("R98: %s begins as number %d of the %s, and the limit is %d", op.ID, n, limit, q.Limits.Of(limit))
	}
}

// drawTurns gives some runs of the property test a group that they are after.
func (s *story) drawTurns(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "after") == 0 {
		s.one(t, "operator sets after base")
		s.one(t, "group base has finished")
	}
}

// turnLines are the random events of the property test.
var turnLines = []string{
	"group base waits: its rollout is RUNNING", "group base has finished", "the cluster has 1 places for steps, and group web uses 1",
	"the cluster has 1 places for steps, and group web uses 0", "the cluster has 1 places for creations, and group web uses 1",
	"the cluster has 1 places for rollouts, and group web uses 1", "the cluster has no limits",
}
