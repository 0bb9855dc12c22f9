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
	// goneFor is how long listings lack a CVM before its Slot gets another one: a listing
	// that lacks it once may be the platform's mistake.
	goneFor = 30 * time.Second
	// serviceWithin is how long a restart of a service has to help: where it does not, the
	// next rung should not wait as long as a boot may take.
	serviceWithin = 3 * time.Minute
	// firstHealWait is between the first two attempts, and doubled each time (R118): a service is back within that.
	firstHealWait = 30 * time.Second
	// maxHealWait bounds it: by then an alerted operator can look.
	maxHealWait = 10 * time.Minute
)

// ailment is what a Slot has that heals by none of the steps that it needs anyway.
type ailment struct {
	// on is the failure in the words of restart_policy.
	on  string
	why string
	// down: by the platform's word nothing runs. gone: no CVM is left to restart. inside: the
	// agent says what is wrong in its CVM.
	down, gone, inside bool
	// at is from when on it is healed; to come: not yet.
	at time.Time
}

// ails tells what m has, and whether anything is there that healing is about: it was well at
// what it runs, nothing else is to be done about it, and its state is known (R112). What
// never was available at its Revision is the rollout's failure, and the same again would
// fail again (R99). A CVM that is gone is none that an update could repair.
func (w *world) ails(m *member) (a ailment, ill bool) {
	runs, gone := m.runs(), m.vanished() && w.obs.Platform.Known
	switch {
	case m.ready, m.condemned, w.spec.AutoHealing == nil, w.unhealed(m):
		return a, false
	case runs == "" || !m.provenAt(runs), len(m.seen.Duplicates) > 0, m.unadopted():
		return a, false
	case !gone && (m.movedAway() || m.provenElsewhere() || w.outdated(m) && !w.updateHeld(m) && !w.healedFirst(m)):
		return a, false
	}
	if a, ill = w.ailing(m); !ill {
		return a, false
	}
	return a, w.spec.HealsOn(a.on)
}

// provenAt: m was available at a Revision, or its step to it ended well without that, for the quorum
// that the other steps restored: no step of the rollout is about it any more.
func (m *member) provenAt(revision string) bool {
	last := m.last()
	stepped := last != nil && last.Phase == operation.Done && (last.Kind == operation.Update || last.Kind == operation.Create)
	return m.record.WasAvailableAt == revision || stepped && last.To == revision
}

// ailing is what is seen of m: the platform's word first, then its agent's silence, then what
// its agent says.
func (w *world) ailing(m *member) (ailment, bool) {
	i := m.seen.Instance
	// A task that does not end says nothing of whether the CVM runs: its agent's silence counts.
	says := i != nil && !i.InProgress
	switch {
	case m.vanished() && w.obs.Platform.Known:
		// Its agent's word, or that of those who follow it or lead it, is the better one.
		return ailment{on: group.OnExit, why: "its CVM is gone from the platform", down: true, gone: true, at: m.record.MissedSince.Add(goneFor)},
			m.report == nil && !w.vouched(m)
	case i == nil || w.platformWorks(m):
		return ailment{}, false
	case says && i.BootError != "":
		return ailment{on: group.OnExit, why: "its CVM does not boot: " + i.BootError, down: true, at: m.silentAt()}, true
	case says && stoppedWord(i):
		return ailment{on: group.OnExit, why: "the platform says " + platformWord(i), down: true, at: m.silentAt()}, true
	case says && !i.Running():
		return ailment{}, false // on its way, or in words that are not known: no reason to touch it
	case m.report == nil:
		// One that is refused is not helped by a restart.
		return ailment{on: group.OnUnhealthy, why: "its agent is silent", at: w.lostAt(m)}, m.admitted() && !w.refused(m)
	}
	return w.unwell(m)
}

// unwell is what a fresh report says that a restart may help: the process is down, or the
// check fails that healing goes by. Readiness for traffic is none of it (R114), and a
// member that merely has no leader is well (R34). Right after a Boot nothing counts, until it was ready once (R113).
func (w *world) unwell(m *member) (ailment, bool) {
	r, check := m.report, w.spec.AutoHealing.HealthCheck
	var booted time.Time
	if a := m.seen.Admission; m.record.AvailableBoot != a.BootID {
		booted = a.AdmittedAt.Add(group.InitialDelay(w.spec))
	}
	switch {
	case m.record.Membership.Waits():
		return ailment{}, false // its workload starts when the others have listed it
	case w.unanswered(m) && !w.vouched(m):
		at := later(booted, m.record.DownSince.Add(unwellFor))
		return ailment{on: group.OnUnhealthy, why: "its workload is down: " + cmp.Or(r.Message, "no word from it"), at: at, inside: true}, true
	case check != "" && slices.Contains(r.Failing, check) && !w.merelyLeaderless(m):
		return ailment{on: group.OnUnhealthy, why: "its check " + check + " fails", at: booted, inside: true}, true
	}
	return ailment{}, false
}

// unanswered: m's agent speaks, and m's process refused the connection of its driver or gave no answer.
// Neither proves at once that the process is down: a slow answer of a healthy process looks the same (R10).
func (w *world) unanswered(m *member) bool {
	return m.report != nil && m.answers(w.spec) && !m.report.alive()
}

// processDown: m's process refused connections for as long as healing demands, and no other member vouches for
// it. No answer, however long, is no proof. A member that waits to be listed starts no process until then.
func (w *world) processDown(m *member) bool {
	if !w.unanswered(m) || w.vouched(m) {
		return false
	}
	return m.record.Membership.Waits() || m.report.Liveness == LivenessRefused && w.mutedLong(m)
}

// mutedLong: m's process did not answer for as long as healing demands. A slow answer passes within that.
func (w *world) mutedLong(m *member) bool { return !w.now.Before(m.record.DownSince.Add(unwellFor)) }

// vouched: a member that lives names m as its leader, or leads and sees m follow. Then m's process works,
// whatever its own driver hears of it.
func (w *world) vouched(m *member) bool { return w.followed(m) || w.follows(m) }

// silentAt is when the last report is so old that a live Boot would have sent another: one that
// speaks is not down, whatever a listing says. One that is cut says nothing more.
func (m *member) silentAt() time.Time {
	if m.report == nil || m.cut {
		return time.Time{}
	}
	return m.report.ReceivedAt.Add(operation.LiveWithin)
}

// refused: another Boot of the Slot's CVM was, in this outage and a moment ago. It proved that it is
// one: the word of a stranger who names the instance keeps no silent CVM from its restart.
func (w *world) refused(m *member) bool {
	r, a, since := m.seen.Refusal, m.seen.Admission, m.record.UnavailableSince
	if r == nil || a == nil || !r.Proven || r.InstanceID != a.InstanceID || r.BootID == a.BootID {
		return false
	}
	return !since.IsZero() && !r.At.Before(since) && w.now.Sub(r.At) < w.t.LostAfter
}

// followed: a member that lives names m as its leader.
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

// updateHeld: m's update waits for a person, however long that takes; until then m is healed
// at what it runs (R92, R116).
func (w *world) updateHeld(m *member) bool {
	if m.observed == "" || w.givenSince(m) {
		return false
	}
	state := w.rec.Rollout
	failed := state != nil && state.To == w.target && state.State == operation.FailedState
	return failed || w.updateRefused(m) || m.seen.Protection != nil || w.pausedFor(operation.Update, operation.ActorRollout) || !w.gate(m.want.revision).Allowed || w.exceeds(m)
}

// healedFirst: only an agent that speaks can prove the refresh that the silent m is due. It is restarted at
// what it runs, and refreshed then.
func (w *world) healedFirst(m *member) bool {
	i := m.seen.Instance
	return m.report == nil && i.Running() && i.BootError == "" && w.onlyAgentSpec(m)
}

// onlyConduct: what m is outdated by takes a refresh of a Boot that is well.
func (w *world) onlyAgentSpec(m *member) bool {
	return !w.envUnapplied(m) && w.takesRefresh(m, m.runs(), m.want.revision)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stoppedWord: the platform's word for a CVM that stays down.
func stoppedWord(i *Instance) bool { return i.Status == "stopped" || i.Status == "exited" }

// rung is what is done to heal: the service of a Restart, "" for the CVM's.
type rung struct {
	kind    operation.Kind
	service string
}

// heals is the rung that m is at: the service that the spec names is restarted, where the agent
// can; then its CVM, max_attempts times; where that many restarts failed in one outage, or there
// is no CVM left, it gets another one, once, if the spec says "auto" (R115). While that may not be,
// since the spec preserves the disk or somebody else is not well, what is down is started again as
// often as where a person is to be asked. No CVM goes for that which runs, by the platform's word: an
// agent that cannot be heard is no reason to give up a disk (R125). ok is false where nothing
// is to be healed, or only a person may.
func (w *world) heals(m *member) (r rung, a ailment, ok bool) {
	h, known := w.found.rungs[m]
	if !known {
		h.rung, h.ailment, h.ok = w.findRung(m)
		if w.found.rungs == nil {
			w.found.rungs = map[*member]healing{}
		}
		w.found.rungs[m] = h
	}
	return h.rung, h.ailment, h.ok
}

// healing is what heals a member.
type healing struct {
	rung    rung
	ailment ailment
	ok      bool
}

func (w *world) findRung(m *member) (r rung, a ailment, ok bool) {
	a, ill := w.ails(m)
	if !ill || a.at.After(w.now) {
		return rung{}, a, false
	}
	r, ok = w.rungFor(m, a)
	return r, a, ok
}

// rungFor is the rung that m is at with what it has, whether or not its time is there.
func (w *world) rungFor(m *member, a ailment) (r rung, ok bool) {
	auto := w.spec.AutoHealing.Replace == group.ReplaceAuto
	// An update that is held may be the repair of what is down, and keeps its disk.
	failed := a.down && !w.outdated(m) && m.failedHeals() >= group.MaxAttempts(w.spec) && w.spec.PreservedDisk(m.ordinal) == ""
	switch {
	case a.gone && !auto:
		return rung{}, false // held as instance_missing, with what an operator can do
	case a.gone, auto && failed && (w.costly(m) == "" || w.spent(m, rung{kind: operation.Restart})):
		return rung{kind: operation.Replace}, true
	case a.inside && w.spec.AutoHealing.Service != "" && m.speaks && !m.serviceSpent():
		return rung{operation.Restart, w.spec.AutoHealing.Service}, true
	}
	return rung{kind: operation.Restart}, true
}

// serviceSpent: the service was restarted as often as it is before the CVM is, or the agent
// cannot do it.
func (m *member) serviceSpent() bool {
	if h := m.record.Heals; h != nil && (h.Services >= group.ServiceRestarts || h.Attempts > 0) {
		return true
	}
	return slices.ContainsFunc(m.healed, func(op *operation.Operation) bool {
		return op.Failure.Cause == operation.CauseService && m.inOutage(op)
	})
}

// failedHeals counts the restarts of this outage that were made while the CVM was down, and did
// not help. Those of a CVM that ran say nothing about one that is down.
func (m *member) failedHeals() int {
	if m.record.Heals == nil {
		return 0
	}
	return m.record.Heals.FailedDown
}

// hangs: the last restart of m's CVM in this outage, which asked its guest, brought no boot, also
// not a late one. A guest whose agent speaks can be asked.
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

// bootless: nothing was seen of the boot that op waited for.
func bootless(op *operation.Operation) bool {
	f := op.Failure
	return op.Phase == operation.Failed && op.Entered[operation.Joining].IsZero() && f.Cause == operation.CauseDeadline && f.Refused == ""
}

// inOutage: op was recorded since m is away.
func (m *member) inOutage(op *operation.Operation) bool {
	away := m.record.UnavailableSince
	return !away.IsZero() && !away.After(op.Times.Created)
}

// cameAfter: a Boot of m was admitted after at.
func (m *member) cameAfter(at time.Time) bool {
	return m.seen.Admission != nil && m.seen.Admission.AdmittedAt.After(at)
}

// heal makes c what heals m, if anything is to. An operator's restart is one as well.
func (w *world) heal(m *member, c *candidate) bool {
	r, a, ok := w.heals(m)
	if !ok || c.marked {
		return false
	}
	w.healBy(c, r, a)
	return true
}

func (w *world) healBy(c *candidate, r rung, a ailment) {
	c.kind, c.service, c.actor, c.why, c.down = r.kind, r.service, operation.ActorHealing, a.why, a.down
	if c.to = c.m.runs(); r.kind == operation.Replace {
		c.to = w.madeAgainAt(c.m)
	}
}

// madeAgainAt is what healing makes m at: what it is to run, and where its update is still to come, which may be
// held or fail, what the group's stable members run.
func (w *world) madeAgainAt(m *member) string {
	if proven, known := w.lastProven(); known && w.outdated(m) && w.gate(proven).Allowed {
		return proven
	}
	return m.want.revision
}

// healsToCome are the steps that heal Slots which nothing else is planned for, and whose ailment is
// not to be healed yet. Only that is told of them: what else may hold them is judged when it is.
func (w *world) healsToCome(planned []Action) []Action {
	var actions []Action
	for _, m := range w.members {
		a, ill := w.ails(m)
		if !ill || !a.at.After(w.now) || m.open != nil || m.drained() || slices.ContainsFunc(planned, func(p Action) bool { return p.Slot == m.slot }) {
			continue
		}
		r, ok := w.rungFor(m, a)
		if !ok || w.spent(m, r) {
			continue
		}
		c := candidate{m: m, to: m.want.revision}
		w.healBy(&c, r, a)
		c.condition = m.condition
		c.class = w.class(m, c)
		step := w.action(c)
		waits := holdUntil(a.at, HoldHealDeferred, "%s; healed in %s unless %s comes back by itself", a.why, short(a.at.Sub(w.now)), m.slot)
		if m.report == nil && a.at.Equal(w.lostAt(m)) {
			waits = w.holdOfSilence(m)
		}
		step.Holds = append(w.holdsOfAttempts(c), waits)
		actions = append(actions, step)
	}
	return actions
}

// attempted counts the attempts to heal m in a row, and with them the newest replacements that came
// to nothing: they count for no rung, and make the next one wait.
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

// spent: the rung was tried as often as it is (R118).
func (w *world) spent(m *member, r rung) bool {
	h := m.record.Heals
	if h == nil || r.service != "" {
		return false // there is a next rung
	}
	if r.kind == operation.Replace {
		return h.Replacements > 0
	}
	limit := group.MaxAttempts(w.spec)
	if m.halted() {
		limit *= 2 // to start what is down costs nothing, whatever was tried while it ran
	}
	return h.Attempts-h.Shared >= limit
}

// shared: a start of m takes nothing away, and others went with it: the cause may be one that they share and that ends
// by itself. Such an attempt is not counted, or an outage of the key service would spend those of each slot (R122).
func (w *world) shared(c candidate) bool {
	return c.kind == operation.Restart && c.service == "" && (c.down || c.m.hangs()) && w.costly(c.m) != ""
}

// quarantined: m is ill, and everything that may be done by itself was (R118).
func (w *world) quarantined(m *member) bool {
	if m.open != nil || w.spec.AutoHealing == nil {
		return false
	}
	if h := m.record.Heals; h != nil && h.LastKind == string(operation.Replace) && !m.missing() && !m.admitted() {
		return true // its new CVM never came in: it was never well, and so is not ill. One that has none gets it.
	}
	r, _, ok := w.heals(m)
	return ok && w.spent(m, r)
}

// givenUp are the Slots in quarantine.
func (w *world) givenUp() []string {
	var slots []string
	for _, m := range w.members {
		if w.quarantined(m) {
			slots = append(slots, m.slot)
		}
	}
	return slots
}

// forgetHeals forgets them where m, as its record says, was available for a whole window until then,
// and since the last of them.
func (w *world) forgetHeals(m *member, until time.Time) {
	rec := &m.record
	if rec.Heals == nil || rec.AvailableSince.IsZero() {
		return
	}
	since := rec.AvailableSince
	if at := rec.Heals.LastAt; !at.After(w.now) { // a time to come was written by a leader whose clock was ahead
		since = later(since, at)
	}
	if until.Sub(since) >= group.HealWindow(w.spec) {
		rec.Heals = nil
	}
}

// keepHeals forgets attempts after a whole window of health (R118), and notes since when the
// member's process gives no answer, and since when listings lack the bound CVM.
func (w *world) keepHeals(m *member) {
	rec := &m.record
	switch {
	case m.report == nil:
	case !w.unanswered(m), rec.Membership.Waits():
		// One that the others did not list yet is not to run: once they have, it has its time to start.
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

// holdsOfHealing bounds what is repaired by itself: how often, how many at a time, and at which rate where the
// cause is more likely something that all share (R117-R120).
func (w *world) holdsOfHealing(c candidate, l look) []Hold {
	var holds []Hold
	m := c.m
	if w.spec.AutoHealing == nil {
		return nil // an Operation that it began is called off
	}
	if l.op == nil {
		holds = append(holds, w.holdsOfAttempts(c)...)
		// A CVM that is down is started in addition to others: the start takes nothing away, and waits for no turn.
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

// costly is why m's disk is not given up without an operator now: another member is not well, or of the
// cluster's members others went when m did; "": all are. A newcomer that only m keeps out of the set is not
// ill: it would wait for healing, and healing for it.
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

// byHand is the command that does what healing would do, wayOut all that help m: a request to restart a
// CVM that is gone is dropped at once.
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

// holdsOfAttempts: longer from the end of one to the next, and then no more.
func (w *world) holdsOfAttempts(c candidate) []Hold {
	m, n := c.m, c.m.attempted()
	if n == 0 {
		return nil
	}
	if w.spent(m, rung{c.kind, c.service}) {
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
	return []Hold{holdUntil(until, HoldHealDeferred, "attempt %d to heal %s follows in %s%s", n+1, m.slot, short(until.Sub(w.now)), why)}
}

// healed is why op, which heals m and did nothing yet, is not wanted any more; "" while it is.
func (w *world) healed(m *member, op operation.Operation) string {
	i := m.seen.Instance
	busy := w.platformWorks(m) || i == nil && !w.obs.Platform.Known
	switch r, a, ok := w.heals(m); {
	case op.MadeWay():
		return "" // the old CVM is gone and the Slot unbound: who stops now leaves it empty
	case w.spec.AutoHealing == nil:
		return "auto_healing_policies was removed"
	case w.unhealed(m):
		return "the slot is excluded from healing"
	case m.ready:
		return "the slot came back by itself"
	case busy:
		return "" // nobody can tell yet; the call waits for that
	case !ok:
		return "the slot does not have any more what was to be healed"
	case r.kind != op.Kind:
		return "planned anew: " + strings.ToLower(string(r.kind)) + " is what it needs now"
	case op.Way.Service != "" && !a.inside:
		return "planned anew: its CVM is what needs a restart now"
	}
	return ""
}

// noteHeal counts an attempt that begins, and drops the count where something else is done.
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
		rec.Heals = nil // somebody restarts or replaces it
	case a.Kind == operation.Update && a.Way.Mode == operation.ModeBoot:
		rec.Heals = rec.Heals.Replaced() // it is to run something else
	}
}
