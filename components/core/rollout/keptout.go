package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/operation"
)

// letsIn: c concerns a lost voter that keeps newcomers out of the set (R48). Its step ignores those newcomers, because
// they wait for exactly that step. They have no vote and serve no request.
func (w *world) letsIn(c candidate) bool { return c.condition != well && w.outFirst(c.m) }

// waitsForSet: m waits until the set removes a lost voter. Until then m is out of the set, or in the set without a
// vote. Either its CVM does not exist yet, or m runs and waits for admission.
func (w *world) waitsForSet(m *member) bool {
	switch {
	case w.inSet(m) != operation.SetAbsent:
		return m.joining() && m.report != nil && m.report.alive() && slices.Contains(w.view.learners, m.slot) && w.voteTooMany(m)
	case m.seen.Instance == nil:
		return m.open == nil
	}
	return m.report != nil && m.record.Membership.Waits() && !w.now.Before(m.waitsFrom())
}

// waitsFrom is when the exclusion of a running m starts to prove a lost voter: a voter that merely does not report
// lists m sooner.
func (m *member) waitsFrom() time.Time { return m.seen.Admission.AdmittedAt.Add(unwellFor) }

// waitedFor counts the members of others that c waits for, and returns the first.
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
