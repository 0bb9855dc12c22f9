package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// keepAssigned records that the Boot of m proved a Revision after the refresh to that Revision had ended:
// cancelled, or late by a moment. The CVM was given no other content. Without this record, the planner would take
// the Boot for gone as soon as its agent is silent, and would not heal it (R10).
func (w *world) keepAssigned(m *member) {
	was := m.record.Assigned
	if m.report != nil && m.open == nil && was != "" && was != m.observed && w.takesRefresh(m, was, m.observed) {
		m.record.Assigned = m.observed
	}
}

// former reports that the Slot was bound to i before, and is bound to another CVM now.
func (m *member) former(i *Instance) bool {
	return i.VMUUID != m.record.VMUUID && slices.ContainsFunc(m.record.Lineage, func(p group.Past) bool { return p.VMUUID == i.VMUUID })
}

// bound reports that i is the CVM that the Slot's record names.
func (m *member) bound(i *Instance) bool {
	return m.record.VMUUID != "" && i.VMUUID == m.record.VMUUID
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
func (w *world) platformKnown(m *member) bool {
	return m.seen.Instance != nil || w.obs.Platform.Known && w.silentNode(m) == ""
}

// A platform of several hosts answers for the nodes that answer. A CVM on another node is unknown: it may run, so that
// its Slot is neither missing nor vanished, and no call is made to it.

// silentNode returns why the platform's view of m is unknown although the platform answered; "": the view is known.
// Without a recorded node, the CVM may be on any silent node, unless no call ever made one.
func (w *world) silentNode(m *member) string {
	silent, node := w.obs.SilentNodes, m.record.Node
	if len(silent) == 0 || m.seen.Instance != nil || w.declaredLost(m) && !m.heardNow() {
		return ""
	}
	if op := m.open; op != nil && !w.unmade(op) && (op.Call.Node != "" || !op.Decided()) {
		node = op.Call.Node // of the new CVM
	}
	made := !m.missing() || len(m.record.Lineage) > 0 || slices.ContainsFunc(m.makers, func(op *operation.Operation) bool { return !w.unmade(op) })
	switch {
	case node != "" && slices.Contains(silent, node):
		return "node " + node + " does not answer"
	case node != "" || !made:
		return ""
	}
	return fmt.Sprintf("%s %s not answer, and %s may be there", plural(len(silent), "node")+" "+names.Few(silent, ", "), pick(len(silent) == 1, "does", "do"), m.slot)
}

// notOn returns the silent nodes, if they certainly have no CVM of m: no call can have made one there, or it was deleted
// or declared lost. Names are unique, so a create needs the answer of every other node.
func (w *world) notOn(m *member) []string {
	if w.silentNode(m) != "" {
		return nil
	}
	return w.obs.SilentNodes
}

// declaredLost: an operator's request to replace m says that its CVM is lost, so that the new CVM does not wait for the
// node of the old CVM. From the call on that makes the new CVM, the node of the new CVM counts.
func (w *world) declaredLost(m *member) bool {
	if op := m.open; op != nil {
		return op.Kind == operation.Replace && op.CVM.VMUUID == "" && w.unmade(op)
	}
	return m.asked(RequestReplace)
}

// unmade: no call of op can have made a CVM. The first create may be recorded and not sent yet: as long as its effect
// need not show, nothing is concluded from a listing without it.
func (w *world) unmade(op *operation.Operation) bool {
	c := op.Call
	switch {
	case !c.Makes():
		return true
	case c.Has(operation.PartCreate) || c.Number != 1+c.Vain+len(c.Applied):
		return false
	}
	return c.InVain() || c.Outcome == "" && w.now.Before(c.IssuedAt.Add(w.t.Settle))
}

// undecided reports that a call may have reached the platform, and that its effect is unknown (R66).
func (w *world) undecided(op *operation.Operation) bool {
	if op == nil || op.Phase != operation.Acting {
		return false
	}
	if op.Call.InVain() || op.Call.Outcome == operation.OutcomeDone {
		return false
	}
	return op.Call.Outcome == operation.OutcomeUnknown || w.now.Sub(op.Call.IssuedAt) > w.t.MaxCallTimeout
}

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
	case i == nil && w.obs.Platform.Known && !w.platformKnown(m):
		return w.silentNode(m)
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
	case m.pendingBoot.To != "":
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
		return refusalView(r).Text()
	}
	return "its boot is not admitted"
}

func refusalView(r *policy.Refusal) operation.RefusalView {
	return operation.RefusalView{Code: string(r.Code), Message: r.Message, Proven: r.Proven, At: r.At}
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

// unmanaged_instance reports that a CVM carries the Slot's name and no record or policy of the Slot binds it. In addition,
// no platform call of the Slot can have created it. The cause is lost records or a CVM from outside of Cadre. The
// planner does nothing in the Slot until an operator adopts the CVM.
func (m *member) unmanaged() bool {
	i := m.seen.Instance
	if i == nil || m.record.VMUUID != "" || m.record.InstanceID != "" || m.policed != "" && m.policed == i.InstanceID {
		return false
	}
	return !slices.ContainsFunc(m.makers, func(op *operation.Operation) bool { return op.CVM.VMUUID == "" || op.CVM.VMUUID == i.VMUUID })
}
