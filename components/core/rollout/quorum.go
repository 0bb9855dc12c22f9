package rollout

import (
	"cmp"
	"fmt"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
)

// holdsOfQuorum are the rules for members that vote or replicate (R17-R19, R34,
// R43-R45). Budget and quorum both apply.
func (w *world) holdsOfQuorum(c candidate, l evaluation) []Hold {
	if c.kind == operation.Delete || c.kind == operation.Replace {
		return nil // holdsOfDisk and holdsOfReplace
	}
	if c.kind == operation.Restart && c.actor == operation.ActorHealing && c.m.halted() {
		return nil // starting a down member does no harm; if all are down, none waits for another
	}
	holds := w.holdsOfSize(c)
	if !w.voter(c.m) {
		return holds
	}
	if l.op == nil {
		holds = append(holds, w.holdsOfVoterCap(c, l.taken)...)
	}
	if w.view.leader == "" && !w.alone(c.m) && !c.isSick() {
		holds = append(holds, hold(HoldLeaderUnknown, "the leader is unknown: %s", w.view.leaderDoubt))
	}
	if w.view.voting {
		holds = append(holds, w.holdsOfMajority(c, l.taken)...)
	}
	return holds
}

// holdsOfSize is R18: a group of one is interrupted, unless the spec refuses that. The same holds for a member whose
// duties no other member can take.
func (w *world) holdsOfSize(c candidate) []Hold {
	if w.spec.UpdatePolicy.Interruption != group.InterruptionRefuse || !c.m.inService() {
		return nil
	}
	switch {
	case w.spec.Replicas == 1 && !c.m.extra && w.spare(c.m, &taken{}) == 0:
		return []Hold{hold(HoldInterruption, "the only slot would be interrupted; set update_policy.interruption = \"allow\"")}
	case w.alone(c.m):
		return []Hold{hold(HoldInterruption, "%s is the only one that can lead or vote, so the service would be interrupted; set update_policy.interruption = \"allow\"", c.m.slot)}
	}
	return nil
}

// alone: m is the only member whose role can have m's duties; the others are learners, or replicas that may not lead.
// Then m is updated like the only member of its group (R18). If m is the only remaining member, members that are to be
// removed have its duties as long as they run.
func (w *world) alone(m *member) bool {
	others := w.members
	if len(others) == 1 {
		others = w.everyone
	}
	if len(others) == 1 {
		return true
	}
	if !w.view.roles || !m.leads() {
		return false
	}
	if w.view.voting && len(w.view.voters) > 0 {
		return len(w.view.voters) == 1
	}
	for _, other := range others {
		// A member that does not report may be able to lead.
		if other != m && (other.report == nil || other.report.Role != RoleLearner && other.report.Role != RoleNone) {
			return false
		}
	}
	return true
}

// isSick: the candidate's condition is bad, or an operator requested a step by name while the member is not available.
// Then the protection of healthy members does not apply to c.
func (c candidate) isSick() bool {
	return c.condition != well || c.marked && !c.m.ready && !c.m.available
}

// holdsOfVoterCap is R17 and R45: below quorum, voters are repaired one after the other, and so is a member outside
// the quorum. Members of a workload that replicates without voting count as voters.
func (w *world) holdsOfVoterCap(c candidate, taken *taken) []Hold {
	n := w.spec.Replicas
	if len(w.view.voters) > 0 {
		n = len(w.view.voters)
	}
	limit := max(group.VoterCap(w.spec, n), 1)
	if w.view.voting && c.isSick() && !w.view.healthy[c.m.slot] {
		limit = 1
	}
	var steps away
	for _, list := range [][]*member{w.tally.openVoters, taken.voters} {
		for _, m := range list {
			if m == c.m {
				continue
			}
			if steps.n++; steps.n <= named {
				steps.some = append(steps.some, m.slot)
			}
		}
	}
	if steps.n < limit {
		return nil
	}
	return []Hold{hold(HoldVoterCap, "at most %d %s at a time, %s in a step", limit, plural(limit, "voter"), steps.are())}
}

// holdsOfMajority is the arithmetic of restarts, where V does not change (R44, R45).
func (w *world) holdsOfMajority(c candidate, taken *taken) []Hold {
	v := len(w.view.voters)
	switch {
	case w.view.votersDoubt != "":
		return []Hold{hold(HoldQuorumUnknown, "the members do not agree who votes: %s", w.view.votersDoubt)}
	case v == 0:
		if w.outsideQuorum(c) || w.spec.Replicas == 1 {
			return nil
		}
		return []Hold{hold(HoldQuorumUnknown, "no member tells who votes")}
	}
	if !c.isSick() {
		if holds := w.holdsOfNewcomers(c.m, taken); len(holds) > 0 {
			return holds
		}
	}
	switch {
	case v == 1, w.outsideQuorum(c), v == 2 && w.spec.UpdatePolicy.Interruption == group.InterruptionAllow:
		return nil // R18 decides for a single voter
	case v == 2:
		return []Hold{hold(HoldWouldLoseQuorum, "of two voters none can be spared; set update_policy.interruption = \"allow\", or add a voter")}
	}
	if left := w.healthyWithout(c.m, taken); len(left) < group.Quorum(v) {
		return []Hold{hold(HoldQuorum, "%s", quorumText(c.m.slot, left, v))}
	}
	return nil
}

// outsideQuorum: stopping c removes no vote, because c is certainly down, or because the quorum is lost. While the
// cluster has a leader, a voter that lags or does not report may hold the very vote that the leader needs. Such a
// voter is judged like a healthy voter.
func (w *world) outsideQuorum(c candidate) bool {
	if !c.isSick() || w.view.healthy[c.m.slot] {
		return false
	}
	return c.condition.certain() || w.view.leader == ""
}

// quorumSnapshot returns the arithmetic in one line, for the record of the decision.
func (w *world) quorumSnapshot(c candidate, taken *taken) string {
	if !w.view.voting || c.kind == operation.Create {
		return ""
	}
	if len(w.view.voters) == 0 {
		return "voters unknown"
	}
	return quorumText(c.m.slot, w.healthyWithout(c.m, taken), len(w.view.voters))
}

func quorumText(slot string, left []string, v int) string {
	return fmt.Sprintf("without %s %d of %d voters are healthy (%s), %d needed",
		slot, len(left), v, cmp.Or(names.Few(left, " "), "none"), group.Quorum(v))
}

// servesNothing reports that c's member is certainly down, or votes in a set without a majority.
func (w *world) servesNothing(c candidate) bool {
	certain := c.condition.certain() || w.view.voting && w.outsideQuorum(c)
	return certain && c.m.down()
}
