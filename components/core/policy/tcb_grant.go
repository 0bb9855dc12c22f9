package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/hashchain"
)

// TCBLimits bound the exceptions that operators grant at run time. The zero value allows
// none. They are measured: no record and no call of the API widens them.
type TCBLimits struct {
	// MaxDays is how long one exception may last from when it is granted, at most 30.
	MaxDays int `json:"max_days,omitempty"`
	// Statuses that an exception may name, in Intel's words.
	Statuses []string `json:"statuses,omitempty"`
	// Advisories that an exception may name: an id, or the beginning of ids with a '*' at
	// its end. Empty: only machines without any advisory.
	Advisories []string `json:"advisories,omitempty"`
}

// Bounds of the operators' grants.
const (
	maxTCBGrants      = 32
	maxTCBAdvisories  = 32
	maxTCBEntries     = 64
	maxTCBExceptionIn = int(MaxTCBException / (24 * time.Hour))
)

// validate reports every problem of l.
func (l TCBLimits) validate() error {
	var errs []error
	if l.MaxDays < 0 || l.MaxDays > maxTCBExceptionIn {
		errs = append(errs, fmt.Errorf("max_days %d is not from 0 to %d", l.MaxDays, maxTCBExceptionIn))
	}
	if (l.MaxDays == 0) != (len(l.Statuses) == 0) {
		errs = append(errs, errors.New("max_days and statuses: set both, or neither for no exception by operators"))
	}
	for _, status := range l.Statuses {
		if !slices.Contains(tolerable, status) {
			errs = append(errs, fmt.Errorf("statuses: %q is not one of %v", status, tolerable))
		}
	}
	if len(l.Advisories) > maxTCBAdvisories {
		errs = append(errs, fmt.Errorf("advisories has %d entries, at most %d are allowed", len(l.Advisories), maxTCBAdvisories))
	}
	for _, pattern := range l.Advisories {
		prefix, open := strings.CutSuffix(pattern, "*")
		if open && len(prefix) < 4 || !open && !advisoryID.MatchString(pattern) || strings.Contains(prefix, "*") || len(pattern) > 40 {
			errs = append(errs, fmt.Errorf("advisories: %.40q is neither an id such as INTEL-SA-00615 nor a beginning such as INTEL-SA-*", pattern))
		}
	}
	return errors.Join(errs...)
}

// covers reports that an exception may name the advisory.
func (l TCBLimits) covers(advisory string) bool {
	return slices.ContainsFunc(l.Advisories, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return pattern == advisory || open && strings.HasPrefix(advisory, prefix)
	})
}

// TCBGrant is the record at control/tcb-exceptions/<id>: an operator tolerates one state of
// machines for a while. It counts once the leader has written it into the TCBLedger, and
// no longer than both are there.
type TCBGrant struct {
	// ID is the last segment of the key.
	ID string `json:"id"`
	// Status, Advisories and FMSPC are as in TCBException.
	Status     string   `json:"status"`
	Advisories []string `json:"advisories,omitempty"`
	FMSPC      string   `json:"fmspc,omitempty"`
	// Until is when it ends.
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
	// By granted it, At.
	By string    `json:"by"`
	At time.Time `json:"at"`
	// RevokedBy is the operator who revoked the grant; empty: in force. The leader then removes the
	// record.
	RevokedBy string `json:"revoked_by,omitempty"`
}

// Check is why g does not count at now within l; nil: it does.
func (l TCBLimits) Check(g TCBGrant, now time.Time) error {
	switch {
	case l.MaxDays <= 0 || l.MaxDays > maxTCBExceptionIn:
		return errors.New("the trust file lets operators grant no exception: set tcb.operator_exceptions there")
	case g.RevokedBy != "":
		return fmt.Errorf("%s took it back", g.RevokedBy)
	case !slices.Contains(l.Statuses, g.Status) || !slices.Contains(tolerable, g.Status):
		return fmt.Errorf("status: %.60q is not one of %v, which the trust file allows", g.Status, l.Statuses)
	case g.FMSPC != "" && !isHex(g.FMSPC, 12):
		return fmt.Errorf("fmspc: %.40q is not 12 lower-case hex digits", g.FMSPC)
	case len(g.Advisories) > maxTCBAdvisories:
		return fmt.Errorf("advisories: %d of them, at most %d are allowed", len(g.Advisories), maxTCBAdvisories)
	case g.ID == "" || g.Reason == "" || g.By == "" || g.At.IsZero():
		return errors.New("id, reason, by and at must say which it is, why it was granted, by which operator and when")
	case g.At.After(now.Add(clockSlack)):
		return fmt.Errorf("at: %s lies ahead", g.At.UTC().Format(time.RFC3339))
	case !g.Until.After(g.At) || g.Until.Sub(g.At) > time.Duration(l.MaxDays)*24*time.Hour:
		return fmt.Errorf("until: it may last at most %d days, by the trust file", l.MaxDays)
	case !now.Before(g.Until):
		return fmt.Errorf("it ended on %s", g.Until.UTC().Format(time.RFC3339))
	}
	for _, id := range g.Advisories {
		if !advisoryID.MatchString(id) || !l.covers(id) {
			return fmt.Errorf("advisories: %.40q is none that the trust file allows (%s)", id, strings.Join(l.Advisories, ", "))
		}
	}
	return nil
}

// Equal reports the same content.
func (g TCBGrant) Equal(other TCBGrant) bool {
	return g.ID == other.ID && g.Status == other.Status && slices.Equal(g.Advisories, other.Advisories) && g.FMSPC == other.FMSPC &&
		g.Until.Equal(other.Until) && g.Reason == other.Reason && g.By == other.By && g.At.Equal(other.At) && g.RevokedBy == other.RevokedBy
}

// inForce returns all exceptions that count at now: the trust file's exceptions, and the operators'
// grants within its limits.
func (p TCBPolicy) inForce(now time.Time) []TCBException {
	out := slices.Clone(p.Exceptions)
	for _, g := range p.Granted {
		if p.OperatorExceptions.Check(g, now) == nil {
			out = append(out, TCBException{Status: g.Status, Advisories: g.Advisories, FMSPC: g.FMSPC, Until: g.Until, Reason: g.Reason})
		}
	}
	return out
}

// CollateralLowering is the record at control/collateral/<fmspc>: an operator lets older
// collateral of a family be used again. The leader carries it out once and removes it.
type CollateralLowering struct {
	FMSPC string `json:"fmspc"`
	// TCBEvaluation and QEEvaluation are the lowest numbers that are accepted.
	TCBEvaluation uint32    `json:"tcb_evaluation"`
	QEEvaluation  uint32    `json:"qe_evaluation"`
	Reason        string    `json:"reason"`
	By            string    `json:"by"`
	At            time.Time `json:"at"`
}

// CollateralPermit accepts evaluation numbers below the highest from these on, until the
// documents with the highest have ended.
type CollateralPermit struct {
	TCBEvaluation uint32    `json:"tcb_evaluation"`
	QEEvaluation  uint32    `json:"qe_evaluation"`
	Until         time.Time `json:"until"`
}

// maxPermit bounds a permit where a record has no end of its documents.
const maxPermit = 30 * 24 * time.Hour

// Lowered applies l to m. Everything else of m stays: the number, and the time.
func (m CollateralWatermark) Lowered(l CollateralLowering, now time.Time) (CollateralWatermark, error) {
	switch {
	case l.FMSPC != m.FMSPC || l.Reason == "" || l.By == "":
		return m, errors.New("fmspc, reason and by must say which mark is lowered, why and by which operator")
	case l.TCBEvaluation == 0 || l.QEEvaluation == 0:
		return m, errors.New("tcb_evaluation and qe_evaluation must name the lowest accepted number")
	case l.TCBEvaluation >= m.TCBEvaluation && l.QEEvaluation >= m.QEEvaluation:
		return m, fmt.Errorf("evaluation numbers %d and %d are not below the present ones, %d and %d", l.TCBEvaluation, l.QEEvaluation, m.TCBEvaluation, m.QEEvaluation)
	}
	until := now.Add(maxPermit)
	if m.TCBUntil.After(now) && m.QEUntil.After(now) {
		newest := slices.MaxFunc([]time.Time{m.TCBUntil, m.QEUntil}, time.Time.Compare)
		until = slices.MinFunc([]time.Time{until, newest}, time.Time.Compare)
	}
	m.Permit = CollateralPermit{TCBEvaluation: l.TCBEvaluation, QEEvaluation: l.QEEvaluation, Until: until.UTC()}
	return m, nil
}

// TCBLedger is the leader's record at policy/tcb: the exceptions in force, and a hash chain of the
// operators' actions on the judgement of machines.
type TCBLedger struct {
	// Granted by id, each as its record says.
	Granted map[string]TCBGrant `json:"granted,omitempty"`
	// Entries are the last ones, oldest first; Head is the digest of the last.
	Entries []TCBEntry `json:"entries,omitempty"`
	Head    string     `json:"head,omitempty"`
	Term    uint64     `json:"term"`
}

// The actions of a TCBEntry.
const (
	TCBGranted = "grant"
	TCBRevoked = "revoke"
	TCBEnded   = "end"
	TCBLowered = "lower-collateral"
)

// TCBEntry is one event. Its digest covers every field, and the next entry carries it.
type TCBEntry struct {
	// Number counts from 1; the oldest entries are dropped.
	Number uint64    `json:"number"`
	At     time.Time `json:"at"`
	What   string    `json:"what"`
	// ID of the exception, or the family of machines.
	ID string `json:"id"`
	// Text states the grant or lowering and its reason, By is the operator. Leader recorded it.
	Text   string `json:"text"`
	By     string `json:"by"`
	Leader string `json:"leader"`
	// Previous is the digest of the entry before, 64 hex characters.
	Previous string `json:"previous"`
}

const unknownOperator = "unknown (written to Consul KV)"

// Digest is the SHA-256 of the entry's JSON, 64 hex characters.
func (e TCBEntry) Digest() string {
	e.At = e.At.UTC()
	return hashchain.Digest("cadre/tcb/v1\x00", e)
}

// Append is l with one more entry, whose Number and Previous are set here.
func (l TCBLedger) Append(e TCBEntry) TCBLedger {
	e.Number, e.Previous, e.Text, e.By = 1, hashchain.Start("cadre/tcb/v1\x00", ""), truncateText(e.Text), truncateText(e.By)
	if n := len(l.Entries); n > 0 {
		e.Number, e.Previous = l.Entries[n-1].Number+1, l.Entries[n-1].Digest()
	}
	l.Entries = append(slices.Clone(l.Entries), e)
	if over := len(l.Entries) - maxTCBEntries; over > 0 {
		l.Entries = l.Entries[over:]
	}
	l.Head = e.Digest()
	return l
}

// Verify says where the chain is broken; nil: nowhere.
func (l TCBLedger) Verify() error {
	for i, e := range l.Entries {
		first := i == 0 && e.Number == 1 && e.Previous != hashchain.Start("cadre/tcb/v1\x00", "")
		if first || i > 0 && (e.Number != l.Entries[i-1].Number+1 || e.Previous != l.Entries[i-1].Digest()) {
			return fmt.Errorf("%s: entry %d about the judgement of machines does not follow the one before as it was written", CodeAuditChainBroken, e.Number)
		}
	}
	if n := len(l.Entries); n > 0 && l.Head != l.Entries[n-1].Digest() || n == 0 && l.Head != "" {
		return fmt.Errorf("%s: the last entry about the judgement of machines is not what was written", CodeAuditChainBroken)
	}
	return nil
}

// Fold is l as the operators' records want it at now; leader writes it. spent are the ids
// whose records say nothing any more and can be removed.
func (l TCBLedger) Fold(asked []TCBGrant, limits TCBLimits, now time.Time, leader string) (out TCBLedger, spent []string) {
	out = l
	out.Granted = maps.Clone(l.Granted)
	if out.Granted == nil {
		out.Granted = map[string]TCBGrant{}
	}
	byID := map[string]TCBGrant{}
	for _, g := range asked {
		byID[g.ID] = g
	}
	note := func(what, id, text, by string) {
		out = out.Append(TCBEntry{At: now, What: what, ID: id, Text: text, By: by, Leader: leader})
	}
	for _, id := range slices.Sorted(maps.Keys(l.Granted)) {
		g, there := byID[id]
		switch {
		case !there:
			note(TCBRevoked, id, "the record was removed", unknownOperator)
		case g.RevokedBy != "":
			note(TCBRevoked, id, l.Granted[id].text(), g.RevokedBy)
		case !now.Before(g.Until):
			note(TCBEnded, id, g.text(), g.By)
		case !g.Equal(l.Granted[id]) || limits.Check(g, now) != nil:
			note(TCBRevoked, id, "the record was changed, or the trust file allows it no more", unknownOperator)
		default:
			continue
		}
		delete(out.Granted, id)
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		g := byID[id]
		if _, known := out.Granted[id]; !known && len(out.Granted) < maxTCBGrants && limits.Check(g, now) == nil {
			out.Granted[id] = g
			note(TCBGranted, id, g.text(), g.By)
		}
		if g.RevokedBy != "" || !g.Until.IsZero() && !now.Before(g.Until) {
			spent = append(spent, id)
		}
	}
	return out, spent
}

// InForce returns the exceptions of l whose records are unchanged since the leader accepted them.
func (l TCBLedger) InForce(asked []TCBGrant) (out []TCBGrant) {
	for _, g := range asked {
		if accepted, ok := l.Granted[g.ID]; ok && accepted.Equal(g) {
			out = append(out, g)
		}
	}
	return out
}

// text describes the tolerated state for operators.
func (g TCBGrant) text() string {
	return fmt.Sprintf("%s %v, family %s, until %s: %s", g.Status, g.Advisories, cmp.Or(g.FMSPC, "any"), g.Until.UTC().Format(time.RFC3339), g.Reason)
}

// TCBOverview lists the operators' decisions on the judgement of machines.
type TCBOverview struct {
	// Limits of the measured trust file.
	Limits TCBLimits `json:"limits"`
	// Exceptions are all recorded exceptions, also without effect.
	Exceptions []TCBState `json:"exceptions"`
	// Collateral is the watermark of each family.
	Collateral []CollateralWatermark `json:"collateral"`
	// Entries of the chain, oldest first. ChainProblem says where it is broken.
	Entries      []TCBEntry `json:"entries"`
	ChainProblem string     `json:"chain_problem,omitempty"`
}

// TCBState is one exception; Problem is why it does not count, empty: it counts.
type TCBState struct {
	TCBGrant
	Problem string `json:"problem,omitempty"`
}

// Overview joins the chain with the operators' requests at now.
func (l TCBLedger) Overview(asked []TCBGrant, limits TCBLimits, now time.Time) TCBOverview {
	out := TCBOverview{Limits: limits, Exceptions: []TCBState{}, Collateral: []CollateralWatermark{}, Entries: append([]TCBEntry{}, l.Entries...)}
	inForce := l.InForce(asked)
	for _, g := range asked {
		one := TCBState{TCBGrant: g}
		if err := limits.Check(g, now); err != nil {
			one.Problem = err.Error()
		} else if !slices.ContainsFunc(inForce, func(f TCBGrant) bool { return f.ID == g.ID }) {
			one.Problem = "the leader has not recorded it yet, or as many as there may be are in force"
		}
		out.Exceptions = append(out.Exceptions, one)
	}
	if err := l.Verify(); err != nil {
		out.ChainProblem = err.Error()
	}
	return out
}
