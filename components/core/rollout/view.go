package rollout

import (
	"fmt"
	"maps"
	"slices"

	"cadre.dev/core/names"
)

// listedBy returns the members without a vote as lead lists them, and the set's ids of its members. A member that has
// not started has no name yet. lead may have no Slot for its address, for example after its Boot was revoked or its
// CVM deleted. Then the records map the address to the Slot.
func (w *world) listedBy(lead *member) (learners []string, ids map[string]string) {
	learners, ids = lead.report.Learners, lead.report.MemberIDs
	for _, m := range w.everyone {
		vip := m.record.VIP
		at := slices.Index(learners, vip)
		if vip == "" || at < 0 {
			continue
		}
		learners, ids = slices.Clone(learners), maps.Clone(ids) // other code reads the report too
		learners[at] = m.slot
		if id, ok := ids[vip]; ok {
			delete(ids, vip)
			ids[m.slot] = id
		}
	}
	return learners, ids
}

// findLeader requires exactly one claimant, and no healthy member with another leader.
func (w *world) findLeader() (leader, doubt string) {
	var lead *member
	for _, m := range w.everyone {
		if !m.leads() {
			continue
		}
		if lead != nil {
			return "", fmt.Sprintf("%s and %s both say they lead", lead.slot, m.slot)
		}
		lead = m
	}
	if lead == nil {
		for _, m := range w.everyone {
			if r := m.report; r != nil && r.Leader != "" && r.alive() {
				return "", fmt.Sprintf("no member says it leads; %s says %s does", m.slot, r.Leader)
			}
		}
		return "", "no member says it leads"
	}
	for _, m := range w.everyone {
		r := m.report
		if r == nil || m == lead || !r.alive() || !r.MemberReady {
			continue
		}
		if r.Leader != "" && r.Leader != lead.slot {
			return "", fmt.Sprintf("%s says %s leads, %s says it does itself", m.slot, r.Leader, lead.slot)
		}
		if differ(r.Epoch, lead.report.Epoch) {
			return "", fmt.Sprintf("%s is at term %d, the leader %s at %d", m.slot, r.Epoch, lead.slot, lead.report.Epoch)
		}
	}
	return lead.slot, ""
}

// findVoters takes V from the members' own configuration; two different configurations make V unknown.
func (w *world) findVoters(lead *member) (voters []string, doubt string) {
	var from string
	for _, m := range w.everyone {
		if m.report == nil || !m.report.QuorumMember || len(m.report.Voters) == 0 {
			continue
		}
		switch {
		case w.unlisted(m):
			continue // the last report of a member that is gone
		case m.open != nil && m.open.Leaving():
			continue // the others decide, and the member may be out of the set without knowing it
		case lead != nil && lead != m && m.report.Leader == "" && !m.report.MemberReady && !slices.Contains(lead.report.Voters, m.slot):
			continue // the set removed the member, and it is cut off from the voters that decided that
		}
		mine := slices.Clone(m.report.Voters)
		slices.Sort(mine)
		mine = slices.Compact(mine)
		if voters != nil && !slices.Equal(voters, mine) {
			return nil, fmt.Sprintf("%s counts voters %s, %s counts %s", from, names.Few(voters, " "), m.slot, names.Few(mine, " "))
		}
		if voters == nil {
			voters, from = mine, m.slot
		}
	}
	return voters, ""
}

// unlisted: a known listing has no CVM of m. A report that is still fresh is the last report of that CVM: m does not
// vote. No other right is taken from m for that alone, since one listing may lack a CVM by mistake.
func (w *world) unlisted(m *member) bool { return m.seen.Instance == nil && w.platformKnown(m) }

// stopped: the platform lists the CVM and reports that it does not run, regardless of the agent's last report.
func (m *member) stopped() bool { return m.seen.Instance != nil && !m.seen.Instance.Running() }

// halted: the platform reports for certain that the CVM is down, with no task in progress. The agent does not
// contradict.
func (m *member) halted() bool {
	i := m.seen.Instance
	return i != nil && !i.InProgress && stoppedWord(i) && !m.heardNow()
}

// heardNow: m's Boot reported a moment ago, and no Operation ended that Boot.
func (m *member) heardNow() bool { return m.speaks && !m.cut }

// votes: m certainly takes part now, on the term of the leader, if findLeader found a leader. The application's health
// checks do not count here: a wrong check could hide an existing quorum.
func (m *member) votes() bool { return m.report.alive() && m.report.MemberReady && caughtUp(m.report) }

// differ compares two terms, if both are known.
func differ(a, b uint64) bool { return a != 0 && b != 0 && a != b }

func (w *world) find(slot string) *member { return w.bySlot[slot] }

// nameSilent marks each member that its followers name as their leader and whose own report is missing. The member's
// agent or its workload is silent, or its driver cannot observe it. Then the other members' view of that member counts (R125).
func (w *world) nameSilent() {
	for _, m := range w.everyone {
		r := m.report
		if r == nil || !r.alive() || r.Role != RoleFollower && r.Role != RoleLearner {
			continue
		}
		lead := w.find(r.Leader)
		// A CVM that a known listing lacks leads no member, even if members still name it.
		if lead != nil && (lead.report == nil || w.unanswered(lead) || !lead.report.MemberKnown) && !w.unlisted(lead) && !lead.certainlyDown() {
			lead.named = true
		}
	}
}

// certainlyDown: the platform or attestation reports that the CVM's software no longer runs. Silence alone does not
// count.
func (m *member) certainlyDown() bool {
	return m.shownDown() || m.bootedElsewhere()
}

// shownDown: the platform lists the CVM as stopped or as failing to boot.
func (m *member) shownDown() bool {
	return m.stopped() || m.seen.Instance != nil && m.seen.Instance.BootError != ""
}

// awaitsBoot: an Operation ended the admitted Boot, and no Boot came after it.
func (m *member) awaitsBoot() bool {
	return m.pendingBoot.To != "" || m.report == nil && m.observed != "" && m.record.Assigned != "" && m.record.Assigned != m.observed
}

// beganWithPendingBoot: the step of m began when its Boot was moved away, and no Boot showed since. Later checks find m as down
// as the first check did. Otherwise the step would be called off and begin again without end. A refresh never begins
// in that state, and keeps its Boot.
func (m *member) beganWithPendingBoot() bool {
	op, a := m.open, m.seen.Admission
	if op == nil || op.Way.Refreshes() || m.report != nil || a == nil || a.BootID == "" || a.BootID != op.Before.BootID {
		return false
	}
	return m.pendingBoot.To != "" || op.From != "" && op.From != m.observed
}

// expected: m's agent should report, since its Boot is admitted and no evidence says that it is down.
func (m *member) expected() bool {
	return m.open == nil && m.seen.Instance != nil && m.admitted() && !m.certainlyDown() && !m.awaitsBoot()
}

// leads: m's own fresh report says that m leads, and its CVM was not stopped since.
func (m *member) leads() bool {
	return m.report != nil && m.report.Role == RoleLeader && !m.halted()
}

// voter reports whether m counts in the arithmetic of voters. In a workload with roles, a member without a report
// counts as a voter.
func (w *world) voter(m *member) bool {
	switch {
	case !w.view.roles:
		return false
	case w.view.voting && len(w.view.voters) > 0:
		return slices.Contains(w.view.voters, m.slot)
	case m.report == nil:
		return !m.missing()
	}
	return m.report.Role != RoleLearner && m.report.Role != RoleNone
}

// healthyWithout returns H \ {c}, without the members in a step or taken. A member that serves between two parts of
// its step votes.
func (w *world) healthyWithout(c *member, taken *taken) []string {
	var left []string
	for _, slot := range w.view.voters {
		if m := w.find(slot); m != nil && m != c && w.view.healthy[slot] && (m.open == nil || m.between) && !taken.has(m) {
			left = append(left, slot)
		}
	}
	return left
}

// lagOf returns the reported lag; unknown sorts last.
func lagOf(m *member) int64 {
	if m.report == nil || m.report.LagBytes == nil {
		return 1<<63 - 1
	}
	return *m.report.LagBytes
}
