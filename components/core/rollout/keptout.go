package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/operation"
)

// letsIn: c is about a lost voter that keeps newcomers out of the set (R48). What is done about it does not wait for
// those newcomers, which wait for just that: they have no vote and serve no request.
func (w *world) letsIn(c candidate) bool { return c.condition != well && w.outFirst(c.m) }

// waitsForSet: m is out of the set, or in it without a vote, until the set loses a voter that is lost: nothing of m is
// there, or it runs and is not let in.
func (w *world) waitsForSet(m *member) bool {
	switch {
	case w.inSet(m) != operation.SetAbsent:
		return m.joining() && m.report != nil && m.report.alive() && slices.Contains(w.view.learners, m.slot) && w.voteTooMany(m)
	case m.seen.Instance == nil:
		return m.open == nil
	}
	return m.report != nil && m.record.Membership.Waits() && !w.now.Before(m.waitsFrom())
}

// waitsFrom is from when on it tells of a lost voter that m, which runs, is not in the set: a voter that is merely
// silent lists it sooner.
func (m *member) waitsFrom() time.Time { return m.seen.Admission.AdmittedAt.Add(unwellFor) }

// waitedFor is how many of others c waits for, and the first of them.
func (w *world) waitedFor(c candidate, others []*member) (n int, first *member) {
	lets := w.letsIn(c)
	for _, m := range others {
		if m == c.m || lets && w.waitsForSet(m) {
			continue
		}
		if n++; first == nil {
			first = m
		}
	}
	return n, first
}
