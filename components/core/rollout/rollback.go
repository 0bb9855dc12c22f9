package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/upgrade"
)

// Rollback (R101). The verdict about a failed rollout may begin a rollback to the stable Revision. From then on the
// engine plans for the spec with the content of that Revision, with the same rules as for a spec that an operator
// wrote. The operator's spec stays unchanged.

// turnBack makes the pass plan for the Revision that the rollout goes back to.
func (w *world) turnBack() {
	r := w.rec.Rollout
	if r == nil || !w.goesOn(r) || r.Goal() == r.To {
		return
	}
	back, err := w.spec.Back(w.rec.Revisions[r.Goal()])
	if err != nil {
		return // trackRollout stops the rollout
	}
	if !r.Back.Done {
		// These settings slow down a rollout that an operator watches. The rollback leaves a Revision that failed.
		back.UpdatePolicy.StepDelay, back.UpdatePolicy.Leader, back.UpdatePolicy.Windows = 0, group.LeaderLast, nil
		back.After = nil // a group in `after` may be away because of that Revision
	}
	if h := back.AutoHealing; h != nil {
		newest := *h
		newest.At, back.AutoHealing = group.HealAtNewest, &newest
	}
	w.spec, w.target = back, r.Goal()
}

// fail records the verdict: the rollout rolls back, or fails with the reason why it does not.
func (w *world) fail(v *operation.Verdict) {
	v.At = w.now
	text := verdictText(v)
	switch {
	case w.target != w.asked:
		text = fmt.Sprintf("the rollback to %.8s failed: %s", w.target, text)
	case w.spec.UpdatePolicy.OnFailure == group.Rollback:
		why := w.noRollback(v)
		if why == "" {
			w.goBack(*v)
			return
		}
		text += "; not rolled back: " + why
	}
	if v.Cause == operation.CauseBake && w.notTheRevision(v) == "" && !slices.Contains(w.failedRevs, w.target) {
		w.failedRevs = append(w.failedRevs, w.target)
	}
	w.rollout.Verdict = v
	w.setState(operation.FailedState, text)
}

// goBack begins the rollback. The Operations before it are no evidence about the way back.
func (w *world) goBack(v operation.Verdict) {
	r := w.rollout
	r.Back = &operation.Back{Revision: w.stable, Since: w.now, Verdict: v, After: r.Steps}
	r.Forgiven, r.ProgressAt, r.Stages = r.Steps, w.now, operation.Stages{}
	w.setState(operation.RollingBack, w.evidenceText())
}

// Codes of the reasons why a failed rollout is not rolled back.
const (
	// NothingToRollBackTo: no other Revision completed a rollout before, or its content is not recorded any more.
	NothingToRollBackTo = "nothing_to_roll_back_to"
	// NotTheRevision: the verdict is no evidence about the Revision.
	NotTheRevision = "not_the_revision"
	// StableFailed: the stable Revision is one of the failed ones.
	StableFailed = "stable_revision_failed"
	// StableNotAllowed: the admission policy or the platform refuses the stable Revision.
	StableNotAllowed = "stable_revision_not_allowed"
	// NoWayBack: a member's data passed a point of no return.
	NoWayBack = "no_way_back"
	// RolledBackBefore: the rollout had its rollback.
	RolledBackBefore = "rolled_back_before"
)

// noRollback returns why the rollout is not rolled back after a verdict; empty: it is (R101, R102).
func (w *world) noRollback(v *operation.Verdict) string {
	because := func(code, format string, args ...any) string { return code + ": " + fmt.Sprintf(format, args...) }
	record, known := w.rec.Revisions[w.stable]
	switch {
	case w.rollout.Back != nil:
		return because(RolledBackBefore, "a rollout has one rollback")
	case w.stable == "":
		return because(NothingToRollBackTo, "no rollout of the group completed before")
	case w.stable == w.asked:
		return because(NothingToRollBackTo, "%.8s is the stable revision", w.stable)
	case !known:
		return because(NothingToRollBackTo, "the content of the stable revision %.8s is not recorded any more", w.stable)
	}
	if why := w.notTheRevision(v); why != "" {
		return because(NotTheRevision, "%s", why)
	}
	back, err := w.spec.Back(record)
	if err != nil {
		return because(NothingToRollBackTo, "%v", err)
	}
	if back.RestartToken = w.spec.RestartToken; back.Revision() == w.asked {
		return because(NothingToRollBackTo, "the stable revision %.8s differs in its restart token only", w.stable)
	}
	if slices.Contains(w.failedRevs, w.stable) {
		return because(StableFailed, "the stable revision %.8s failed since its rollout", w.stable)
	}
	if d := w.gate(w.stable); !d.Allowed {
		return because(StableNotAllowed, "%s: %s", d.Code, d.Message)
	}
	if refused := w.obs.Refused[w.stable]; refused != "" {
		return because(StableNotAllowed, "%s", refused)
	}
	if why := w.noWayBack(); why != "" {
		return because(NoWayBack, "%s", why)
	}
	return ""
}

// notTheRevision returns why the verdict says nothing about the Revision; empty: it does. The guide to rollouts has the
// same table. A network, a node or a platform in trouble would strike the stable Revision too.
func (w *world) notTheRevision(v *operation.Verdict) string {
	m := cmp.Or(w.find(v.Slot), &member{})
	switch v.Cause {
	case operation.CauseBake, operation.CauseBootError, operation.CausePostLaunch, operation.CauseHook:
	case operation.CauseDeadline:
		if m.seen.Instance == nil {
			return "the platform lists no CVM of " + m.slot
		}
		if code := m.refusedFor(); code != "" && !code.OfRevision() {
			return fmt.Sprintf("admission refuses %s for another reason than its revision: %s", m.slot, code)
		}
	case operation.CauseProgress:
		ill := func(m *member) bool { return m.inScope() && m.observed == w.target && !m.available && !w.ownStep(m) }
		if !slices.ContainsFunc(w.members, ill) {
			return "no slot is unavailable because of the revision"
		}
	default:
		return "the failure is the platform's, or of a step before the revision ran"
	}
	if w.ownStep(m) {
		return "the last change of " + m.slot + " was of its own env or size, at the revision that it ran before"
	}
	if why := w.silentNode(m); m.slot != "" && why != "" {
		return why
	}
	expected, silent := 0, 0
	for _, o := range w.members {
		if o != m && o.expected() {
			expected, silent = expected+1, silent+btoi(o.report == nil)
		}
	}
	if 2*silent > expected || w.obs.Fleet.split() > 0 {
		return "most other agents are silent too"
	}
	return ""
}

// refusedFor is the code with which admission refused m's Boot since it was last admitted; "": it did not.
func (m *member) refusedFor() policy.Code {
	if r := m.seen.Refusal; r != nil && (m.seen.Admission == nil || r.At.After(m.seen.Admission.AdmittedAt)) {
		return r.Code
	}
	return ""
}

// noWayBack returns why a member's data may not open at the stable Revision; empty: it does, as far as is known.
func (w *world) noWayBack() string {
	members := make([]upgrade.Member, 0, len(w.everyone))
	for _, m := range w.everyone {
		members = append(members, w.versionOf(m))
	}
	var texts []string
	for _, f := range w.judgeStep(w.stable, members) {
		if f.Refused || f.Code == upgrade.WayBackClosed {
			texts = append(texts, f.String())
		}
	}
	return names.Few(texts, "; ")
}

// evidenceText says why the rollout rolls back; empty: it does not.
func (w *world) evidenceText() string {
	b := w.rollout.Back
	if b == nil || b.Over {
		return ""
	}
	return fmt.Sprintf("rolls back to %.8s: %s", b.Revision, verdictText(&b.Verdict))
}

// rolledBackText describes the end of the rollback for operators.
func (w *world) rolledBackText(excluded, why string) string {
	b := w.rollout.Back
	text := []string{fmt.Sprintf("rolled back to %.8s at %s because %s", b.Revision, b.Since.UTC().Format(time.RFC3339), verdictText(&b.Verdict))}
	if why != "" {
		text = append(text, fmt.Sprintf("%s not included: %s", excluded, why))
	}
	text = append(text, fmt.Sprintf("the spec still asks for %.8s; apply a corrected spec, stay here: cadre rollout undo %s, or try it again: cadre rollout retry %s --reason WHY", w.rollout.To, w.spec.Name, w.spec.Name))
	return strings.Join(text, "; ")
}
