package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/operation"
)

// keptOutFor is how long a new member that runs waits to be listed before that tells of a voter that
// is not reached: one that is merely silent keeps nobody out for so long.
const keptOutFor = time.Minute

// keepsOut: c is about a lost voter that keeps newcomers out of the set (R48), and all of others that
// are not its own Slot wait for just that. They have no vote and serve nobody, so that what is done
// about c need not wait for them: they would wait for each other. It is so from a time on, zero where it
// never is; passes: now.
func (w *world) keepsOut(c candidate, others ...[]*member) (from time.Time, passes bool) {
	if c.broken == whole || !w.outFirst(c.m) {
		return time.Time{}, false
	}
	for _, list := range others {
		for _, other := range list {
			if other == c.m {
				continue
			}
			at, kept := w.keptOut(other)
			if !kept && (c.kind != operation.Delete || !w.keptFromVoting(other)) {
				return time.Time{}, false
			}
			from = later(from, at)
		}
	}
	return from, !w.now.Before(from)
}

// keptOut: m is out of the set, and either nothing of it is there, or it runs and is not let in.
func (w *world) keptOut(m *member) (from time.Time, ok bool) {
	switch {
	case w.inSet(m) != operation.SetAbsent:
		return time.Time{}, false
	case m.seen.Instance == nil:
		return time.Time{}, m.open == nil
	case m.report == nil || !m.record.Membership.Waits():
		return time.Time{}, false
	}
	return m.seen.Admission.AdmittedAt.Add(keptOutFor), true
}

// keptFromVoting: m is listed and runs, and gets its vote once a dead voter is out of the set. To
// restart that one instead waits for its turn: who listed m reached it a while ago.
func (w *world) keptFromVoting(m *member) bool {
	return m.joining() && m.report != nil && m.report.alive() && slices.Contains(w.view.learners, m.slot) && w.voteTooMany(m)
}
