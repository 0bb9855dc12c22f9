package rollout

import (
	"cmp"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// holdsOfLeader are the rules of the leader's own step (R53-R55). The step comes last, with at most one planned
// transfer per rollout, and only to a fit member. Where the workload elects when its leader stops, the step comes last
// and needs no successor; the rules of the quorum protect the election.
func (w *world) holdsOfLeader(c candidate, l evaluation) []Hold {
	if l.op != nil {
		return w.holdsOfLeading(c.m, l.op)
	}
	if !c.m.leads() || c.condition != well {
		return nil
	}
	var holds []Hold
	candidates, interim := w.transferCandidates(c)
	if c.rolls() {
		others := w.tally.outdatedVoters
		if w.alone(c.m) {
			others = w.tally.outdated
		}
		if m := cmp.Or(otherThan(c.m, w.waitable(others)), otherThan(c.m, w.renewed())); m != nil && !w.provesFirst(c) {
			holds = append(holds, hold(HoldLeaderLast, "%s leads and goes last; %s is not proven at the target yet", c.m.slot, m.slot))
		}
		if w.alone(c.m) || group.StopsLeader(w.spec) {
			return holds // no member can take over, and the service is interrupted (R18), or none has to
		}
		if w.transfersMade() > 0 && !interim && !c.forOwn {
			holds = append(holds, hold(HoldTransferBudget,
				"the one planned transfer of this rollout was made and %s leads again; move leadership to an updated member by hand", c.m.slot))
		}
	}
	if w.alone(c.m) || group.StopsLeader(w.spec) {
		return holds
	}
	if len(candidates) == 0 {
		holds = append(holds, hold(HoldNoCandidate, "%s leads, and no member that is available, caught up and fit can take over", c.m.slot))
	}
	return holds
}

// provesFirst: the rollout replaces its members once c, the only extra member, has proven the target. All others wait for c, so
// that c does not go last where it leads.
func (w *world) provesFirst(c candidate) bool {
	if !c.rolls() || !c.m.extra || w.spec.UpdatePolicy.MinimalAction != group.ActionReplace || w.tally.proven {
		return false
	}
	return !slices.ContainsFunc(w.members, func(m *member) bool { return m.extra && m != c.m })
}

// renewed are the members that the rollout replaces, until their new CVM has proven its Revision. A CVM that has not
// attested yet is not outdated.
func (w *world) renewed() []*member {
	return slices.DeleteFunc(slices.Clone(w.tally.open), func(m *member) bool {
		return m.open.Kind != operation.Replace || !m.open.Kind.Rolls(m.open.Actor) || m.observed == m.open.To
	})
}

// holdsOfLeading: a member that is about to stop must not lead any more (R33, R86). An unhealthy leader without a
// possible successor is stopped anyway. So is a leader whose duties no other member can take (R18), and one whose
// workload elects when it stops.
func (w *world) holdsOfLeading(m *member, op *operation.Operation) []Hold {
	if !m.leads() || !w.voter(m) || w.alone(m) || group.StopsLeader(w.spec) || !m.ready && op.Transfer == nil {
		return nil
	}
	return []Hold{hold(HoldLeaderUnknown, "%s leads", m.slot)}
}

// transfer returns the planned hand-over of c's step, or nil. It needs a leading c and a possible successor (R53,
// R54).
func (w *world) transfer(c candidate) *operation.Transfer {
	if !c.m.leads() || c.kind == operation.Create || c.kind == operation.Stop || group.StopsLeader(w.spec) {
		return nil
	}
	relief := c.condition != well
	candidates, interim := w.transferCandidates(c)
	if c.rolls() && w.transfersMade() > 0 && !relief && !interim && !c.forOwn {
		return nil
	}
	if len(candidates) == 0 {
		return nil
	}
	return &operation.Transfer{ExpectedLeader: c.m.slot, Candidates: candidates, Relief: relief, Interim: interim}
}

// transferCandidates returns the members that can take over from c, best first. They are available, caught up, follow
// c, and for an update are already at the target. The most advanced member is first, then the lowest ordinal (R53,
// R56). If an update has none, interim candidates are members that are to be removed and still run. Their removal
// hands over again, which is better than an interruption now. For the extra member that goes first, all members are.
func (w *world) transferCandidates(c candidate) (slots []string, interim bool) {
	if slots = w.fitToLead(c, w.members); len(slots) > 0 || !c.rolls() || len(w.members) > 1 {
		return slots, w.provesFirst(c)
	}
	slots = w.fitToLead(c, w.terminating)
	return slots, len(slots) > 0
}

// fitToLead returns the members of others that can take over from c, best first. A flapping member counts only if no
// other member is fit (R9).
func (w *world) fitToLead(c candidate, others []*member) []string {
	if slots := w.fitOf(c, others, func(m *member) bool { return m.available }); len(slots) > 0 {
		return slots
	}
	return w.fitOf(c, others, func(m *member) bool { return m.settled && m.flaps })
}

func (w *world) fitOf(c candidate, others []*member, stands func(*member) bool) []string {
	fit := where(others, func(m *member) bool {
		behind := c.rolls() && !w.provesFirst(c) && m.inScope() && m.observed != m.want.revision && c.condition == well
		return m != c.m && !behind && stands(m) && m.report != nil && m.report.Role == RoleFollower && caughtUp(m.report)
	})
	slices.SortStableFunc(fit, func(a, b *member) int {
		updated := func(m *member) int {
			switch {
			case m.extra:
				return 2 // this member would have to hand over again when it goes
			case m.observed == w.target:
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(updated(a), updated(b)), -cmp.Compare(a.report.Epoch, b.report.Epoch),
			cmp.Compare(lagOf(a), lagOf(b)), cmp.Compare(a.ordinal, b.ordinal))
	})
	return slotsOf(fit)
}

// transfersMade counts the planned transfers of updates in this rollout (R53). A rollback has a count of its own.
func (w *world) transfersMade() int {
	n, after := 0, 0
	if w.target != w.asked {
		after = w.rollout.Back.After
	}
	for _, m := range w.everyone {
		for _, op := range m.past {
			if op.Order > after {
				n += madeTransfer(op)
			}
		}
		if m.open != nil && m.open.Order > after && w.rollout != nil && m.open.Rollout == w.rollout.ID {
			n += madeTransfer(*m.open)
		}
	}
	if w.rollout != nil {
		n = max(n, *w.transfers()) // a forgiven or deleted step made its transfer anyway
	}
	return n
}

// transfers is the recorded count of the planned transfers of the rollout, or of its rollback.
func (w *world) transfers() *int {
	if w.target != w.asked {
		return &w.rollout.Back.Transfers
	}
	return &w.rollout.Transfers
}

func madeTransfer(op operation.Operation) int {
	if op.Kind.Rolls(op.Actor) && op.Way.Mode != operation.ModeOwn && op.Transfer != nil && op.Transfer.Made && !op.Transfer.Relief && !op.Transfer.Interim {
		return 1
	}
	return 0
}
