package check

import (
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// wellFor is how long a member serves at least until all of its checks have said so.
const wellFor = 5 * time.Second

// heardFor is how long after an agent's process began it has found its member well.
const heardFor = 5 * time.Second

// found is refresh-found: while a refresh of a member is open, and it serves as it did before, discovery
// leads to it. What ends that is what ails it, and an agent that began anew and has seen nothing yet.
func found(s *state, e trace.Event) []string {
	if e.Kind != trace.Hidden {
		return nil
	}
	m := s.member(e.Slot)
	switch op := m.refreshed(); {
	case op == nil, !slices.Contains(m.serving, e.Boot), s.now-m.changed < wellFor, m.muted, m.heardAt > 0 && s.now-m.heardAt < heardFor:
		return nil
	default:
		return wrong("%s refreshes %s, which serves as before, and %s leads nobody to it: %s", op.ID, e.Slot, e.By, e.Text)
	}
}

// judged is refresh-judged: a refresh is done only once the agent of its member goes by its checks, and all of them
// are judged. While the group's quorum is away, or was until a moment ago, or its agents were not heard until then, which
// looks the same, no check can be: the step makes room for those that restore it (R45).
func judged(s *state, e trace.Event) []string {
	op := e.Operation
	if e.Kind != trace.Committed || e.Deleted || op == nil || !op.Way.Refreshes() || op.Phase != operation.Done {
		return nil
	}
	if before := s.operations[op.ID]; before != nil && before.Phase == operation.Done {
		return nil
	}
	heard := func(m *member) bool {
		return !m.muted && (m.heardAt == 0 || s.now-m.heardAt > EvidenceAge) && s.now-m.changed > EvidenceAge
	}
	if by := s.member(op.Slot).goesBy; by != op.To && !s.short(op.Group, heard) {
		return wrong("%s is done at %.8s, and the agent of %s says it goes by %q, or not by all of its checks yet", op.ID, op.To, op.Slot, by)
	}
	return nil
}

// anyone has a voter count whoever hears it.
func anyone(*member) bool { return true }

// short reports that fewer than a majority of the voters serve, of those that count: of the members of a workload
// that votes, where its set never told.
func (s *state) short(name string, count func(*member) bool) bool {
	voters, sp := s.group(name).voters, s.spec(name)
	if !s.group(name).set && sp != nil && group.HasVoters(*sp) {
		voters = sp.Members()
	}
	serve := 0
	for _, slot := range voters {
		if m := s.member(slot); count(m) {
			serve += min(len(m.serving), 1)
		}
	}
	return len(voters) > 0 && serve < group.Quorum(len(voters))
}

// refreshed is the open refresh of m; nil: there is none.
func (m *member) refreshed() *operation.Operation {
	at := slices.IndexFunc(m.open, func(op *operation.Operation) bool { return op.Way.Refreshes() })
	if at < 0 {
		return nil
	}
	return m.open[at]
}
