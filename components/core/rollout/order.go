package rollout

import (
	"cmp"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// candidates are the Actions for Slots without an open step, in the order of R104. Creations and replacements come
// first, then removals, then updates and restarts by class.
func (w *world) candidates() []candidate {
	creates := make([]candidate, 0, 8)
	updates := make([]candidate, 0, len(w.members))
	var deletes []candidate
	for _, m := range w.members {
		c := w.need(m)
		if c.rolls() {
			updates = append(updates, c)
			continue
		}
		switch c.kind {
		case "", operation.Delete, operation.Update:
		case operation.Create, operation.Replace:
			creates = append(creates, c)
		case operation.Restart, operation.Drain, operation.Stop:
			updates = append(updates, c)
		}
	}
	for _, m := range w.terminating {
		if c, ok := w.stop(m); ok {
			updates = append(updates, c)
			continue
		}
		keep := w.obs.Deletion != nil && w.obs.Deletion.KeepCVMs
		if (m.open == nil || m.rests() && m.drained() && !w.ending() || w.becomesRemoval(m)) && m.seen.Instance != nil && !keep {
			deletes = append(deletes, removalOf(m))
		}
	}
	slices.SortFunc(updates, w.compare) // no two are equal: each has its own ordinal
	return slices.Concat(creates, deletes, updates)
}

// need returns the Action that brings m to its wanted Revision; an empty Kind means none.
func (w *world) need(m *member) candidate {
	marked := m.namesCVM() || m.asked(RequestUpdate)
	c := candidate{m: m, to: m.want.revision, marked: marked, actor: operation.ActorRollout}
	if stop, ok := w.stop(m); ok {
		return stop
	}
	switch {
	case m.staysStopped():
		return w.whileStopped(m, c)
	case m.open != nil && !w.retargetable(m) && (!m.drained() || !m.rests()):
		return c
	case m.drained():
		return w.drain(m, c)
	case m.open == nil && m.asked(RequestReplace) && !m.missing():
		c.kind, c.actor = operation.Replace, operation.ActorOperator
	case m.namesService() && m.open == nil && m.seen.Instance != nil && m.speaks:
		c.restartService()
	case w.ejected(m) && m.open == nil && !marked && !m.namesService():
		c.kind, c.actor = operation.Replace, operation.ActorScaling // held: an operator must give its disk up
	case m.open == nil && (w.heal(m, &c) || !c.marked && w.healsSoon(m)): // an open step has a deadline of its own
	case m.seen.Instance == nil && w.platformKnown(m):
		c.kind, c.actor = operation.Create, operation.ActorScaling
		return c
	case m.seen.Instance == nil:
		return c // not listed: the needs of m are unknown
	case m.namesCVM() && !w.updatedFirst(m):
		c.kind, c.to = operation.Restart, m.runs()
	case w.outdated(m) && !w.triedAtTarget(m, m.asked(RequestUpdate)):
		c.marked = m.asked(RequestUpdate)
		c.kind, c.refresh, c.forOwn = w.rollKind(m), w.refreshes(m) && (!c.marked || m.speaks), w.onlyOwn(m)
	case m.namesService() && m.open == nil:
		c.restartService() // held: its agent does not report
	default:
		return c
	}
	if c.marked {
		c.actor = operation.ActorOperator
	}
	c.condition = m.condition
	c.class = w.class(m, c)
	return c
}

// restartService makes c the restart of the service that an operator named, regardless of its member's other needs.
func (c *candidate) restartService() {
	c.kind, c.to, c.service, c.marked = operation.Restart, c.m.runs(), c.m.request.Service, true
}

// retargetable: the open Operation acted already and its outcome is decided, but its Revision is not the newest spec's
// (R105).
func (w *world) retargetable(m *member) bool {
	if w.becomesRemoval(m) {
		return true
	}
	if m.open != nil && m.open.Kind != operation.Delete && w.groupStopped() {
		return m.open.Decided() && m.seen.Instance != nil
	}
	if m.open == nil || m.open.Kind == operation.Delete || m.open.To == m.want.revision || !w.outdated(m) {
		return false
	}
	wanted := m.open.Kind == operation.Restart && (m.open.Request.ID != "" || w.windowClosed() || m.open.Actor == operation.ActorHealing && (w.healsAtRunning() || w.renews(m)))
	if (wanted || m.open.Kind == operation.Stop) && !m.asked(RequestUpdate) {
		return false // an operator, the spec or a closed window wants a boot at the current Revision, or the group starts at it
	}
	if proven, known := w.lastProven(); known && m.open.Kind == operation.Replace && m.open.To == proven {
		return false // the CVM is made again first, and updated like the others
	}
	if m.open.Way.Refreshes() && m.open.Phase == operation.Booting {
		return false // the refresh has proven nothing: it is called off
	}
	if w.refreshedAfter(m) && !w.waitsForEdit(m) {
		return false
	}
	// A new CVM cannot be moved before it is listed. Its apparent need is a replacement.
	return m.open.Decided() && m.seen.Instance != nil
}

// becomesRemoval: the open step of m made the CVM of a Slot that is to be removed. That step removes the CVM instead
// (R109). Its CVM is listed, recorded, and the only CVM with its name, so the removal finds all results of m's calls.
func (w *world) becomesRemoval(m *member) bool {
	op, i, deletion := m.open, m.seen.Instance, w.obs.Deletion
	switch {
	case op == nil, i == nil, !m.terminating, deletion != nil && deletion.KeepCVMs:
		return false
	case i.VMUUID != m.boundBefore, len(m.seen.Duplicates) > 0, !op.Decided():
		return false
	}
	return op.Kind == operation.Create || op.Kind == operation.Replace
}

// waitsForEdit: the step of m has booted its target, and m is not ready. A corrected check of a newer spec, or after
// an update a secret, a right or a route, may be all that m needs. The refresh then comes at once. A refresh runs no
// POST_LAUNCH hooks, so the hooks of the step end first.
func (w *world) waitsForEdit(m *member) bool {
	op := m.open
	if op.Phase != operation.Joining || m.observed != op.To || m.report == nil || m.ready || w.began(op) {
		return false
	}
	if op.Kind != operation.Update && len(m.report.Failing) == 0 {
		return false
	}
	return !group.HasHook(w.specAt(op.To), group.PostLaunch) || slices.ContainsFunc(m.report.Steps, func(s StepReport) bool {
		return s.Operation == op.ID && s.Verb == VerbPostLaunch && s.State == operation.StepDone
	})
}

// class returns the class of R31.
func (w *world) class(m *member, c candidate) Class {
	switch {
	case c.marked:
		return ClassMarked
	case c.condition != well:
		return ClassBroken
	case m.leads(), m.named:
		return ClassLeader
	case slices.Contains(w.failedRevs, m.observed):
		return ClassAtFailed
	case !w.voter(m):
		return ClassNonVoter
	}
	return ClassFollower
}

// compare is the order of R31 and R32. Below quorum, unhealthy members are ordered by how advanced their log is, since
// the next quorum forms around the most advanced log (R45).
func (w *world) compare(a, b candidate) int {
	byClass := cmp.Compare(a.class, b.class)
	if byClass == 0 && a.class == ClassBroken && w.quorumLost() {
		if byLog := compareLogs(a.m, b.m); byLog != 0 {
			return byLog
		}
	}
	return cmp.Or(byClass, cmp.Compare(a.condition, b.condition), -cmp.Compare(a.m.ordinal, b.m.ordinal))
}

// compareLogs puts the most advanced log first, and unknown logs last.
func compareLogs(a, b *member) int {
	known := func(m *member) bool { return m.report != nil && m.report.Epoch != 0 }
	switch {
	case known(a) != known(b):
		if known(a) {
			return -1
		}
		return 1
	case !known(a):
		return 0
	}
	return cmp.Or(-cmp.Compare(a.report.Epoch, b.report.Epoch), cmp.Compare(lagOf(a), lagOf(b)))
}

// drain makes c the drain of m, if a Boot of m could serve. Other needed or requested steps are held while the drain
// stands, and reported as such. A down member that is protected too is repaired anyway, because a protection promises
// that; the repair keeps the drain.
func (w *world) drain(m *member, c candidate) candidate {
	switch {
	case m.rests() && m.asked(RequestReplace):
		c.kind, c.actor = operation.Replace, operation.ActorOperator
	case m.rests() && m.asked(RequestRestart) && !m.vanished():
		c.kind, c.actor, c.to, c.service = operation.Restart, operation.ActorOperator, m.runs(), m.request.Service
		c.marked = c.service == ""
	case m.rests() && m.asked(RequestUpdate) && !m.vanished() && w.outdated(m):
		c.kind, c.actor = operation.Update, operation.ActorOperator
	case m.open != nil:
		return c
	case m.missing() && w.platformKnown(m):
		c.kind, c.actor = operation.Create, operation.ActorScaling
		return c
	case m.missing():
		return c
	case m.seen.Protection != nil && w.heal(m, &c) && c.kind == operation.Restart:
	default:
		c.kind, c.actor, c.marked = operation.Drain, operation.ActorOperator, true
		c.to, c.why, c.down = m.runs(), "", false
	}
	c.condition = m.condition
	c.class = w.class(m, c)
	return c
}
