package collateral

import (
	"context"
	"sync"
	"time"

	"cadre.dev/attest/internal/refusal"
	"cadre.dev/core/policy"
)

// Highest remembers the newest accepted collateral, per FMSPC, so that an attacker cannot replay
// older collateral with valid signatures (ATT-05). Implementations are safe for concurrent use. An
// error of either method rejects the evidence: an unknown mark is never assumed.
type Highest interface {
	// Get returns the mark of fmspc, with the newest signed time of all families: no honest clock
	// is before it, for any family. The rest is zero when there is no mark of fmspc.
	Get(ctx context.Context, fmspc string) (policy.CollateralWatermark, error)
	// Raise records the maximum of the stored mark and mark, field by field.
	Raise(ctx context.Context, mark policy.CollateralWatermark) error
}

// Memory is a Highest of this process alone. Its zero value is ready.
type Memory struct {
	mu    sync.Mutex
	marks map[string]policy.CollateralWatermark // guarded by mu
}

// maxMarks bounds how many families are remembered; there are some dozens.
const maxMarks = 1024

// Get implements Highest.
func (m *Memory) Get(_ context.Context, fmspc string) (policy.CollateralWatermark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all policy.CollateralWatermark
	for _, mark := range m.marks {
		all = all.Raised(mark)
	}
	own := m.marks[fmspc]
	own.IssuedAt = all.IssuedAt
	return own, nil
}

// Raise implements Highest.
func (m *Memory) Raise(_ context.Context, mark policy.CollateralWatermark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marks == nil {
		m.marks = map[string]policy.CollateralWatermark{}
	}
	if _, known := m.marks[mark.FMSPC]; !known && len(m.marks) >= maxMarks {
		return refusal.New(policy.CodeCollateralUnavailable, "more than %d families of machines", maxMarks)
	}
	m.marks[mark.FMSPC] = m.marks[mark.FMSPC].Raised(mark)
	return nil
}

// CheckMark reports whether collateral with mark may be used at now, given the highest known mark.
// A number whose newest document has expired does not count: otherwise one look at Intel's early
// set would block the standard set for a year.
func CheckMark(mark, highest policy.CollateralWatermark, now time.Time) error {
	// An operator may accept a number below the highest while the permit lasts.
	var accepted policy.CollateralPermit
	if now.Before(highest.Permit.Until) {
		accepted = highest.Permit
	}
	below := func(number, newest, permitted uint32) bool {
		return number < newest && (permitted == 0 || number < permitted)
	}
	switch {
	case now.Add(clockSlack).Before(highest.IssuedAt):
		return refusal.New(policy.CodeClockUntrusted, "the clock says %s, but collateral issued at %s was seen", stamp(now), stamp(highest.IssuedAt))
	case below(mark.TCBEvaluation, highest.TCBEvaluation, accepted.TCBEvaluation) && binds(highest.TCBUntil, now):
		return refusal.New(policy.CodeCollateralRollback, "TCB info has evaluation number %d, number %d was seen for FMSPC %s", mark.TCBEvaluation, highest.TCBEvaluation, mark.FMSPC)
	case below(mark.QEEvaluation, highest.QEEvaluation, accepted.QEEvaluation) && binds(highest.QEUntil, now):
		return refusal.New(policy.CodeCollateralRollback, "QE identity has evaluation number %d, number %d was seen", mark.QEEvaluation, highest.QEEvaluation)
	}
	return nil
}

// binds reports that a document that ends at until is in date, or that its end is not known.
func binds(until, now time.Time) bool { return until.IsZero() || !now.After(until) }
