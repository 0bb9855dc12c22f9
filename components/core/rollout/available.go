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

// gapSlack is the tolerance between the recorded start of health and the start that a report proves: the transport
// of a report takes time.
const gapSlack = 2 * time.Second

// judge derives the state of m: the fresh report, the attested Revision, whether m is available, and the updated
// Slot record.
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
	if r := m.seen.Report; r != nil && admitted && m.moved.To == "" && r.BootID == m.seen.Admission.BootID && w.fresh(r) && !m.outlived(r) {
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

// keepAssigned records that the Boot of m proved a Revision after the refresh to that Revision had ended:
// cancelled, or late by a moment. The CVM was given no other content. Without this record, the planner would take
// the Boot for gone as soon as its agent is silent, and would not heal it (R10).
func (w *world) keepAssigned(m *member) {
	was := m.record.Assigned
	if m.report != nil && m.open == nil && was != "" && was != m.observed && w.takesRefresh(m, was, m.observed) {
		m.record.Assigned = m.observed
	}
}

// bind records the CVM that fills a Slot, at the first listing that shows exactly one CVM with the Slot's name. The
// CVM must be of the right app and created by a platform call of the Slot. A recorded binding stays until an
// operator decides.
func (m *member) bind(appID string) {
	i := m.seen.Instance
	if i == nil || m.unmanaged() || m.former(i) || len(m.seen.Duplicates) > 0 || appID != "" && i.AppID != "" && i.AppID != appID {
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

// former reports that the Slot was bound to i before, and is bound to another CVM now.
func (m *member) former(i *Instance) bool {
	return i.VMUUID != m.record.VMUUID && slices.ContainsFunc(m.record.Lineage, func(p group.Past) bool { return p.VMUUID == i.VMUUID })
}

// removed reports that the Slot is wanted again and that an earlier Delete of the Slot removed its CVM. An operator
// gave up the disk with that CVM, so the CVM is not lost.
func (w *world) removed(m *member) bool {
	return !m.terminating && m.vanished() && w.obs.Platform.Known && m.tookAway()
}

// unbind moves the CVM that a Replace removes into the Slot's lineage, once that CVM is gone. From then on, a CVM
// with the Slot's name is the new one. A Replace that was cancelled earlier leaves the Slot bound: the planner
// would fill an empty Slot without a request.
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
	// The old member is in the set until now. The new member joins only after it.
	m.record.Membership = partOf(nil, op.Set.Joins)
}

// admitted reports that a Boot of the bound CVM holds the Slot. A Boot of another instance proves nothing about the
// bound CVM (R4, R11).
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

// platformKnown reports that the absence of m's CVM is a fact, since the platform's listing is known.
func (w *world) platformKnown(m *member) bool { return w.obs.Platform.Known || m.seen.Instance != nil }

// outlived reports that the Slot's instance proved another Boot after r, so that r comes from a Boot that is gone.
// A live Boot would have reported again within operation.LiveWithin, even while a copy of its CVM requests
// admission.
func (m *member) outlived(r *Report) bool {
	return m.bootedElsewhere() && m.seen.Refusal.At.After(r.ReceivedAt.Add(operation.LiveWithin))
}

// fresh reports that r is at most stale_after old. A report from the future arrived before the clock was set back:
// its age is unknown, and a live agent sends the next report soon.
func (w *world) fresh(r *Report) bool {
	age := w.now.Sub(r.ReceivedAt)
	return age <= w.t.StaleAfter && age >= -operation.LiveWithin
}

// notReady returns the first condition of R7 that does not hold, except min_ready and "not in a step"; empty when
// all of them hold.
func (w *world) notReady(m *member) string {
	i := m.seen.Instance
	switch {
	case i == nil && !w.obs.Platform.Known:
		return "the platform was not listed: " + w.obs.Incomplete()
	case i == nil:
		return "no CVM on the platform"
	case len(m.seen.Duplicates) > 0:
		return fmt.Sprintf("duplicate_instance: %d CVMs carry its name", 1+len(m.seen.Duplicates))
	case m.unmanaged():
		return "a CVM carries its name and no record binds it: `cadre group adopt " + w.spec.Name + "`"
	case m.record.VMUUID != "" && i.VMUUID != m.record.VMUUID:
		return "another CVM than the bound one carries its name"
	case i.BootError != "":
		return "boot error: " + i.BootError
	case !i.Running():
		return "the platform says " + platformWord(i)
	case !m.admitted():
		return m.notAdmitted()
	case m.moved.To != "":
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

// lastWord returns the last message of the workload in m's Boot, for operators. It may explain why a step failed in
// silence, for example when new software refuses the old data.
func (m *member) lastWord() string {
	if r := m.seen.Report; r != nil && r.BootID == m.seen.Admission.BootID && r.Message != "" {
		return "; its last word: " + r.Message
	}
	return ""
}

// memberNotReady returns the reason in the workload's own report; empty when the member is ready.
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

// caughtUp is R52. A leader has no other member to catch up with. Unknown counts as no.
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

// keepClock keeps the availability clock of R8 in the Slot's record. The clock starts when m becomes ready. It
// starts again after a setback, after another Boot, and after a gap that the report does not prove healthy. A pass
// with an incomplete observation leaves the clock alone.
func (w *world) keepClock(m *member) {
	rec := &m.record
	if !m.ready {
		if !w.platformKnown(m) {
			return
		}
		if r := m.seen.Report; r != nil && r.BootID == rec.AvailableBoot {
			w.forgetHeals(m, r.ReceivedAt) // the window may have ended after the last pass that saw m available
		}
		m.fell = !rec.AvailableSince.IsZero()
		rec.AvailableSince = time.Time{} // AvailableBoot stays: it ends the grace period of a Boot (R113)
		if rec.UnavailableSince.IsZero() || rec.UnavailableSince.After(w.now) {
			// A leader whose clock was ahead wrote a time in the future.
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

// unbroken reports that no evidence shows a break in the health of m since the recorded start. The agent's
// monotonic clock shows breaks between passes. Without that clock, only a gap of at most stale_after is trusted.
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

// provenSince returns the time since which the report proves m healthy, by this leader's clock; now, when the
// report proves nothing. A clock difference between two leaders therefore costs no availability that the agent's
// monotonic clock proves.
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

// plural returns word in the singular or plural form for n.
func plural(n int, word string) string { return pick(n == 1, word, word+"s") }

// short formats d for operators: whole seconds, at least one.
func short(d time.Duration) string { return max(d.Round(time.Second), time.Second).String() }
