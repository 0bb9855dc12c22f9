package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// TCBPolicy lists the TCB states that are tolerated in addition to UpToDate. Its zero value
// tolerates none.
type TCBPolicy struct {
	Exceptions []TCBException `json:"exceptions,omitempty"`
	// GraceDays tolerates OutOfDate, with any advisories, for so many days from TCB.ReplacedAt on;
	// 0: not at all. Intel's standard collateral turns a level OutOfDate about 365 days after that
	// date, so a smaller number has no effect.
	GraceDays int `json:"grace_days,omitempty"`
	// OperatorExceptions bound the operators' grants at run time; the zero value: none.
	OperatorExceptions TCBLimits `json:"operator_exceptions,omitzero"`
	// Granted are the operators' exceptions, read from the records by the caller. A grant beyond
	// OperatorExceptions has no effect.
	Granted []TCBGrant `json:"-"`
}

// StandardAfterDays is how many days after the tcbDate of a level Intel's standard
// collateral asks for it. The early set asks for it at once.
const StandardAfterDays = 365

// MaxTCBGraceDays bounds GraceDays: a year until Intel's standard collateral asks for the
// next level, and 90 days to install it.
const MaxTCBGraceDays = StandardAfterDays + 90

// TCBException tolerates one state until a date, after an operator's judgement.
type TCBException struct {
	// Status in Intel's words; not UpToDate, which needs none, and never Revoked.
	Status string `json:"status"`
	// Advisories are all ids that are tolerated. A machine with any other one is
	// refused.
	Advisories []string `json:"advisories,omitempty"`
	// FMSPC limits the exception to one family of machines; empty: any.
	FMSPC string `json:"fmspc,omitempty"`
	// Until is when the exception ends, at most MaxTCBException ahead when it is
	// loaded (OPS-12).
	Until time.Time `json:"until"`
	// Reason is why, for people.
	Reason string `json:"reason"`
}

// MaxTCBException bounds how long an exception may last from when it is loaded.
const MaxTCBException = 30 * 24 * time.Hour

const maxTCBExceptions = 32

// tolerable are the statuses that an exception may name.
var tolerable = []string{
	"SWHardeningNeeded", "ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded", "OutOfDate", "OutOfDateConfigurationNeeded",
}

var advisoryID = regexp.MustCompile(`^[A-Z]{2,10}-[A-Z]{2,4}-[0-9]{3,8}$`)

// Validate reports every problem of p. An exception that has ended is none: a
// measured file outlives it, and AppraiseTCB ignores it.
func (p TCBPolicy) Validate(now time.Time) error {
	var errs []error
	add := func(i int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("exceptions[%d].%s", i, fmt.Sprintf(format, args...)))
	}
	if len(p.Exceptions) > maxTCBExceptions {
		errs = append(errs, fmt.Errorf("exceptions has %d entries, at most %d are allowed", len(p.Exceptions), maxTCBExceptions))
	}
	if p.GraceDays < 0 || p.GraceDays > MaxTCBGraceDays {
		errs = append(errs, fmt.Errorf("grace_days %d is not from 0 to %d", p.GraceDays, MaxTCBGraceDays))
	}
	if err := p.OperatorExceptions.validate(); err != nil {
		errs = append(errs, fmt.Errorf("operator_exceptions: %w", err))
	}
	for i, e := range p.Exceptions {
		if !slices.Contains(tolerable, e.Status) {
			add(i, "status %q is not one of %v", e.Status, tolerable)
		}
		for _, id := range e.Advisories {
			if !advisoryID.MatchString(id) {
				add(i, "advisories: %q is not an id such as INTEL-SA-00615", id)
			}
		}
		if e.FMSPC != "" && !isHex(e.FMSPC, 12) {
			add(i, "fmspc %q is not 12 lower-case hex digits", e.FMSPC)
		}
		if e.Reason == "" {
			add(i, "reason is empty: say why the machine may be used")
		}
		switch {
		case e.Until.IsZero():
			add(i, "until is missing: an exception must end")
		case e.Until.After(now.Add(MaxTCBException)):
			add(i, "until %s is more than 30 days ahead", e.Until.UTC().Format(time.RFC3339))
		}
	}
	return errors.Join(errs...)
}

// AppraiseTCB judges the collateral's verdict on a machine. UpToDate passes; OutOfDate passes
// within the grace; another status passes only under an exception that has not ended and names
// every advisory; Revoked and a TCB that was not evaluated never pass.
func AppraiseTCB(p TCBPolicy, tcb TCB, now time.Time) Decision {
	switch tcb.Status {
	case "UpToDate":
		return Decision{Allowed: true}
	case "":
		return deny(CodeCollateralUnavailable, "the TCB was not evaluated: there was no collateral")
	case "Revoked":
		return deny(CodeTCBOutOfDate, "the TCB is revoked")
	}
	if !slices.Contains(tolerable, tcb.Status) {
		return deny(CodeTCBOutOfDate, "unknown TCB status %q", tcb.Status)
	}
	refusal := deny(CodeTCBOutOfDate, "the TCB is %s (FMSPC %s, advisories %v) and no exception covers it", tcb.Status, tcb.FMSPC, tcb.Advisories)
	ends := p.graceEnds(tcb, now)
	if now.Before(ends) {
		return Decision{Allowed: true}
	}
	if !ends.IsZero() {
		refusal.Message += fmt.Sprintf("; its grace of %d days ended on %s", p.GraceDays, ends.UTC().Format(time.DateOnly))
	}
	for _, e := range p.inForce(now) {
		if !e.concerns(tcb, now) {
			continue
		}
		if id, found := uncovered(tcb.Advisories, e.Advisories); found {
			refusal = deny(CodeTCBAdvisoryBlocked, "the TCB is %s and advisory %s is not covered by the exception", tcb.Status, id)
			continue
		}
		return Decision{Allowed: true}
	}
	return refusal
}

// ToleratedUntil is the end of the last tolerance of tcb that holds at now; zero for a TCB that
// needs none, and for a refused one.
func (p TCBPolicy) ToleratedUntil(tcb TCB, now time.Time) time.Time {
	if tcb.Status == "UpToDate" || !AppraiseTCB(p, tcb, now).Allowed {
		return time.Time{}
	}
	until := p.graceEnds(tcb, now)
	for _, e := range p.inForce(now) {
		if _, found := uncovered(tcb.Advisories, e.Advisories); !found && e.concerns(tcb, now) && e.Until.After(until) {
			until = e.Until
		}
	}
	return until
}

// Outlook is the end of a machine's TCB state, as far as signed dates name it.
type Outlook struct {
	// Falls: the machine is UpToDate, and the early set calls it something else.
	Falls bool
	// At is about when the standard set will follow; zero: the signed dates do not say.
	At time.Time
}

// Outlook warns of a machine that is UpToDate and that Intel's early set calls out of date
// already. No verdict rests on it.
func (t TCB) Outlook() Outlook {
	early := t.Early
	if t.Status != "UpToDate" || early.Status == "" || early.Status == "UpToDate" || early.EvaluationNumber < t.EvaluationNumber {
		return Outlook{}
	}
	if early.ReplacedAt.IsZero() {
		return Outlook{Falls: true}
	}
	return Outlook{Falls: true, At: early.ReplacedAt.Add(StandardAfterDays * 24 * time.Hour)}
}

// graceEnds is when the grace of tcb ends, perhaps in the past; zero: it has none. A
// level that its signed dates let stop only in the future has none: such a date would
// stretch the bound.
func (p TCBPolicy) graceEnds(tcb TCB, now time.Time) time.Time {
	if tcb.Status != "OutOfDate" || p.GraceDays <= 0 || p.GraceDays > MaxTCBGraceDays || tcb.ReplacedAt.IsZero() || tcb.ReplacedAt.After(now) {
		return time.Time{}
	}
	return tcb.ReplacedAt.Add(time.Duration(p.GraceDays) * 24 * time.Hour)
}

// concerns reports that e is in force and names the state of tcb, regardless of its advisories. An
// exception that ends later than the bound allows never applies.
func (e TCBException) concerns(tcb TCB, now time.Time) bool {
	return e.Status == tcb.Status && (e.FMSPC == "" || e.FMSPC == tcb.FMSPC) && e.Reason != "" &&
		now.Before(e.Until) && !e.Until.After(now.Add(MaxTCBException))
}

// uncovered is an advisory of the machine that the exception does not name.
func uncovered(have, covered []string) (string, bool) {
	for _, id := range have {
		if !slices.Contains(covered, id) {
			return id, true
		}
	}
	return "", false
}

// CollateralWatermark is the record at collateral/<fmspc>: the newest collateral that
// was accepted for that family of machines. An evaluation number falls only to that of
// collateral which was signed after the document with the higher number had ended.
type CollateralWatermark struct {
	// FMSPC, 12 lower-case hex characters.
	FMSPC string `json:"fmspc"`
	// TCBEvaluation and QEEvaluation are the highest tcbEvaluationDataNumber of TCB
	// info and QE identity.
	TCBEvaluation uint32 `json:"tcb_evaluation"`
	QEEvaluation  uint32 `json:"qe_evaluation"`
	// TCBUntil and QEUntil are when the newest documents with these numbers end. After
	// that the number binds nothing. Zero, in a record of an earlier version: it binds.
	TCBUntil time.Time `json:"tcb_until,omitzero"`
	QEUntil  time.Time `json:"qe_until,omitzero"`
	// IssuedAt is the newest signed time: no honest clock is before it, nor before that of any
	// other family's record.
	IssuedAt time.Time `json:"issued_at"`
	// Permit is an operator's temporary acceptance of lower numbers.
	Permit CollateralPermit `json:"permit,omitzero"`
}

// Raised merges both marks, part by part; the result has the FMSPC of other. Only signed
// times decide, so a clock that runs ahead lowers no number.
func (m CollateralWatermark) Raised(other CollateralWatermark) CollateralWatermark {
	out := CollateralWatermark{FMSPC: other.FMSPC, IssuedAt: m.IssuedAt, Permit: m.Permit}
	if other.Permit.Until.After(out.Permit.Until) {
		out.Permit = other.Permit
	}
	if other.IssuedAt.After(out.IssuedAt) {
		out.IssuedAt = other.IssuedAt
	}
	tcb := newerEvaluation(evaluation{m.TCBEvaluation, m.TCBUntil, m.IssuedAt}, evaluation{other.TCBEvaluation, other.TCBUntil, other.IssuedAt})
	qe := newerEvaluation(evaluation{m.QEEvaluation, m.QEUntil, m.IssuedAt}, evaluation{other.QEEvaluation, other.QEUntil, other.IssuedAt})
	out.TCBEvaluation, out.TCBUntil, out.QEEvaluation, out.QEUntil = tcb.number, tcb.until, qe.number, qe.until
	return out
}

type evaluation struct {
	number        uint32
	until, issued time.Time
}

func newerEvaluation(a, b evaluation) evaluation {
	if a.number < b.number {
		a, b = b, a
	}
	switch {
	case a.number == b.number && b.until.After(a.until):
		a.until = b.until
	case a.number > b.number && b.number > 0 && !a.until.IsZero() && b.issued.After(a.until):
		return b
	}
	return a
}

// Equal reports the same content.
func (m CollateralWatermark) Equal(other CollateralWatermark) bool {
	return m.FMSPC == other.FMSPC && m.TCBEvaluation == other.TCBEvaluation && m.QEEvaluation == other.QEEvaluation &&
		m.TCBUntil.Equal(other.TCBUntil) && m.QEUntil.Equal(other.QEUntil) && m.IssuedAt.Equal(other.IssuedAt) &&
		m.Permit.TCBEvaluation == other.Permit.TCBEvaluation && m.Permit.QEEvaluation == other.Permit.QEEvaluation && m.Permit.Until.Equal(other.Permit.Until)
}
