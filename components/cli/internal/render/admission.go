package render

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/policy"
)

// SimulatedBanner comes first in every output about a cluster whose root of trust is not Intel's.
const SimulatedBanner = "SIMULATED: the root of trust of this cluster is not Intel's; its attestation proves nothing about hardware"

// Banner is SimulatedBanner as a line, or nothing.
func Banner(s Style, simulated bool) string {
	if !simulated {
		return ""
	}
	return s.Line(SimulatedBanner, Warn)
}

// Number is a Revision as operators say it: its first digits and its place.
func Number(revision string, n uint64) string {
	switch {
	case revision == "" && n == 0:
		return ""
	case n == 0:
		return format.Short(revision)
	case revision == "":
		return fmt.Sprintf("#%d", n)
	}
	return fmt.Sprintf("%s #%d", format.Short(revision), n)
}

// Admissions prints one line per Slot: its holder, the evidence, and the expiry.
func Admissions(s Style, list []policy.AdmissionStatus, now time.Time) string {
	if len(list) == 0 {
		return "no slots yet\n"
	}
	rows := [][]Cell{}
	for _, a := range list {
		root := C("Intel")
		switch {
		case a.Simulated:
			root = Cell{"SIMULATED", Warn}
		case a.BootID == "":
			root = C("")
		}
		rows = append(rows, []Cell{
			T(a.Slot, Bold), T(string(a.State), admissionTone(a.State)), C(format.Short(a.BootID)), C(Number(a.Revision, a.Number)),
			C(ago(a.AdmittedAt, now)), C(ago(a.AttestedAt, now)), C(left(a.ReattestBy, now)), C(left(a.ExpiresAt, now)),
			tcb(a, now), root, C(lastDecision(a.Last, now)), C(problem(a.Code, a.Why)),
		})
	}
	return s.Table([]string{"SLOT", "STATE", "BOOT", "REVISION", "ADMITTED", "ATTESTED", "RE-ATTEST", "EXPIRES", "TCB", "ROOT", "LAST DECISION", "WHY"}, rows)
}

func admissionTone(state policy.State) Tone {
	switch state {
	case policy.StateAdmitted:
		return Good
	case policy.StateDenied, policy.StateExpired:
		return Bad
	case policy.StateReattest, policy.StateNone:
	}
	return Warn
}

// tcb is the state of the machine, and the end of a temporary tolerance.
func tcb(a policy.AdmissionStatus, now time.Time) Cell {
	switch {
	case a.TCBOutOfDateSoon && a.TCBOutOfDateAt.IsZero():
		return Cell{a.TCBStatus + ", not by Intel's early set", Warn}
	case a.TCBOutOfDateSoon:
		return Cell{fmt.Sprintf("%s, until about %s", a.TCBStatus, a.TCBOutOfDateAt.UTC().Format(time.DateOnly)), Warn}
	case a.TCBStatus == "UpToDate":
		return Cell{a.TCBStatus, Good}
	case a.TCBStatus == "":
		return C("")
	case a.TCBEnds.After(now):
		return Cell{fmt.Sprintf("%s, ends in %d days", a.TCBStatus, int(a.TCBEnds.Sub(now)/(24*time.Hour))), Warn}
	}
	return Cell{a.TCBStatus, Warn}
}

// Machines is one line for each member whose machine is not UpToDate, or will not be for
// long, with the reason; nothing when all is well.
func Machines(s Style, list []policy.AdmissionStatus, now time.Time) string {
	text := ""
	for _, a := range list {
		line, tone := machine(a, now), Warn
		if line == "" {
			continue
		}
		if a.TCBEnds.IsZero() && !a.TCBOutOfDateSoon {
			tone = Bad
		}
		text += s.Paint(a.Slot+": "+line, tone) + "\n"
	}
	return text
}

// machine describes the end of a member's or coordinator's machine and the reason; "": none.
func machine(a policy.AdmissionStatus, now time.Time) string {
	day := func(t time.Time) string { return t.UTC().Format(time.DateOnly) }
	why := "the machine is " + a.TCBStatus
	if !a.TCBReplacedAt.IsZero() {
		why += ", its level is not the newest since " + day(a.TCBReplacedAt)
	}
	switch {
	case a.TCBStatus == "":
		return ""
	case a.TCBOutOfDateSoon && a.TCBOutOfDateAt.IsZero():
		return "will be out of date: Intel's early set says so already; its signed dates do not say when"
	case a.TCBOutOfDateSoon:
		return fmt.Sprintf("will be out of date on about %s: Intel's early set says so already", day(a.TCBOutOfDateAt))
	case a.TCBStatus == "UpToDate":
		return ""
	case a.TCBEnds.After(now):
		return fmt.Sprintf("ends in %d days: %s, tolerated until %s", int(a.TCBEnds.Sub(now)/(24*time.Hour)), why, day(a.TCBEnds))
	}
	return "not admitted any more: " + why + ", and nothing tolerates it"
}

func problem(code policy.Code, why string) string {
	if code == "" {
		return ""
	}
	return strings.TrimSuffix(string(code)+": "+why, ": ")
}

// ago is how long something is past, left how long it is off.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return since(at, now) + " ago"
}

func left(at, now time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case !at.After(now):
		return "past"
	}
	return "in " + format.Ago(at.Sub(now))
}

func lastDecision(d *policy.DecisionEntry, now time.Time) string {
	if d == nil {
		return ""
	}
	text := string(d.What)
	if d.Code != "" {
		text += " " + string(d.Code)
	}
	if d.Times > 1 {
		text += fmt.Sprintf(" (%d times)", d.Times)
	}
	return text + ", " + ago(d.At, now)
}

// Explanation is everything about one Slot's admission.
func Explanation(s Style, e policy.Explanation, now time.Time) string {
	root := Cell{"Intel", Plain}
	if e.Simulated {
		root = Cell{"SIMULATED: not Intel's", Warn}
	}
	var b strings.Builder
	b.WriteString(s.Fields(
		Field{"slot", Cell{e.Slot, Bold}},
		Field{"state", Cell{string(e.State), admissionTone(e.State)}},
		Field{"why", Cell{problem(e.Code, e.Why), Bad}},
		Field{"boot", Cell{e.BootID, Plain}},
		Field{"instance", Cell{e.InstanceID, Plain}},
		Field{"revision", Cell{Number(e.Revision, e.Number), Plain}},
		Field{"generation", Cell{nonzero(e.Generation), Plain}},
		Field{"changes of holder", Cell{unordered(e.Contest), Warn}},
		Field{"admitted", Cell{clock(e.AdmittedAt), Plain}},
		Field{"attested", Cell{clock(e.AttestedAt), Plain}},
		Field{"re-attest by", Cell{clock(e.ReattestBy), Plain}},
		Field{"expires", Cell{clock(e.ExpiresAt), Plain}},
		Field{"tcb", tcb(e.AdmissionStatus, now)},
		Field{"root of trust", root},
		Field{"machine", Cell{machineOf(e.AdmissionStatus), Plain}},
		Field{"machine shared with", Cell{strings.Join(e.SharesMachine, ", "), Warn}},
	))
	b.WriteString(s.lastChecks(e, now) + s.findings(e.Now) + s.allowed(e) + s.asked(e) + s.decisions(e, now))
	if len(e.Next) > 0 {
		b.WriteString("\n" + s.Paint("ways out", Bold) + "\n")
		for _, next := range e.Next {
			b.WriteString(s.Line("  "+next, Plain))
		}
	}
	return b.String()
}

// machineOf is the first digits of the machine's keyed hash, which name it in placement.machines, and
// the machine before; "" if it is not known.
func machineOf(a policy.AdmissionStatus) string {
	if a.Machine == "" {
		return ""
	}
	text := fmt.Sprintf("%.16s since %s", a.Machine, clock(a.MachineSince))
	if a.MachineBefore != "" {
		text += fmt.Sprintf(", %.16s before", a.MachineBefore)
	}
	return text
}

// unordered reports how often the Slot changed its holder without an Operation; "" for never.
func unordered(c policy.Contest) string {
	switch {
	case c.Changes == 0 && c.Rival == "":
		return ""
	case c.Rival == "":
		return fmt.Sprintf("%d without an operation", c.Changes)
	}
	return fmt.Sprintf("%d without an operation; boot %.12s was alive at the same time as a holder, %s", c.Changes, c.Rival, clock(c.RivalAt))
}

func nonzero(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// lastChecks is the table of the last decision by evidence.
func (s Style) lastChecks(e policy.Explanation, now time.Time) string {
	if len(e.Checks) == 0 {
		return ""
	}
	rows := [][]Cell{}
	for _, c := range e.Checks {
		tone := map[policy.Outcome]Tone{policy.CheckOK: Good, policy.CheckFailed: Bad, policy.CheckNotReached: Dim}[c.Outcome]
		rows = append(rows, []Cell{C(string(c.Name)), T(string(c.Outcome), tone), C(strings.Trim(string(c.Code)+" "+c.Detail, " "))})
	}
	head := fmt.Sprintf("checks of the last decision, of boot %s, %s", format.Short(e.ChecksBootID), ago(e.ChecksAt, now))
	return "\n" + s.Paint(head, Bold) + "\n" + s.Table([]string{"CHECK", "OUTCOME", "DETAIL"}, rows)
}

// findings lists the verdicts on the present evidence.
func (s Style) findings(list []policy.Finding) string {
	if len(list) == 0 {
		return ""
	}
	rows := [][]Cell{}
	for _, f := range list {
		verdict := Cell{"ok", Good}
		if f.Code != "" {
			verdict = Cell{"no", Bad}
		}
		rows = append(rows, []Cell{C(f.Name), verdict, C(format.Short(f.Found)), C(problem(f.Code, f.Message))})
	}
	return "\n" + s.Paint("the boot's evidence under the policy of now", Bold) + "\n" + s.Table([]string{"QUESTION", "NOW", "EVIDENCE", "WHY"}, rows)
}

func (s Style) allowed(e policy.Explanation) string {
	head := "\n" + s.Paint(fmt.Sprintf("allowed revisions, policy epoch %d", e.PolicyEpoch), Bold) + "\n"
	if len(e.Allowed) == 0 {
		return head + "none: the slot may run nothing until a step of a rollout allows it\n"
	}
	rows := [][]Cell{}
	for _, a := range e.Allowed {
		verdict, why := Cell{"yes", Good}, "for instance "+format.Short(e.BoundInstance)
		if a.Code != "" {
			verdict, why = Cell{"no", Bad}, problem(a.Code, a.Message)
		}
		approved := ""
		if a.Approval != nil {
			approved = "by " + a.Approval.By
		}
		rows = append(rows, []Cell{C(Number(a.Revision, a.Own)), verdict, C(format.Short(a.ComposeHash)), C(a.OSImage), C(approved), C(why)})
	}
	return head + s.Table([]string{"REVISION", "ADMITTED", "COMPOSE", "IMAGE", "APPROVED", "WHY"}, rows)
}

// asked lists the operators' settings for the Slot.
func (s Style) asked(e policy.Explanation) string {
	approval := "not asked for"
	if e.RequireApproval {
		approval = "required"
	}
	floor := "none"
	if e.Floor.Number > 0 {
		floor = fmt.Sprintf("#%d", e.Floor.Number)
		if e.Floor.By != "" {
			floor += " by " + e.Floor.By
		}
		if e.Floor.Reason != "" {
			floor += ": " + e.Floor.Reason
		}
	}
	text := "\n" + s.Paint("operators' decisions", Bold) + "\n" + s.Fields(Field{"  approval", Cell{approval, Plain}}, Field{"  floor", Cell{floor, Plain}})
	for _, r := range e.Revocations {
		text += s.Line(fmt.Sprintf("  revoked: %s %s by %s at %s: %s", r.Kind, r.ID, r.By, clock(r.At), r.Reason), Bad)
	}
	for _, a := range e.Approvals {
		note := ""
		if a.Note != "" {
			note = ": " + a.Note
		}
		text += s.Line(fmt.Sprintf("  approved: %s by %s at %s%s", format.Short(a.Revision), a.By, clock(a.At), note), Plain)
	}
	return text
}

func (s Style) decisions(e policy.Explanation, now time.Time) string {
	text := ""
	if e.Refusal != nil {
		text += "\n" + s.Line(fmt.Sprintf("last refusal, %s, of boot %s: %s", ago(e.Refusal.At, now), format.Short(e.Refusal.BootID), problem(e.Refusal.Code, e.Refusal.Message)), Warn)
	}
	if e.ChainProblem != "" {
		text += "\n" + s.Line("the record of decisions was tampered with: "+e.ChainProblem, Bad)
	}
	if len(e.Decisions) == 0 {
		return text
	}
	rows := [][]Cell{}
	for _, d := range e.Decisions {
		tone := Bad
		if d.What == policy.DecidedAdmit {
			tone = Good
		}
		rows = append(rows, []Cell{
			C(fmt.Sprint(d.Number)), C(clock(d.At)), T(string(d.What), tone), C(fmt.Sprint(max(d.Times, 1))), C(format.Short(d.BootID)), C(format.Short(d.Revision)), C(d.By), C(problem(d.Code, d.Message)),
		})
	}
	return text + "\n" + s.Paint("decisions, newest first", Bold) + "\n" + s.Table([]string{"NO", "AT", "DECISION", "TIMES", "BOOT", "REVISION", "BY", "WHY"}, rows)
}

// CutOff lists the effects of a revocation or a floor, made or planned.
func CutOff(s Style, c client.CutOff) string {
	text := ""
	verb, none := "cuts off", "evicts no boot now"
	if c.DryRun {
		verb, none = "would cut off", "would evict no boot now"
	}
	if len(c.Slots) == 0 {
		text += "it " + none + "\n"
	} else {
		text += s.Line(fmt.Sprintf("it %s %s at once", verb, strings.Join(c.Slots, ", ")), Bad)
	}
	for _, w := range c.Warnings {
		text += s.Line("warning: "+w, Warn)
	}
	return text
}
