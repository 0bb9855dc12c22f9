package rollout

import (
	"cmp"
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

// fault is a fault of a Slot that none of its other pending steps repairs.
type fault struct {
	// on is the failure class in the terms of restart_policy.
	on  string
	why string
	// down: the platform lists no running CVM. gone: no CVM is left to restart. inside: the agent reports a fault
	// inside of its CVM.
	down, gone, inside bool
	// at is the time from which the planner heals the fault. A time in the future: not yet.
	at time.Time
}

// faultOf returns the fault of m, and whether healing is responsible for it (R112). Healing requires that m was
// available at its Revision, that no other step is due, and that its state is known. A member that was never
// available at its Revision is the rollout's failure, and the same step would fail again (R99). No update could
// repair a CVM that is gone.
func (w *world) faultOf(m *member) (a fault, ill bool) {
	runs, gone := m.runs(), m.vanished() && w.obs.Platform.Known
	switch {
	case m.ready, m.terminating, w.spec.AutoHealing == nil, w.unhealed(m):
		return a, false
	case runs == "" || !m.provenAt(runs), len(m.seen.Duplicates) > 0, m.unmanaged():
		return a, false
	case !gone && (m.movedAway() || m.bootedElsewhere() || w.outdated(m) && !w.updateHeld(m) && !w.healedFirst(m)):
		return a, false
	}
	if a, ill = w.lastingFault(m); !ill {
		return a, false
	}
	return a, w.spec.HealsOn(a.on)
}

// provenAt reports that m was available at a Revision, or that its step to the Revision succeeded without
// availability, when other steps restored the quorum. No further step of the rollout concerns m then.
func (m *member) provenAt(revision string) bool {
	last := m.last()
	stepped := last != nil && last.Phase == operation.Done && (last.Kind == operation.Update || last.Kind == operation.Create)
	return m.record.WasAvailableAt == revision || stepped && last.To == revision
}

// lastingFault evaluates the observation of m in this order: the platform's listing, the silence of its agent, the
// agent's report.
func (w *world) lastingFault(m *member) (fault, bool) {
	i := m.seen.Instance
	// While a platform task does not end, the listing does not show whether the CVM runs. The agent's silence
	// counts then.
	says := i != nil && !i.InProgress
	switch {
	case m.vanished() && w.obs.Platform.Known:
		// A report of its agent, of its leader or of its followers is better evidence.
		return fault{on: group.OnExit, why: "its CVM is gone from the platform", down: true, gone: true, at: m.record.MissedSince.Add(goneFor)},
			m.report == nil && !w.vouched(m)
	case i == nil || w.platformWorks(m):
		return fault{}, false
	case says && i.BootError != "":
		return fault{on: group.OnExit, why: "its CVM does not boot: " + i.BootError, down: true, at: m.silentAt()}, true
	case says && stoppedWord(i):
		return fault{on: group.OnExit, why: "the platform says " + platformWord(i), down: true, at: m.silentAt()}, true
	case says && !i.Running():
		return fault{}, false // the CVM is starting, or its state is not known: no reason to touch it
	case m.report == nil:
		// A restart does not help a member whose Boot was refused.
		return fault{on: group.OnUnhealthy, why: "its agent is silent", at: w.lostAt(m)}, m.admitted() && !w.refused(m)
	}
	return w.unwell(m)
}

// unwell returns the fault in a fresh report that a restart may repair: the process is down, or the health check of
// auto_healing_policies fails. Readiness for traffic does not count (R114). A member that merely has no leader is
// well (R34). During the initial delay of a Boot no fault counts, until the Boot was ready once (R113).
func (w *world) unwell(m *member) (fault, bool) {
	r, check := m.report, w.spec.AutoHealing.HealthCheck
	var booted time.Time
	if a := m.seen.Admission; m.record.AvailableBoot != a.BootID {
		booted = a.AdmittedAt.Add(group.InitialDelay(w.spec))
	}
	switch {
	case m.record.Membership.Waits():
		return fault{}, false // its workload starts once the other members list it
	case w.unanswered(m) && !w.vouched(m):
		at := later(booted, m.record.DownSince.Add(unwellFor))
		return fault{on: group.OnUnhealthy, why: "its workload is down: " + cmp.Or(r.Message, "no word from it"), at: at, inside: true}, true
	case check != "" && slices.Contains(r.Failing, check) && !w.merelyLeaderless(m):
		return fault{on: group.OnUnhealthy, why: "its check " + check + " fails", at: booted, inside: true}, true
	}
	return fault{}, false
}

// unanswered reports that m's agent is in contact, and that m's process refused its driver's connection or gave no
// answer. Neither proves at once that the process is down: a slow answer of a healthy process looks the same (R10).
func (w *world) unanswered(m *member) bool {
	return m.report != nil && m.answers(w.spec) && !m.report.alive()
}

// processDown reports that m's process has refused connections for as long as healing requires, and that no other
// member vouches for it. A missing answer is no proof after any time. A member that waits to be listed starts no
// process before that.
func (w *world) processDown(m *member) bool {
	if !w.unanswered(m) || w.vouched(m) {
		return false
	}
	return m.record.Membership.Waits() || m.report.Liveness == LivenessRefused && w.mutedLong(m)
}

// mutedLong reports that m's process has not answered for as long as healing requires. A slow answer arrives
// sooner.
func (w *world) mutedLong(m *member) bool { return !w.now.Before(m.record.DownSince.Add(unwellFor)) }

// vouched reports that a live member names m as its leader, or leads and sees m follow. Then m's process works,
// even if its own driver gets no answer.
func (w *world) vouched(m *member) bool { return w.followed(m) || w.follows(m) }

// silentAt is the time after which a live Boot would have sent another report. A reporting member is not down, even
// if a listing says so. A member whose session is cut sends no further report.
func (m *member) silentAt() time.Time {
	if m.report == nil || m.cut {
		return time.Time{}
	}
	return m.report.ReceivedAt.Add(operation.LiveWithin)
}

// refused reports that the coordinator refused another Boot of the Slot's CVM recently, in this outage. The refused
// Boot proved its instance: an unproven caller that names the instance must not keep a silent CVM from its restart.
func (w *world) refused(m *member) bool {
	r, a, since := m.seen.Refusal, m.seen.Admission, m.record.UnavailableSince
	if r == nil || a == nil || !r.Proven || r.InstanceID != a.InstanceID || r.BootID == a.BootID {
		return false
	}
	return !since.IsZero() && !r.At.Before(since) && w.now.Sub(r.At) < w.t.LostAfter
}

// followed reports that a live member names m as its leader.
func (w *world) followed(m *member) bool {
	names := func(other *member) string {
		if r := other.report; r != nil && r.alive() {
			return r.Leader
		}
		return ""
	}
	n := w.found.leaders.of(func() map[string]int {
		all := map[string]int{}
		for _, other := range w.everyone {
			all[names(other)]++
		}
		return all
	})[m.slot]
	if names(m) == m.slot {
		n--
	}
	return n > 0
}

// updateHeld reports that m's update waits for an operator's decision, for any length of time. Until then the
// planner heals m at the Revision that it runs (R92, R116).
func (w *world) updateHeld(m *member) bool {
	if m.observed == "" || w.givenSince(m) {
		return false
	}
	state := w.rec.Rollout
	failed := state != nil && state.To == w.target && state.State == operation.FailedState
	return failed || w.updateRefused(m) || m.seen.Protection != nil || w.pausedFor(operation.Update, operation.ActorRollout) || !w.gate(m.want.revision).Allowed || w.exceeds(m)
}

// healedFirst reports that m is silent and that its due update is a refresh, which only a reporting agent can
// prove. The planner restarts m at the Revision that it runs, and refreshes it afterwards.
func (w *world) healedFirst(m *member) bool {
	i := m.seen.Instance
	return m.report == nil && i.Running() && i.BootError == "" && w.onlyAgentSpec(m)
}

// onlyAgentSpec reports that the update of m needs no more than a refresh of a healthy Boot.
func (w *world) onlyAgentSpec(m *member) bool {
	return !w.envUnapplied(m) && w.takesRefresh(m, m.runs(), m.want.revision)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stoppedWord reports that the platform's status is that of a CVM that stays down.
func stoppedWord(i *Instance) bool { return i.Status == "stopped" || i.Status == "exited" }

// remedy is a remediation step: its kind, and the service of a Restart, "" for a restart of the CVM.
type remedy struct {
	kind    operation.Kind
	service string
}

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
	h, known := w.found.remedies[m]
	if !known {
		h.remedy, h.fault, h.ok = w.findRemedy(m)
		if w.found.remedies == nil {
			w.found.remedies = map[*member]healing{}
		}
		w.found.remedies[m] = h
	}
	return h.remedy, h.fault, h.ok
}

// healing is the cached result of heals for one member.
type healing struct {
	remedy remedy
	fault  fault
	ok     bool
}

func (w *world) findRemedy(m *member) (r remedy, a fault, ok bool) {
	a, ill := w.faultOf(m)
	if !ill || a.at.After(w.now) {
		return remedy{}, a, false
	}
	r, ok = w.remedyFor(m, a)
	return r, a, ok
}

// rungFor is the remediation step of m for its fault, even before the fault is due.
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
// restart it.
func (m *member) serviceSpent() bool {
	if h := m.record.Heals; h != nil && (h.Services >= group.ServiceRestarts || h.Attempts > 0) {
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

func (w *world) healBy(c *candidate, r remedy, a fault) {
	c.kind, c.service, c.actor, c.why, c.down = r.kind, r.service, operation.ActorHealing, a.why, a.down
	if c.to = c.m.runs(); r.kind == operation.Replace {
		c.to = w.madeAgainAt(c.m)
	}
}

// madeAgainAt is the Revision of the CVM that healing creates for m. While m's update is still to come, and may be
// held or fail, it is the last proven Revision of the group, if that may run. Otherwise it is the wanted Revision.
func (w *world) madeAgainAt(m *member) string {
	if proven, known := w.lastProven(); known && w.outdated(m) && w.gate(proven).Allowed {
		return proven
	}
	return m.want.revision
}

// healsToCome returns the steps that heal Slots without another planned step, whose fault is not due yet. Such a
// step carries only that reason: its other predicates are evaluated when it is due.
func (w *world) healsToCome(planned []Action) []Action {
	var actions []Action
	for _, m := range w.members {
		a, ill := w.faultOf(m)
		if !ill || !a.at.After(w.now) || m.open != nil || m.drained() || slices.ContainsFunc(planned, func(p Action) bool { return p.Slot == m.slot }) {
			continue
		}
		r, ok := w.remedyFor(m, a)
		if !ok || w.spent(m, r) {
			continue
		}
		c := candidate{m: m, to: m.want.revision}
		w.healBy(&c, r, a)
		c.condition = m.condition
		c.class = w.class(m, c)
		step := w.action(c)
		waits := holdUntil(a.at, HoldHealBackoff, "%s; healed in %s unless %s comes back by itself", a.why, short(a.at.Sub(w.now)), m.slot)
		if m.report == nil && a.at.Equal(w.lostAt(m)) {
			waits = w.holdOfSilence(m)
		}
		step.Holds = append(w.holdsOfAttempts(c), waits)
		actions = append(actions, step)
	}
	return actions
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

// givenUp returns the Slots in quarantine.
func (w *world) givenUp() []string {
	var slots []string
	for _, m := range w.members {
		if w.quarantined(m) {
			slots = append(slots, m.slot)
		}
	}
	return slots
}

// forgetHeals removes the recorded attempts of m after a whole window of availability. The window ends at until,
// and starts at the later of the recorded start of availability and the last attempt.
func (w *world) forgetHeals(m *member, until time.Time) {
	rec := &m.record
	if rec.Heals == nil || rec.AvailableSince.IsZero() {
		return
	}
	since := rec.AvailableSince
	if at := rec.Heals.LastAt; !at.After(w.now) { // a leader whose clock was ahead wrote a time in the future
		since = later(since, at)
	}
	if until.Sub(since) >= group.HealWindow(w.spec) {
		rec.Heals = nil
	}
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

// holdsOfHealing bounds automatic repairs: the number of attempts, the number of simultaneous repairs, and their
// rate where the members more likely share one cause (R117-R120).
func (w *world) holdsOfHealing(c candidate, l look) []Hold {
	var holds []Hold
	m := c.m
	if w.spec.AutoHealing == nil {
		return nil // an Operation of healing that has begun is cancelled
	}
	if l.op == nil {
		holds = append(holds, w.holdsOfAttempts(c)...)
		// A CVM that is down starts in parallel with other repairs: the start takes nothing away.
		starts := c.kind == operation.Restart && c.condition == notBooted
		if !starts && (c.service == "" || !w.processDown(m)) {
			holds = append(holds, w.holdsOfRate(c, l)...)
		}
		limit := max(group.MaxUnavailable(w.spec), 1)
		waits, _ := w.waitedFor(c, w.tally.open)
		if n := w.tally.healing + l.taken.healing; !starts && n >= limit && waits+len(l.taken.order) > 0 {
			holds = append(holds, hold(HoldHealInProgress, "%d at a time are healed, and so many are", limit))
		}
	}
	if why := w.costly(m); why != "" && c.kind == operation.Replace {
		holds = append(holds, hold(HoldHealStorm, "%s; heal %s yourself once that is understood: %s", why, m.slot, byHand(c)))
	}
	return holds
}

// costly returns why m's disk is not given up now without an operator; "": the planner may replace m. Either
// another Slot is unavailable, or other members of the cluster went down when m did. A newcomer that only m keeps
// out of the set does not count: each would wait for the repair of the other.
func (w *world) costly(m *member) string {
	gone := candidate{m: m, kind: operation.Replace, condition: m.condition}
	if n, _ := w.waitedFor(gone, w.tally.unavailable); n > 0 {
		return fmt.Sprintf("%d other slots are unavailable", n)
	}
	at := WentAt(m.record)
	if down, silent := w.obs.Fleet.downWith(at...), w.obs.Fleet.with(at...); down+silent > 1 {
		return fmt.Sprintf("%d members of the cluster are down, %d more are silent", down, silent)
	}
	return ""
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
	i := m.seen.Instance
	busy := w.platformWorks(m) || i == nil && !w.obs.Platform.Known
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
		return "planned anew: " + strings.ToLower(string(r.kind)) + " is what it needs now"
	case op.Way.Service != "" && !a.inside:
		return "planned anew: its CVM is what needs a restart now"
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
