package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// gapSlack is how far a report's proof of health may seem to start after the
// recorded start: the way of a report takes time.
const gapSlack = 2 * time.Second

// judge fills in what is known about m: fresh report, attested Revision, whether
// it is available, and the record as it should read.
func (w *world) judge(m *member) {
	w.unbind(m)
	m.bind(w.appID)
	admitted := m.admitted()
	if admitted {
		m.observed = m.seen.Admission.Revision
	}
	if admitted {
		m.moved = w.findMoved(m, m.seen.Admission.BootID)
	}
	if r := m.seen.Report; r != nil && admitted && m.moved == nil && r.BootID == m.seen.Admission.BootID && w.fresh(r) && !m.outlived(r) {
		m.report = r
	}
	m.speaks = m.report != nil && w.now.Sub(m.report.ReceivedAt) < operation.LiveWithin
	m.cut = m.report != nil && !m.report.CutAt.IsZero() && !w.obs.At.Before(m.report.CutAt)
	m.reason = w.notReady(m)
	m.ready = m.reason == ""
	w.keepClock(m)
	minReady, held := group.MinReady(w.spec), w.now.Sub(m.record.AvailableSince)
	m.settled = m.inService() && held >= minReady
	m.flaps = m.inService() && w.flapLeft(m) > 0
	m.available = m.settled && !m.flaps
	if m.ready && !m.available && m.reason == "" {
		m.reason = "in a step"
		if m.flaps {
			m.reason = fmt.Sprintf("flapping: %s, %s left", w.flapText(), short(w.flapLeft(m)))
		} else if left := minReady - held; left > 0 {
			m.reason = fmt.Sprintf("min_ready, %s left", short(left))
		}
	}
	if m.settled {
		m.record.WasAvailableAt = m.observed
	}
	if m.available {
		w.dropFlaps(m)
	}
	w.keepAssigned(m)
	w.keepRecovery(m)
	w.keepSilence(m)
	w.keepHeals(m)
}

// keepAssigned notes that the Boot of m proved a Revision after the refresh to it had ended: called off, or
// late by a moment. Its CVM was told nothing else, and must not be taken for one that was: the Boot would
// count as gone as soon as its agent is silent, and nobody would heal it (R10).
func (w *world) keepAssigned(m *member) {
	was := m.record.Assigned
	if m.report != nil && m.open == nil && was != "" && was != m.observed && w.takesRefresh(m, was, m.observed) {
		m.record.Assigned = m.observed
	}
}

// bind notes the CVM that fills a Slot at the first listing that shows exactly
// one, of the right app, that a call of ours made. What is bound stays, until an operator
// decides.
func (m *member) bind(appID string) {
	i := m.seen.Instance
	if i == nil || m.unadopted() || m.former(i) || len(m.seen.Duplicates) > 0 || appID != "" && i.AppID != "" && i.AppID != appID {
		return
	}
	if m.record.VMUUID == "" && (m.record.InstanceID == "" || m.record.InstanceID == i.InstanceID) {
		m.record.VMUUID = i.VMUUID
	}
	if m.record.VMUUID != i.VMUUID {
		return
	}
	if m.record.InstanceID == "" {
		m.record.InstanceID = i.InstanceID
	}
	if m.record.AppID == "" {
		m.record.AppID = i.AppID
	}
}

// former: the Slot had i before, and was given another one.
func (m *member) former(i *Instance) bool {
	return i.VMUUID != m.record.VMUUID && slices.ContainsFunc(m.record.Lineage, func(p group.Past) bool { return p.VMUUID == i.VMUUID })
}

// removed: the Slot is wanted again, and its CVM is gone by our own deletion, which
// somebody asked for with its disk: it did not get lost.
func (w *world) removed(m *member) bool {
	return !m.condemned && m.vanished() && w.obs.Platform.Known && m.tookAway()
}

// unbind moves the CVM that a Replace makes way for into the Slot's lineage, once it is
// gone and the next one that carries the Slot's name is the new one. A Replace that was
// called off before leaves the Slot bound: an empty Slot would be filled without asking.
func (w *world) unbind(m *member) {
	op := m.open
	if op == nil && w.removed(m) {
		m.record = m.record.Unbound("removed", w.now)
		return
	}
	if op == nil || !op.MadeWay() || m.record.Incarnation >= op.CVM.Incarnation {
		return
	}
	m.record = m.record.Unbound(cmp.Or(op.Request.Note, "replaced"), w.now)
	m.record.Incarnation = op.CVM.Incarnation
	// Not before: the member that makes way is in the set until then, and joins nothing.
	m.record.Membership = partOf(nil, op.Set.Joins)
}

// admitted: a Boot of the bound CVM holds the Slot. A Boot of another Instance
// proves nothing about this one (R4, R11).
func (m *member) admitted() bool {
	a := m.seen.Admission
	if a == nil || a.BootID == "" {
		return false
	}
	if m.record.InstanceID != "" {
		return a.InstanceID == m.record.InstanceID
	}
	return !slices.ContainsFunc(m.record.Lineage, func(p group.Past) bool { return p.InstanceID == a.InstanceID })
}

// platformKnown: the absence of a CVM means something.
func (w *world) platformKnown(m *member) bool { return w.obs.Platform.Known || m.seen.Instance != nil }

// outlived: after r its instance ran, provably, another Boot, so r is the last word
// of a Boot that is gone. A live one would have reported again within operation.LiveWithin,
// whatever a copy of its CVM asks for.
func (m *member) outlived(r *Report) bool {
	return m.provenElsewhere() && m.seen.Refusal.At.After(r.ReceivedAt.Add(operation.LiveWithin))
}

// fresh: it is no older than may be. One of the future came before the clock was set back:
// nobody knows how old it is, and an agent that lives sends the next one.
func (w *world) fresh(r *Report) bool {
	age := w.now.Sub(r.ReceivedAt)
	return age <= w.t.StaleAfter && age >= -operation.LiveWithin
}

// notReady is the first of R7's conditions that does not hold; empty when all do,
// but for min_ready and "not in a step".
func (w *world) notReady(m *member) string {
	i := m.seen.Instance
	switch {
	case i == nil && !w.obs.Platform.Known:
		return "the platform was not listed: " + w.obs.Incomplete()
	case i == nil:
		return "no CVM on the platform"
	case len(m.seen.Duplicates) > 0:
		return fmt.Sprintf("duplicate_instance: %d CVMs carry its name", 1+len(m.seen.Duplicates))
	case m.unadopted():
		return "a CVM carries its name and no record binds it: `cadre group adopt " + w.spec.Name + "`"
	case m.record.VMUUID != "" && i.VMUUID != m.record.VMUUID:
		return "another CVM than the bound one carries its name"
	case i.BootError != "":
		return "boot error: " + i.BootError
	case !i.Running():
		return "the platform says " + platformWord(i)
	case !m.admitted():
		return m.notAdmitted()
	case m.moved != nil:
		return "its CVM was told to boot another revision, and no boot of it showed yet"
	case m.report == nil:
		return "no fresh report from its boot" + m.lastWord()
	case m.record.Membership.Waits():
		return "waits until the other members list it"
	case m.record.Membership != nil && m.record.Membership.Joins && m.report.Role == RoleLearner:
		return "it joined and has no vote yet"
	}
	return w.memberNotReady(m.report)
}

// lastWord is what the workload of m's Boot reported last, for people: a step that fails in silence says it, since it
// may be why, as where new software refuses the data of the old one.
func (m *member) lastWord() string {
	if r := m.seen.Report; r != nil && r.BootID == m.seen.Admission.BootID && r.Message != "" {
		return "; its last word: " + r.Message
	}
	return ""
}

// memberNotReady is what the workload's own report says.
func (w *world) memberNotReady(r *Report) string {
	switch {
	case r.Health != Healthy:
		return fmt.Sprintf("health %s: %s", orUnknown(r.Health), cmp.Or(r.HealthReason, "no check answered"))
	case !group.HasDriver(w.spec):
		return ""
	case !r.alive():
		return "member is down: " + cmp.Or(r.Message, "no word from it")
	case !r.MemberReady:
		return "member is not ready: " + cmp.Or(r.Message, "no word from it")
	case r.Role == RoleUnknown || r.Role == "":
		return "member's role is unknown"
	case !caughtUp(r):
		return "member has not caught up" + lagText(r)
	}
	return ""
}

// caughtUp is R52; a leader has nobody to catch up with. Unknown is no.
func caughtUp(r *Report) bool {
	if r.CaughtUp == nil {
		return r.Role == RoleLeader
	}
	return *r.CaughtUp
}

func (m *member) notAdmitted() string {
	if r := m.seen.Refusal; r != nil {
		return refusalView(r).Told()
	}
	return "its boot is not admitted"
}

func refusalView(r *policy.Refusal) operation.RefusalView {
	return operation.RefusalView{Code: string(r.Code), Message: r.Message, Proven: r.Proven, At: r.At}
}

// keepClock is the clock of R8: started at the transition to ready, persisted, and
// started anew by any setback, by another Boot, and by a gap that the report does
// not prove healthy. A pass that could not look at everything leaves it alone.
func (w *world) keepClock(m *member) {
	rec := &m.record
	if !m.ready {
		if !w.platformKnown(m) {
			return
		}
		if r := m.seen.Report; r != nil && r.BootID == rec.AvailableBoot {
			w.forgetHeals(m, r.ReceivedAt) // the window may have ended after the last pass that saw it well
		}
		m.fell = !rec.AvailableSince.IsZero()
		rec.AvailableSince = time.Time{} // AvailableBoot stays: what ends a Boot's grace (R113)
		if rec.UnavailableSince.IsZero() || rec.UnavailableSince.After(w.now) {
			// A time to come was written by a leader whose clock was ahead.
			rec.UnavailableSince = w.now
		}
		return
	}
	boot := m.seen.Admission.BootID
	m.dropFlap(boot)
	switch {
	case rec.AvailableSince.IsZero() || rec.AvailableBoot != "" && rec.AvailableBoot != boot:
		rec.AvailableSince = w.now
	case rec.AvailableSince.After(w.now) || !w.unbroken(m):
		rec.AvailableSince = w.provenSince(m)
	}
	rec.AvailableBoot = boot
	rec.UnavailableSince = time.Time{}
	if h := rec.Heals; h != nil && h.FailedDown > 0 {
		after := *h
		after.FailedDown = 0
		rec.Heals = &after
	}
}

// unbroken reports that m has been healthy since the recorded start as far as
// anybody can tell. The agent's monotonic clock tells of breaks between passes;
// without it only a gap shorter than stale_after is trusted.
func (w *world) unbroken(m *member) bool {
	since, r := m.record.AvailableSince, m.report
	if r.BootAt.After(since.Add(gapSlack)) && !r.BootAt.After(w.now) {
		return false
	}
	if r.HealthyFor > 0 {
		return !r.ReceivedAt.Add(-r.HealthyFor).After(since.Add(gapSlack))
	}
	looked := w.rec.Status.At
	return looked.IsZero() || w.now.Sub(looked) <= w.t.StaleAfter
}

// provenSince is since when the report proves m healthy, by this leader's clock; now, when
// it does not. A leader whose clock differs from the last one's takes no availability away
// that the agent's monotonic clock proves.
func (w *world) provenSince(m *member) time.Time {
	r := m.report
	if r.HealthyFor <= 0 {
		return w.now
	}
	since := r.ReceivedAt.Add(-r.HealthyFor)
	if r.BootAt.After(since) && !r.BootAt.After(w.now) {
		since = r.BootAt
	}
	if since.After(w.now) {
		return w.now
	}
	return since
}

func platformWord(i *Instance) string {
	if i.InProgress {
		return cmp.Or(i.Status, "unknown") + ", in progress"
	}
	return cmp.Or(i.Status, "unknown")
}

func orUnknown(h Health) Health {
	if h == "" {
		return Unknown
	}
	return h
}

func lagText(r *Report) string {
	switch {
	case r.LagBytes != nil:
		return fmt.Sprintf(": %d bytes behind", *r.LagBytes)
	case r.CaughtUp == nil:
		return ": lag unknown"
	}
	return ""
}

// plural is word for n of what it names.
func plural(n int, word string) string { return pick(n == 1, word, word+"s") }

// short is d for people: whole seconds, at least one.
func short(d time.Duration) string { return max(d.Round(time.Second), time.Second).String() }
