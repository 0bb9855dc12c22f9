package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
)

// A workload's set changes by one member at a time (R48), through the member that leads it. Each pass derives the
// changes again from the actual and the wanted members. The planner keeps no state about them, and a repeated request
// has the effect of one.

// inSet returns the state of m in the set.
func (w *world) inSet(m *member) operation.SetWord {
	switch {
	case !group.ChangesSet(w.spec) || w.ending():
		return operation.SetUnasked
	case w.setDoubt() != "":
		return operation.SetUnknown
	case w.listed(m):
		return operation.SetListed
	}
	return operation.SetAbsent
}

// setDoubt returns why the members of the set are not known for certain; empty: they are known (R43).
func (w *world) setDoubt() string {
	switch {
	case w.view.votersDoubt != "":
		return w.view.votersDoubt
	case len(w.view.voters) == 0:
		return "no member tells who votes"
	case w.view.leader == "":
		return cmp.Or(w.view.leaderDoubt, "the leader is unknown")
	}
	return ""
}

func (w *world) listed(m *member) bool {
	return slices.Contains(w.view.voters, m.slot) || slices.Contains(w.view.learners, m.slot) || w.stillThere(m)
}

// ejected: m was a member and the set no longer lists it, while its CVM exists. If the others must list a member
// before it starts, a removed member never returns with its disk.
func (w *world) ejected(m *member) bool {
	was := m.record.WasAvailableAt != "" && !m.joining() && !m.ready
	return was && group.AddsMembers(w.spec) && !m.terminating && !m.missing() && m.seen.Instance != nil && w.inSet(m) == operation.SetAbsent
}

// stillThere: the incarnation of m that is to leave is listed, if only by its id. Consul forgets the name of a server
// before its vote.
func (w *world) stillThere(m *member) bool {
	if m.open == nil || !m.open.Leaving() || m.open.Set.LeavesAs == "" {
		return false
	}
	_, there := w.view.ids[m.open.Set.LeavesAs]
	return there
}

// idOf returns the set's id of the incarnation of m that changes. For a leaving member this is the id that its step
// recorded: a later member may have its name.
func (w *world) idOf(m *member) string {
	if m.open != nil && m.open.Leaving() && m.open.Set.LeavesAs != "" {
		return m.open.Set.LeavesAs
	}
	return w.view.ids[m.slot]
}

// formed: the set was bootstrapped, as far as known.
func (w *world) formed() bool {
	return len(w.view.voters) > 0 || slices.ContainsFunc(w.everyone, func(m *member) bool { return m.record.WasAvailableAt != "" })
}

// founder: m never had a working CVM, so the set may have been bootstrapped with it.
func (m *member) founder() bool {
	return m.record.Incarnation == 0 && len(m.record.Lineage) == 0 && m.record.WasAvailableAt == ""
}

// foundersOf returns the Slots that bootstrap the set. It is empty if another party bootstraps the set, or once all
// founders have come up. The list is fixed from the first founder's CVM on. This also holds for a founder whose CVM
// could not be made before the others formed the set: the set lists that founder.
func (w *world) foundersOf() []string {
	if !group.ChangesSet(w.spec) {
		return nil
	}
	formed := w.formed()
	for _, m := range w.everyone {
		if s := m.record.Membership; s != nil && len(s.Founders) > 0 && (formed || !m.missing() || m.open != nil) {
			return s.Founders
		}
	}
	if formed {
		return nil
	}
	return w.spec.Members()
}

// founds: m is to start on an empty disk as a founder of the set. A founder that was removed from the set before it
// was made, and is wanted again, joins the set instead.
func (w *world) founds(m *member) bool {
	joins := m.record.Membership != nil && m.record.Membership.Joins
	return m.founder() && !joins && slices.Contains(w.founders, m.slot)
}

// holdsOfFounding: the members of a set do not change before it is formed. The founders wait for each other by a list
// that some of them already have.
func (w *world) holdsOfFounding(c candidate) []Hold {
	if len(w.founders) == 0 || w.formed() {
		return nil
	}
	switch {
	case c.kind == operation.Create && !slices.Contains(w.founders, c.m.slot):
		return []Hold{hold(HoldSetChanging, "the set is being founded by %s; %s joins it once it stands", names.Few(w.founders, ", "), c.m.slot)}
	case c.kind == operation.Delete && w.founds(c.m) && !c.m.missing():
		return []Hold{hold(HoldSetChanging, "the set is being founded by %s; %s leaves it once it stands, or goes with the whole group", names.Few(w.founders, ", "), c.m.slot)}
	}
	return nil
}

// joins: the CVM that c makes joins an existing set, and does not bootstrap the set with others.
func (w *world) joins(c candidate) bool {
	making := c.kind == operation.Create || c.kind == operation.Replace
	if !making || !group.AddsMembers(w.spec) || !w.formed() {
		return false
	}
	return c.kind == operation.Replace || !c.m.founder() || !slices.Contains(w.view.voters, c.m.slot)
}

// joining: m was made to join the set and does not have its vote yet.
func (m *member) joining() bool {
	return m.record.Membership != nil && m.record.Membership.Joins && !m.ready
}

// coming: a joining m exists, or is being made. A Slot whose creation was refused blocks no other member (R47).
func (m *member) coming() bool { return m.joining() && (!m.missing() || m.open != nil) }

// voteless: the set is known and m has no vote, so m can go without losing a vote.
func (w *world) voteless(m *member) bool {
	return group.ChangesSet(w.spec) && w.setDoubt() == "" && !slices.Contains(w.view.voters, m.slot) && !w.stillThere(m)
}

// pendingIn names the member, other than m, that is joining or leaving the set. It blocks other changes (R47, R48).
// Empty: no change is pending.
func (w *world) pendingIn(m *member) string {
	if changing := w.changingIn(m); changing != "" {
		return changing
	}
	for _, other := range w.everyone {
		if other != m && other.coming() && !other.terminating {
			return other.slot + " is joining"
		}
	}
	return ""
}

// changingIn names the change of the set by a member other than m. An unlisted newcomer is not yet a change: two such
// members would wait for each other.
func (w *world) changingIn(m *member) string {
	before := true // of two leaving members, the first blocks the other
	leaves := m.open != nil && m.open.Leaving()
	for _, slot := range w.view.learners {
		if slot != m.slot {
			return slot + " has no vote yet"
		}
	}
	for _, other := range w.everyone {
		op := other.open
		switch {
		case other == m:
			before = !leaves
		case before && op != nil && op.Leaving() && w.listed(other):
			return other.slot + " is leaving"
		}
	}
	return ""
}

// stuckIn: another member on its way into the set would still be on its way after m left. That member is to be
// removed, or no agent or Operation is bringing it in.
func (w *world) stuckIn(m *member) bool {
	getsOn := func(other *member) bool {
		r := other.report
		return other.open != nil || r != nil && (r.alive() || other.record.Membership.Waits())
	}
	for _, slot := range w.view.learners {
		other := w.find(slot)
		if slot != m.slot && (other == nil || other.terminating || !getsOn(other)) {
			return true
		}
	}
	return slices.ContainsFunc(w.everyone, func(other *member) bool {
		return other != m && other.coming() && !other.terminating && !getsOn(other)
	})
}

// pendingBeside returns pendingIn, or a joining member that this pass decided to make.
func (w *world) pendingBeside(m *member, t *taken) string {
	if pending := w.pendingIn(m); pending != "" {
		return pending
	}
	if len(t.joining) > 0 {
		return t.joining[0].slot + " is made to join"
	}
	return ""
}

// holdsOfNewcomers is R47: no healthy voter is taken away while a voter joins or leaves.
func (w *world) holdsOfNewcomers(m *member, t *taken) []Hold {
	if !group.ChangesSet(w.spec) {
		return nil
	}
	pending := w.pendingBeside(m, t)
	if pending == "" {
		return nil
	}
	return []Hold{hold(HoldSetChanging, "no voter is taken away while one comes or goes (R47): %s", pending)}
}

// holdsOfSet are the rules for joining and leaving the workload's set.
func (w *world) holdsOfSet(c candidate, l evaluation) []Hold {
	if w.ending() {
		return nil
	}
	if holds := w.holdsOfFounding(c); len(holds) > 0 {
		return holds
	}
	changes := group.ChangesSet(w.spec)
	switch {
	case c.kind == operation.Create:
		return w.holdsOfJoining(c, l)
	case changes && c.kind == operation.Replace:
		if w.inSet(c.m) == operation.SetListed {
			return w.holdsOfLeaving(c, l) // the rules for joining run again once the member is out
		}
		return append(w.holdsOfLeaving(c, l), w.holdsOfJoining(c, l)...)
	case changes && w.view.voting:
		return w.holdsOfLeaving(c, l)
	case w.view.voting && c.kind == operation.Delete:
		return []Hold{hold(HoldVoterScaleIn, "%s belongs to a set that votes, and nobody here can change who votes in a workload %q; raise replicas again to keep it",
			c.m.slot, w.spec.Workload.Kind)}
	}
	return nil
}

// returns: c makes another CVM for a Slot that was in the set before, where members join without the coordinator's
// order. The old vote is removed first anyway (R49). Otherwise the new member would add a vote, and after a lost
// majority no leader could remove the old vote.
func (w *world) returns(c candidate) bool {
	return c.kind == operation.Create && group.ChangesSet(w.spec) && w.formed() && !c.m.founder()
}

// holdsOfJoining: one newcomer at a time, into a known set that does not list the newcomer yet (R43, R47, R49).
func (w *world) holdsOfJoining(c candidate, l evaluation) []Hold {
	if !w.joins(c) && !w.returns(c) {
		return nil
	}
	if doubt := w.setDoubt(); doubt != "" {
		return []Hold{hold(HoldQuorumUnknown, "who belongs to the set that %s is to join is not known: %s", c.m.slot, doubt)}
	}
	pending := w.pendingIn(c.m)
	if n := len(l.taken.joining); pending == "" && n > 0 {
		pending = l.taken.joining[n-1].slot + " is made to join"
	}
	if pending != "" {
		return []Hold{hold(HoldSetChanging, "one member comes or goes at a time, and %s", pending)}
	}
	if slot := w.unheardVoter(c.m); c.kind == operation.Create && slot != "" {
		return []Hold{hold(HoldSetChanging, "%s is let in once all who vote are well, and %s is not", c.m.slot, slot)}
	}
	if c.kind == operation.Create && w.listed(c.m) {
		return []Hold{hold(HoldSetChanging, "the others still know %s with what was on its last disk, and take it out first", c.m.slot)}
	}
	return nil
}

// unheardVoter returns a voter other than m that is not known to be healthy, where that keeps newcomers out. etcd adds
// a member only while it reaches every voter. This protects a majority that already lacks a voter. "": no such voter.
func (w *world) unheardVoter(m *member) string {
	if !group.AddsMembers(w.spec) {
		return ""
	}
	for _, slot := range w.view.voters {
		if slot != m.slot && w.find(slot) != nil && !w.view.healthy[slot] {
			return slot
		}
	}
	return ""
}

// outFirst: m is a dead voter that keeps every newcomer out of the set. It leaves the set during the replacement of
// another member, which could not join before (R48).
func (w *world) outFirst(m *member) bool {
	return group.AddsMembers(w.spec) && w.setDoubt() == "" && slices.Contains(w.view.voters, m.slot) && !w.view.healthy[m.slot]
}

// holdsOfLeaving is R46: a member leaves the set only if the other members can decide that, and are a majority
// afterwards.
func (w *world) holdsOfLeaving(c candidate, l evaluation) []Hold {
	if doubt := w.setDoubt(); doubt != "" {
		return []Hold{hold(HoldQuorumUnknown, "who belongs to the set is not known: %s", doubt)}
	}
	if !w.listed(c.m) {
		return nil // the member is out of the set, or never was in it
	}
	var holds []Hold
	votes := slices.Contains(w.view.voters, c.m.slot)
	if c.m.terminating && w.voteless(c.m) {
		return nil // the set loses no vote, and a joining member may wait for exactly this removal (R104)
	}
	// A dead voter goes first (R48): the newcomer may wait for exactly this removal. A voter that is to be replaced
	// stays if its replacement could not join, because its removal would help no member.
	first := votes && !w.view.healthy[c.m.slot] && (c.kind != operation.Replace || !w.stuckIn(c.m))
	if pending := w.pendingBeside(c.m, l.taken); pending != "" && !first {
		holds = append(holds, hold(HoldSetChanging, "one member comes or goes at a time, and %s", pending))
	}
	if !votes {
		return holds
	}
	v := len(w.view.voters)
	left := w.votersWithout(c.m, l.taken)
	decide := len(left)
	if w.view.healthy[c.m.slot] && w.leavesAlive(c.m) {
		decide++ // the leaving member's own vote counts
	}
	switch {
	case v == 1:
		holds = append(holds, hold(HoldWouldLoseQuorum, "%s is the only voter; another one has to be there first", c.m.slot))
	case decide < group.Quorum(v):
		holds = append(holds, hold(HoldQuorum, "%s; that %s leaves has to be decided by %d", quorumText(c.m.slot, left, v), c.m.slot, group.Quorum(v)))
	case len(left) < group.Quorum(v-1):
		holds = append(holds, hold(HoldQuorum, "%s once it left", quorumText(c.m.slot, left, v-1)))
	}
	return holds
}

// leavesAlive: m is out of the set before its CVM is deleted. This also holds for one of the last two members if
// members of the workload return automatically while they live. After its CVM is gone, the other member could not
// decide the removal.
func (w *world) leavesAlive(m *member) bool {
	return group.LeavesAlive(w.spec) || group.ChangesSet(w.spec) && len(w.view.voters) == 2 && slices.Contains(w.view.voters, m.slot)
}

// votersWithout returns the healthy remaining voters, without m. A drained voter at rest votes too, but an operator
// may stop it at any moment. No healthy member leaves during that drain.
func (w *world) votersWithout(m *member, taken *taken) []string {
	left := w.healthyWithout(m, taken)
	if w.view.healthy[m.slot] && !m.rests() {
		return left
	}
	for _, slot := range w.view.voters {
		if other := w.find(slot); other != nil && other != m && w.view.healthy[slot] && other.rests() {
			left = append(left, slot)
		}
	}
	return left
}

// keepMembership updates the Slots' part in the set.
func (w *world) keepMembership() {
	if !group.ChangesSet(w.spec) {
		return
	}
	for _, m := range w.everyone {
		m.record.Membership = w.membershipOf(m)
	}
	lead, change := w.setChange()
	if change == nil {
		return
	}
	own := group.Membership{}
	if was := lead.record.Membership; was != nil {
		own = *was
	}
	own.Change = change
	lead.record.Membership = &own
}

// membershipOf returns m's part in the set without m's changes to the set: while m joins, the set that lists it. A
// record that other code may read is not changed in place.
func (w *world) membershipOf(m *member) *group.Membership {
	if w.founds(m) {
		return &group.Membership{Founders: w.founders}
	}
	if !m.joining() {
		return nil
	}
	next := &group.Membership{Joins: true, Set: m.record.Membership.Set}
	if started := m.report != nil && m.report.alive(); !started && w.inSet(m) == operation.SetListed {
		next.Set = append(slices.Clone(w.view.voters), w.view.learners...)
		slices.Sort(next.Set)
		next.Set = slices.Compact(next.Set)
	}
	return next
}

// setChange returns the one due change of the set, and the member that makes it: the leader of the set (R48). Only a
// leader that hands over nothing takes itself out. The set
// stays unchanged while its voters are unknown or below a majority (R43, R51), or during a hand-over of leadership.
func (w *world) setChange() (lead *member, change *group.SetChange) {
	lead = w.find(w.view.leader)
	if lead == nil || lead.report == nil || w.ending() || !w.obs.Complete() || w.setDoubt() != "" || w.quorumLost() {
		return nil, nil
	}
	for _, m := range w.tally.open {
		if t := m.open.Transfer; m.open.Phase == operation.Draining && t != nil && !t.Made && !m.held() {
			return nil, nil
		}
	}
	for _, m := range w.everyone {
		if (m != lead || group.StopsLeader(w.spec)) && w.listed(m) && w.isOut(m) && len(w.holdsOfLeaving(candidate{m: m}, evaluation{taken: &taken{}})) == 0 {
			return lead, &group.SetChange{Do: group.SetRemove, Slot: m.slot, Member: w.idOf(m)}
		}
	}
	for _, m := range w.everyone {
		if verb := w.joinsBy(m); m != lead && verb != "" {
			return lead, &group.SetChange{Do: verb, Slot: m.slot, Member: w.idOf(m)}
		}
	}
	return nil, nil
}

// isOut: m's place in the set must be given up, because m's step says so, or because no CVM of m is left.
func (w *world) isOut(m *member) bool {
	if m.open != nil {
		return m.open.Leaving()
	}
	if m.terminating {
		return w.certainlyGone(m) && (m.deleted() || w.mayEnd(m))
	}
	// A founder may be listed with its vote before it is made. A learner was listed for a CVM that is gone.
	return m.missing() && (!m.founder() || slices.Contains(w.view.learners, m.slot)) && w.certainlyGone(m)
}

// deleted: Cadre deleted the CVM that m is bound to.
func (m *member) deleted() bool { return m.missing() || m.removal != nil }

// mayEnd: nothing keeps a terminating Slot, and its disk may be deleted. An unlisted CVM may appear again with its disk;
// a member that was removed from its set cannot return.
func (w *world) mayEnd(m *member) bool {
	return w.obs.Freeze == nil && m.seen.Protection == nil && len(w.holdsOfDisk(candidate{m: m, kind: operation.Delete}, evaluation{})) == 0
}

// certainlyGone: no CVM of m is left, by more than one listing or by an Operation's deletion.
func (w *world) certainlyGone(m *member) bool {
	if m.seen.Instance != nil || !w.platformKnown(m) {
		return false
	}
	missed := m.record.MissedSince
	if m.deleted() {
		return true
	}
	return m.report == nil && !missed.IsZero() && w.now.Sub(missed) >= goneFor
}

// held: a hook of m's drain waits for an operator.
func (m *member) held() bool {
	return m.report != nil && m.open != nil && slices.ContainsFunc(m.report.Steps, func(s StepReport) bool {
		return s.Operation == m.open.ID && s.Verb == VerbDrain && s.State == StepHeld
	})
}

// joinsBy returns the next change that brings m into the set; empty: no change is due.
func (w *world) joinsBy(m *member) group.SetVerb {
	r := m.report
	if !group.AddsMembers(w.spec) || !m.joining() || m.terminating || r == nil || !m.admitted() || m.open != nil && m.open.Leaving() {
		return ""
	}
	switch {
	case slices.Contains(w.view.voters, m.slot):
		return ""
	case !slices.Contains(w.view.learners, m.slot):
		if w.changingIn(m) != "" {
			return ""
		}
		return group.SetAdd
	case !r.alive():
		return "" // the member must come up first
	case w.voteTooMany(m):
		return ""
	}
	return group.SetPromote
}

// voteTooMany: a vote of m would raise the majority above the number of healthy voters (R46).
func (w *world) voteTooMany(m *member) bool {
	v := len(w.view.voters)
	return v > 1 && len(w.votersWithout(m, &taken{})) < group.Quorum(v+1)
}

// setText describes the pending change of the set, for people; empty: no change is pending.
func (w *world) setText() string {
	for _, m := range w.everyone {
		if s := m.record.Membership; s != nil && s.Change != nil {
			return fmt.Sprintf("%s is to %s %s", m.slot, s.Change.Do, s.Change.Slot)
		}
	}
	return ""
}

// quorumLost: the known healthy voters are fewer than a majority.
func (w *world) quorumLost() bool {
	if !w.view.voting {
		return false
	}
	return len(w.view.voters) == 0 || len(w.view.healthy) < group.Quorum(len(w.view.voters))
}

// partOf returns the set membership of a Slot whose CVM is created. A member that does not join keeps the list of
// founders that it bootstraps the set with.
func partOf(was *group.Membership, joins bool) *group.Membership {
	switch {
	case joins:
		return &group.Membership{Joins: true}
	case was != nil && len(was.Founders) > 0:
		return &group.Membership{Founders: was.Founders}
	}
	return nil
}
