package rollout

import (
	"fmt"
	"maps"
	"slices"

	"cadre.dev/core/group"
)

// view is what the members' fresh reports say about their own cluster.
type view struct {
	// roles: the workload has leaders and followers.
	roles bool
	// voting: quorum arithmetic applies.
	voting bool
	// leader is the one Slot that leads; leaderDoubt says why there is none (R34).
	leader      string
	leaderDoubt string
	// voters is V as the members' configuration lists it; votersDoubt says why it
	// cannot be told from reports that contradict each other (R43).
	voters      []string
	votersDoubt string
	// learners are those who belong to the set without a vote, as its leader lists them.
	learners []string
	// ids are what the set knows its members by, as its leader lists them.
	ids map[string]string
	// healthy is H: voters positively known to vote, on the leader's term, caught up.
	healthy map[string]bool
}

func (w *world) look() view {
	v := view{roles: group.HasDriver(w.spec), voting: group.HasVoters(w.spec), healthy: map[string]bool{}}
	for _, m := range w.everyone {
		if m.report == nil {
			continue
		}
		v.roles = v.roles || m.report.Role == RoleLeader || m.report.Role == RoleFollower
		v.voting = v.voting || m.report.QuorumMember
	}
	v.leader, v.leaderDoubt = w.findLeader()
	v.voters, v.votersDoubt = w.findVoters(w.find(v.leader))
	if lead := w.find(v.leader); lead != nil {
		v.learners, v.ids = w.listedBy(lead)
	}
	w.nameSilent()
	for _, m := range w.everyone {
		if slices.Contains(v.voters, m.slot) && m.report != nil && !m.stopped() && !w.unlisted(m) && w.votes(m, v.leader) {
			v.healthy[m.slot] = true
		}
	}
	return v
}

// listedBy is who belongs to the set without a vote as lead lists them, and what it knows them by.
// A member that has not started has no name yet, and lead may know nobody at its address, as when
// its Boot was revoked, or has no CVM any more: the records say whose address it is.
func (w *world) listedBy(lead *member) (learners []string, ids map[string]string) {
	learners, ids = lead.report.Learners, lead.report.MemberIDs
	for _, m := range w.everyone {
		vip := m.record.VIP
		at := slices.Index(learners, vip)
		if vip == "" || at < 0 {
			continue
		}
		learners, ids = slices.Clone(learners), maps.Clone(ids) // the report is others' too
		learners[at] = m.slot
		if id, ok := ids[vip]; ok {
			delete(ids, vip)
			ids[m.slot] = id
		}
	}
	return learners, ids
}

// findLeader wants exactly one claimant, and nobody healthy who says otherwise.
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

// findVoters takes V from the members' own configuration; two that differ make it
// unknown.
func (w *world) findVoters(lead *member) (voters []string, doubt string) {
	var from string
	for _, m := range w.everyone {
		if m.report == nil || !m.report.QuorumMember || len(m.report.Voters) == 0 {
			continue
		}
		switch {
		case w.unlisted(m):
			continue // the last word of one that is gone
		case m.open != nil && m.open.Leaving():
			continue // the others decide, and it may be out without having heard of it
		case lead != nil && lead != m && m.report.Leader == "" && !m.report.MemberReady && !slices.Contains(lead.report.Voters, m.slot):
			continue // it was taken out, and is cut off from those who decided that
		}
		mine := slices.Clone(m.report.Voters)
		slices.Sort(mine)
		mine = slices.Compact(mine)
		if voters != nil && !slices.Equal(voters, mine) {
			return nil, fmt.Sprintf("%s counts voters %s, %s counts %s", from, Few(voters, " "), m.slot, Few(mine, " "))
		}
		if voters == nil {
			voters, from = mine, m.slot
		}
	}
	return voters, ""
}

// unlisted: a listing that is known has no CVM of m. A report that is still fresh is the last word of that CVM: m
// does not vote. Nothing is taken from m for that alone, since one listing may lack a CVM by mistake.
func (w *world) unlisted(m *member) bool { return m.seen.Instance == nil && w.obs.Platform.Known }

// stopped: the platform lists the CVM and says that it does not run, whatever was last
// heard from it.
func (m *member) stopped() bool { return m.seen.Instance != nil && !m.seen.Instance.Running() }

// halted: the platform says for certain that the CVM is down, with no task under way, and its
// agent does not say otherwise.
func (m *member) halted() bool {
	i := m.seen.Instance
	return i != nil && !i.InProgress && stoppedWord(i) && !m.heardNow()
}

// heardNow: a Boot of m that nothing of ours ended spoke a moment ago.
func (m *member) heardNow() bool { return m.speaks && !m.cut }

// votes: positively known to take part now. Health checks of the application do
// not count here, or a wrong check could talk quorum away.
func (w *world) votes(m *member, leader string) bool {
	r := m.report
	if !r.alive() || !r.MemberReady || !caughtUp(r) {
		return false
	}
	if lead := w.find(leader); lead != nil && lead.report != nil && differ(r.Epoch, lead.report.Epoch) {
		return false
	}
	return true
}

// differ compares terms where both are known.
func differ(a, b uint64) bool { return a != 0 && b != 0 && a != b }

func (w *world) find(slot string) *member { return w.bySlot[slot] }

// nameSilent marks the members that those who follow name as their leader and whose own word is missing: the
// agent is silent, or its workload gives it no answer. What the others see of a member counts then (R125).
func (w *world) nameSilent() {
	for _, m := range w.everyone {
		r := m.report
		if r == nil || !r.alive() || r.Role != RoleFollower && r.Role != RoleLearner {
			continue
		}
		lead := w.find(r.Leader)
		// A CVM that a known listing does not have leads nobody, whoever still says so.
		if lead != nil && (lead.report == nil || w.unanswered(lead)) && !w.unlisted(lead) && !lead.certainlyDown() {
			lead.named = true
		}
	}
}

// certainlyDown: not silence, but the platform's or attestation's word says that what
// ran there does not run any more.
func (m *member) certainlyDown() bool {
	return m.shownDown() || m.provenElsewhere()
}

// shownDown: the platform lists the CVM as one that does not boot, or does not run.
func (m *member) shownDown() bool {
	return m.stopped() || m.seen.Instance != nil && m.seen.Instance.BootError != ""
}

// movedAway: the Boot that was admitted is gone by our own doing, and none came after it.
func (m *member) movedAway() bool {
	return m.moved != nil || m.report == nil && m.observed != "" && m.record.Assigned != "" && m.record.Assigned != m.observed
}

// beganMoved: the step of m began when that was so, and no Boot showed since. Its looks again find m as down as
// the first one did, or it would be called off and begin for ever. A refresh begins with none that moved, and keeps
// its Boot.
func (m *member) beganMoved() bool {
	op, a := m.open, m.seen.Admission
	if op == nil || op.Way.Refreshes() || m.report != nil || a == nil || a.BootID == "" || a.BootID != op.Before.BootID {
		return false
	}
	return m.moved != nil || op.From != "" && op.From != m.observed
}

// expected: an agent is to be heard of, since its Boot is admitted and nothing says that
// it is down.
func (m *member) expected() bool {
	return m.open == nil && m.seen.Instance != nil && m.admitted() && !m.certainlyDown() && !m.movedAway()
}

// leads: m's own fresh report says it leads, and its CVM was not stopped since.
func (m *member) leads() bool {
	return m.report != nil && m.report.Role == RoleLeader && !m.halted()
}

// voter reports whether m counts in the arithmetic of voters. A silent member of a
// workload with roles is taken for one.
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
