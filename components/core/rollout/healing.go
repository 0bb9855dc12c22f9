package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

const (
	// goneFor is how long listings must lack a CVM before its Slot gets another one. A single listing without the
	// CVM may be the platform's mistake.
	goneFor = 30 * time.Second
	// serviceWithin is the deadline of a service restart. Without it, the next remediation step would wait as long
	// as a boot may take.
	serviceWithin = 3 * time.Minute
	// firstHealWait separates the first two attempts, and doubles with each attempt (R118): a service is back
	// within it.
	firstHealWait = 30 * time.Second
	// maxHealWait bounds that wait: an operator who received the alert can act by then.
	maxHealWait = 10 * time.Minute
)

// heals returns the remediation step that m needs. ok is false where no fault is to be healed, or only an operator
// may heal it. The steps are, in order:
//
//  1. A restart of the service that the spec names, if the agent can do that.
//  2. A restart of the CVM, max_attempts times.
//  3. One replacement (R115), if the spec says "auto", and if that many restarts failed in one outage or no CVM is
//     left.
//
// While the replacement is not allowed, a CVM that is down is started again as often as without "auto". The cause
// may be a preserved disk, or another unhealthy member. A CVM that the platform lists as running is never replaced:
// an unreachable agent is no reason to give up a disk (R125).
func (w *world) heals(m *member) (r remedy, a fault, ok bool) {
	h := m.heals.of(func() (h healing) {
		var faulty bool
		if h.fault, faulty = w.faultOf(m); faulty && !h.fault.at.After(w.now) {
			h.remedy, h.ok = w.remedyFor(m, h.fault)
		}
		return h
	})
	return h.remedy, h.fault, h.ok
}

// remedyFor is the remediation step of m for its fault, even before the fault is due.
func (w *world) remedyFor(m *member, a fault) (r remedy, ok bool) {
	auto := w.spec.AutoHealing.Replace == group.ReplaceAuto
	// A held update may be the repair of a CVM that is down, and keeps its disk.
	failed := a.down && !w.outdated(m) && m.failedHeals() >= group.MaxAttempts(w.spec) && w.spec.PreservedDisk(m.ordinal) == ""
	switch {
	case a.gone && !auto:
		return remedy{}, false // held as instance_missing, with the operator's options
	case a.gone, auto && failed && (w.costly(m) == "" || w.spent(m, remedy{kind: operation.Restart})):
		return remedy{kind: operation.Replace}, true
	case a.inside && w.spec.AutoHealing.Service != "" && m.speaks && !m.serviceSpent():
		return remedy{operation.Restart, w.spec.AutoHealing.Service}, true
	}
	return remedy{kind: operation.Restart}, true
}

// serviceSpent reports that the service had all its restarts before a restart of the CVM, or that the agent cannot
// restart it. A start by the host was no attempt at the service.
func (m *member) serviceSpent() bool {
	if h := m.record.Heals; h != nil && (h.Services >= group.ServiceRestarts || h.Attempts > 0 && h.Boot == "") {
		return true
	}
	return slices.ContainsFunc(m.healed, func(op *operation.Operation) bool {
		return op.Failure.Cause == operation.CauseService && m.inOutage(op)
	})
}

// failedHeals counts the restarts of this outage that began while the CVM was down, and did not help. Restarts of a
// CVM that ran are no evidence about a CVM that is down.
func (m *member) failedHeals() int {
	if m.record.Heals == nil {
		return 0
	}
	return m.record.Heals.FailedDown
}

// hangs reports that the last restart of m's CVM in this outage, which asked the guest to restart, brought no boot,
// even a late one. A guest whose agent reports does not hang.
func (m *member) hangs() bool {
	if m.report != nil {
		return false
	}
	for _, op := range slices.Backward(m.healed) {
		if op.Kind == operation.Restart && op.Way.Service == "" {
			return bootless(op) && op.Call.Number > 0 && !m.cameAfter(op.Times.Ended) && m.inOutage(op)
		}
	}
	return false
}

// bootless reports that the boot that op waited for never appeared.
func bootless(op *operation.Operation) bool {
	f := op.Failure
	return op.Phase == operation.Failed && op.Entered[operation.Joining].IsZero() && f.Cause == operation.CauseDeadline && f.Refused == ""
}

// inOutage reports that op was recorded in the present outage of m.
func (m *member) inOutage(op *operation.Operation) bool {
	away := m.record.UnavailableSince
	return !away.IsZero() && !away.After(op.Times.Created)
}

// cameAfter reports that a Boot of m was admitted later than the given time.
func (m *member) cameAfter(at time.Time) bool {
	return m.seen.Admission != nil && m.seen.Admission.AdmittedAt.After(at)
}

// heal makes c the remediation step of m, if m needs one. An operator's request for m takes its place.
func (w *world) heal(m *member, c *candidate) bool {
	r, a, ok := w.heals(m)
	if !ok || c.marked {
		return false
	}
	w.healBy(c, r, a)
	return true
}

// healsSoon reports that the spec wants m repaired before its update, and that the fault has not lasted long enough.
func (w *world) healsSoon(m *member) bool {
	_, a, ok := w.heals(m)
	return w.healsAtRunning() && !ok && a.at.After(w.now)
}

// healsAtRunning: the spec wants restarts at the running Revision before the update (R116).
func (w *world) healsAtRunning() bool {
	return w.spec.AutoHealing != nil && w.spec.AutoHealing.At == group.HealAtRunning
}

func (w *world) healBy(c *candidate, r remedy, a fault) {
	c.kind, c.service, c.actor, c.why, c.down = r.kind, r.service, operation.ActorHealing, a.why, a.down
	if c.to = c.m.runs(); r.kind == operation.Replace {
		c.to = w.madeAgainAt(c.m)
	}
}

// madeAgainAt is the Revision of the CVM that healing creates for m. While m's update is still to come, and may be
// held or fail, it is the last proven Revision of the group, if that may run. Otherwise it is the wanted Revision. That
// also holds for the last member of an older version: without its vote the others go on to data that the older
// version refuses.
func (w *world) madeAgainAt(m *member) string {
	if proven, known := w.lastProven(); known && w.outdated(m) && w.gate(proven).Allowed && len(w.irreversible(m, m.want.revision, &taken{})) == 0 {
		return proven
	}
	return m.want.revision
}

// attempted counts the consecutive attempts to heal m, and the newest replacements that created nothing. Such a
// replacement counts for no remediation step, and delays the next attempt.
func (m *member) attempted() int {
	h := m.record.Heals
	if h == nil {
		return 0
	}
	n := h.Attempts + h.Services
	for _, op := range slices.Backward(m.healed) {
		if op.Kind != operation.Replace || !op.MadeNothing() {
			break
		}
		n++
	}
	return n
}

// spent reports that the remediation step had all its attempts (R118).
func (w *world) spent(m *member, r remedy) bool {
	h := m.record.Heals
	if h == nil || r.service != "" {
		return false // another remediation step follows
	}
	if r.kind == operation.Replace {
		return h.Replacements > 0
	}
	limit := group.MaxAttempts(w.spec)
	if m.halted() {
		limit *= 2 // starting a CVM that is down takes nothing away, so earlier attempts on a running CVM do not use it up
	}
	return h.Attempts-h.Shared >= limit
}

// shared reports that a start of m takes nothing away and that other members went down with it. Their common cause
// may end without a repair. Such an attempt is not counted: an outage of the key service would use up the attempts
// of each Slot (R122).
func (w *world) shared(c candidate) bool {
	return c.kind == operation.Restart && c.service == "" && (c.down || c.m.hangs()) && w.costly(c.m) != ""
}

// quarantined reports that m is unhealthy and that all automatic attempts were made (R118).
func (w *world) quarantined(m *member) bool {
	if m.open != nil || w.spec.AutoHealing == nil {
		return false
	}
	if h := m.record.Heals; h != nil && h.LastKind == string(operation.Replace) && !m.missing() && !m.admitted() {
		return true // its new CVM was never admitted, so ails does not report it; a Slot without a CVM still gets one
	}
	r, _, ok := w.heals(m)
	return ok && w.spent(m, r)
}

// keepHeals removes attempts after a whole window of health (R118). It records since when the member's process
// gives no answer, and since when listings lack the bound CVM.
func (w *world) keepHeals(m *member) {
	rec := &m.record
	switch {
	case m.report == nil:
	case !w.unanswered(m), rec.Membership.Waits():
		// A member that the others have not listed yet must not run its process. Once listed, the process has its
		// time to start.
		rec.DownSince = time.Time{}
	case rec.DownSince.IsZero() || rec.DownSince.After(w.now):
		rec.DownSince = w.now
	}
	if m.available {
		w.forgetHeals(m, w.now)
	}
	switch {
	case !w.platformKnown(m):
	case !m.vanished():
		rec.MissedSince = time.Time{}
	case rec.MissedSince.IsZero() || rec.MissedSince.After(w.now):
		rec.MissedSince = w.now
	}
}

// noteOwnBoot counts a Boot of m that no step asked for as an attempt to heal m. The hosts of some platforms start a
// CVM that ended, without a limit: such a Boot is the restart that healing would have made (R118). The first Boot after
// the last call of an ended step was asked for, since that step may end before the Boot comes.
func (w *world) noteOwnBoot(m *member) {
	boot, h := m.seen.Admission, group.Heals{}
	if m.record.Heals != nil {
		h = *m.record.Heals
	}
	if m.record.AvailableBoot == "" || boot.BootID == m.record.AvailableBoot || boot.BootID == h.Boot {
		return
	}
	asked := slices.ContainsFunc(w.rec.Operations, func(op operation.Operation) bool {
		ended := op.Phase.Ended() && op.Times.Ended.Before(boot.AdmittedAt) && op.Before.BootID != m.record.AvailableBoot
		return op.Slot == m.slot && op.Call.Number > 0 && !ended && !boot.AdmittedAt.Before(op.Times.Created)
	})
	if asked {
		return
	}
	h.Attempts, h.Boot, h.LastAt = h.Attempts+1, boot.BootID, w.now
	h.LastKind, h.LastWhy = string(operation.Restart), "it started again without a step"
	if down, silent := w.wentWith(m); down+silent > 1 {
		h.Shared++ // the power of a host, for example
	}
	m.record.Heals = &h
}

// costly returns why m's disk is not given up now without an operator; "": the planner may replace m. Either
// another Slot is unavailable, or other members of the cluster went down when m did. A newcomer that only m keeps
// out of the set does not count: each would wait for the repair of the other.
func (w *world) costly(m *member) string {
	gone := candidate{m: m, kind: operation.Replace, condition: m.condition}
	if n, _ := w.waitedFor(gone, w.tally.unavailable); n > 0 {
		return fmt.Sprintf("%d other slots are unavailable", n)
	}
	if down, silent := w.wentWith(m); down+silent > 1 {
		return fmt.Sprintf("%d members of the cluster are down, %d more are silent", down, silent)
	}
	return ""
}

// wentWith counts the members of the cluster, m among them, that went down or silent when m did.
func (w *world) wentWith(m *member) (down, silent int) {
	at := WentAt(m.record)
	return w.obs.Fleet.downWith(at...), w.obs.Fleet.with(at...)
}

// byHand is the command that does the same as healing, wayOut the commands that help m. A request to restart a CVM
// that is gone is dropped at once.
func byHand(c candidate) string {
	if c.kind == operation.Replace {
		return "cadre instance replace " + c.m.slot
	}
	return "cadre instance restart " + c.m.slot
}

func wayOut(m *member) string {
	replace := "cadre instance replace " + m.slot
	if m.vanished() {
		return replace
	}
	return "cadre instance restart " + m.slot + ", or " + replace
}

// holdsOfAttempts: the wait between attempts grows, and the last attempt ends in quarantine.
func (w *world) holdsOfAttempts(c candidate) []Hold {
	m, n := c.m, c.m.attempted()
	if n == 0 {
		return nil
	}
	if w.spent(m, remedy{c.kind, c.service}) {
		return []Hold{hold(HoldQuarantined, "%d %s to heal %s did not last (%s), and no more are made: %s",
			n, plural(n, "attempt"), m.slot, m.record.Heals.LastWhy, wayOut(m))}
	}
	since, why := m.record.Heals.LastAt, ""
	for _, op := range m.healed {
		since = later(since, op.Times.Ended)
		if why = ""; op.MadeNothing() {
			why = "; the last one came to nothing: " + op.Reason
		}
	}
	until := w.nextTry(since, n, firstHealWait, maxHealWait)
	if !w.now.Before(until) {
		return nil
	}
	return []Hold{holdUntil(until, HoldHealBackoff, "attempt %d to heal %s follows in %s%s", n+1, m.slot, short(until.Sub(w.now)), why)}
}

// healed returns why op, which heals m and has had no effect yet, is no longer wanted; "" while it is.
func (w *world) healed(m *member, op operation.Operation) string {
	busy := w.platformWorks(m) || !w.platformKnown(m)
	switch r, a, ok := w.heals(m); {
	case op.MadeWay():
		return "" // the old CVM is gone and the Slot unbound: a stop now would leave the Slot empty
	case w.spec.AutoHealing == nil:
		return "auto_healing_policies was removed"
	case w.unhealed(m):
		return "the slot is excluded from healing"
	case m.ready:
		return "the slot came back by itself"
	case busy:
		return "" // the state is not known yet, and the call waits for it
	case !ok:
		return "the slot does not have any more what was to be healed"
	case r.kind != op.Kind:
		return "planned again: " + strings.ToLower(string(r.kind)) + " is what it needs now"
	case op.Way.Service != "" && !a.inside:
		return "planned again: its CVM is what needs a restart now"
	}
	return ""
}

// noteHeal counts an attempt that begins, and resets the count at another step.
func noteHeal(rec *group.SlotRecord, a Action, now time.Time) {
	switch {
	case a.Actor == operation.ActorHealing:
		var h group.Heals
		if rec.Heals != nil {
			h = *rec.Heals
		}
		h.LastAt, h.LastKind, h.LastWhy = now, string(a.Kind), a.Request.Note
		if a.Way.Service != "" {
			h.Services++
		} else {
			h.Attempts++
		}
		if a.Kind == operation.Replace {
			h.Replacements++
		}
		if a.Before.Shared {
			h.Shared++
		}
		if !a.Before.Down {
			h.RatedAt = now
		}
		rec.Heals = &h
	case a.Actor == operation.ActorOperator && a.Kind != operation.Drain:
		rec.Heals = nil // an operator restarts or replaces it
	case a.Kind == operation.Update && a.Way.Mode == operation.ModeBoot:
		rec.Heals = rec.Heals.Replaced() // it is to run other content
	}
}
