package check

import (
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

// wellFor is the time after which all checks of a serving member have passed.
const wellFor = 5 * time.Second

// heardFor is the time in which an agent's new process finds its member healthy.
const heardFor = 5 * time.Second

// found is refresh-found: during a refresh of a member that serves as before, discovery leads to
// the member. A fault of the member, or a new agent process without results yet, ends that.
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

// judged is refresh-judged: a refresh is done only once the member's agent runs the new checks, and
// all of them have a result. No check can have one while the group lacks its quorum, or lacked it
// until a moment ago. The same holds while its agents are unheard, which looks the same. The step
// then makes room for the members that restore the quorum (R45).
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

// anyone counts every voter, heard or not.
func anyone(*member) bool { return true }

// short reports that less than a majority of the voters serve among the members that count selects.
// If the set of a voting workload is unknown, all members are voters.
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
