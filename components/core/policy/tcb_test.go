package policy

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func tcbNow() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) }

func tolerated(change func(*TCBException)) TCBPolicy {
	e := TCBException{Status: "SWHardeningNeeded", Advisories: []string{"INTEL-SA-00615", "INTEL-SA-00657"}, Until: tcbNow().Add(7 * 24 * time.Hour), Reason: "the firmware comes in June"}
	if change != nil {
		change(&e)
	}
	return TCBPolicy{Exceptions: []TCBException{e}}
}

func TestATT04_OnlyUpToDatePassesWithoutAnException(t *testing.T) {
	hardening := TCB{Status: "SWHardeningNeeded", Advisories: []string{"INTEL-SA-00615"}, FMSPC: "50806f000000"}
	with := func(change func(*TCB)) TCB {
		c := hardening
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		policy TCBPolicy
		tcb    TCB
		want   Code // "": allowed
	}{
		"up to date":                     {TCBPolicy{}, TCB{Status: "UpToDate"}, ""},
		"up to date with advisories":     {TCBPolicy{}, TCB{Status: "UpToDate", Advisories: []string{"INTEL-SA-00615"}}, ""},
		"not evaluated":                  {tolerated(nil), TCB{}, CodeCollateralUnavailable},
		"hardening":                      {TCBPolicy{}, hardening, CodeTCBOutOfDate},
		"hardening, tolerated":           {tolerated(nil), hardening, ""},
		"without advisories":             {tolerated(nil), with(func(c *TCB) { c.Advisories = nil }), ""},
		"one advisory more":              {tolerated(nil), with(func(c *TCB) { c.Advisories = []string{"INTEL-SA-00615", "INTEL-SA-99999"} }), CodeTCBAdvisoryBlocked},
		"advisory of another case":       {tolerated(nil), with(func(c *TCB) { c.Advisories = []string{"intel-sa-00615"} }), CodeTCBAdvisoryBlocked},
		"another status":                 {tolerated(nil), with(func(c *TCB) { c.Status = "OutOfDate" }), CodeTCBOutOfDate},
		"an invented status":             {tolerated(func(e *TCBException) { e.Status = "Fine" }), with(func(c *TCB) { c.Status = "Fine" }), CodeTCBOutOfDate},
		"revoked":                        {tolerated(func(e *TCBException) { e.Status = "Revoked" }), with(func(c *TCB) { c.Status = "Revoked" }), CodeTCBOutOfDate},
		"status in another case":         {TCBPolicy{}, TCB{Status: "uptodate"}, CodeTCBOutOfDate},
		"of this family":                 {tolerated(func(e *TCBException) { e.FMSPC = "50806f000000" }), hardening, ""},
		"of another family":              {tolerated(func(e *TCBException) { e.FMSPC = "90c06f000000" }), hardening, CodeTCBOutOfDate},
		"OPS-12 past its end":            {tolerated(func(e *TCBException) { e.Until = tcbNow() }), hardening, CodeTCBOutOfDate},
		"OPS-12 without an end":          {tolerated(func(e *TCBException) { e.Until = time.Time{} }), hardening, CodeTCBOutOfDate},
		"OPS-12 more than 30 days ahead": {tolerated(func(e *TCBException) { e.Until = tcbNow().Add(31 * 24 * time.Hour) }), hardening, CodeTCBOutOfDate},
		"without a reason":               {tolerated(func(e *TCBException) { e.Reason = "" }), hardening, CodeTCBOutOfDate},
		"the second exception":           {TCBPolicy{Exceptions: slices.Concat(tolerated(func(e *TCBException) { e.Advisories = nil }).Exceptions, tolerated(nil).Exceptions)}, hardening, ""},
	} {
		d := AppraiseTCB(c.policy, c.tcb, tcbNow())
		if d.Code != c.want || d.Allowed != (c.want == "") || !d.Allowed && d.Message == "" {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
}

func TestOPS12_ExceptionsMustEndAndSayWhy(t *testing.T) {
	if err := tolerated(nil).Validate(tcbNow()); err != nil {
		t.Error(err)
	}
	if err := tolerated(func(e *TCBException) { e.Until = tcbNow().Add(-time.Hour) }).Validate(tcbNow()); err != nil {
		t.Errorf("an exception that has ended keeps a measured file from loading: %v", err)
	}
	bad := tolerated(func(e *TCBException) {
		*e = TCBException{Status: "Revoked", Advisories: []string{"SA 1"}, FMSPC: "50806F000000", Until: tcbNow().Add(31 * 24 * time.Hour)}
	})
	bad.Exceptions = append(bad.Exceptions, TCBException{Status: "UpToDate"})
	err := bad.Validate(tcbNow())
	for _, want := range []string{"[0].status", "[0].advisories", "[0].fmspc", "[0].reason", "more than 30 days", "[1].status", "[1].until is missing"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	if err := (TCBPolicy{Exceptions: make([]TCBException, 33)}).Validate(tcbNow()); err == nil || !strings.Contains(err.Error(), "at most 32") {
		t.Errorf("33 exceptions: %v", err)
	}
}

// TestACollateralWatermarkNeverFalls: each part keeps the highest that was seen, whichever of two
// collaterals is the newer one in which part.
func TestACollateralWatermarkNeverFalls(t *testing.T) {
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	mark := CollateralWatermark{FMSPC: "00806f050000", TCBEvaluation: 17, QEEvaluation: 5, IssuedAt: at}
	for name, c := range map[string]struct{ other, want CollateralWatermark }{
		"all older": {CollateralWatermark{TCBEvaluation: 16, QEEvaluation: 4, IssuedAt: at.Add(-time.Hour)}, mark},
		"all newer": {CollateralWatermark{TCBEvaluation: 18, QEEvaluation: 6, IssuedAt: at.Add(time.Hour)},
			CollateralWatermark{FMSPC: mark.FMSPC, TCBEvaluation: 18, QEEvaluation: 6, IssuedAt: at.Add(time.Hour)}},
		"signed later about an older state": {CollateralWatermark{TCBEvaluation: 16, QEEvaluation: 6, IssuedAt: at.Add(time.Hour)},
			CollateralWatermark{FMSPC: mark.FMSPC, TCBEvaluation: 17, QEEvaluation: 6, IssuedAt: at.Add(time.Hour)}},
		"the same": {mark, mark},
	} {
		c.other.FMSPC = mark.FMSPC
		if got := mark.Raised(c.other); !got.Equal(c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if got := c.other.Raised(mark); !got.Equal(c.want) {
			t.Errorf("%s, the other way: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestATT04_GraceEndsSoLongAfterTheLevelWasReplaced: nothing but OutOfDate with a signed
// date in the past has a grace, and it is over to the second.
func TestATT04_GraceEndsSoLongAfterTheLevelWasReplaced(t *testing.T) {
	day := 24 * time.Hour
	old := TCB{Status: "OutOfDate", Advisories: []string{"INTEL-SA-01245"}, ReplacedAt: tcbNow().Add(-400 * day)}
	with := func(change func(*TCB)) TCB {
		c := old
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		days int
		tcb  TCB
		want Code
	}{
		"within":                     {401, old, ""},
		"the last moment is over":    {400, old, CodeTCBOutOfDate},
		"no grace":                   {0, old, CodeTCBOutOfDate},
		"less than none":             {-1, old, CodeTCBOutOfDate},
		"more than the bound":        {MaxTCBGraceDays + 1, old, CodeTCBOutOfDate},
		"at the bound":               {MaxTCBGraceDays, old, ""},
		"no date":                    {401, with(func(c *TCB) { c.ReplacedAt = time.Time{} }), CodeTCBOutOfDate},
		"a date that is still ahead": {401, with(func(c *TCB) { c.ReplacedAt = tcbNow().Add(day) }), CodeTCBOutOfDate},
		"configuration in addition":  {401, with(func(c *TCB) { c.Status = "OutOfDateConfigurationNeeded" }), CodeTCBOutOfDate},
		"hardening":                  {401, with(func(c *TCB) { c.Status = "SWHardeningNeeded" }), CodeTCBOutOfDate},
		"revoked":                    {401, with(func(c *TCB) { c.Status = "Revoked" }), CodeTCBOutOfDate},
		"not evaluated":              {401, with(func(c *TCB) { c.Status = "" }), CodeCollateralUnavailable},
	} {
		p := TCBPolicy{GraceDays: c.days}
		if d := AppraiseTCB(p, c.tcb, tcbNow()); d.Code != c.want || d.Allowed != (c.want == "") {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
		want := time.Time{}
		if c.want == "" {
			want = c.tcb.ReplacedAt.Add(time.Duration(c.days) * day)
		}
		if got := p.ToleratedUntil(c.tcb, tcbNow()); !got.Equal(want) {
			t.Errorf("%s: tolerated until %s, want %s", name, got, want)
		}
	}
	if d := AppraiseTCB(TCBPolicy{GraceDays: 400}, old, tcbNow()); !strings.Contains(d.Message, "grace of 400 days ended on 2026-06-01") {
		t.Errorf("message %q", d.Message)
	}
	for days, ok := range map[int]bool{-1: false, 0: true, MaxTCBGraceDays: true, MaxTCBGraceDays + 1: false} {
		err := TCBPolicy{GraceDays: days}.Validate(tcbNow())
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "grace_days") {
			t.Errorf("grace_days %d: %v", days, err)
		}
	}
}

// TestAnExceptionIsToleratedUntilItEnds: the later of grace and exception counts.
func TestAnExceptionIsToleratedUntilItEnds(t *testing.T) {
	old := TCB{Status: "OutOfDate", ReplacedAt: tcbNow().Add(-10 * 24 * time.Hour)}
	until := tcbNow().Add(5 * 24 * time.Hour)
	p := tolerated(func(e *TCBException) { e.Status, e.Advisories, e.Until = "OutOfDate", nil, until })
	for days, want := range map[int]time.Time{0: until, 11: until, 20: tcbNow().Add(10 * 24 * time.Hour)} {
		p.GraceDays = days
		if got := p.ToleratedUntil(old, tcbNow()); !got.Equal(want) {
			t.Errorf("grace of %d days: until %s, want %s", days, got, want)
		}
	}
	if got := p.ToleratedUntil(TCB{Status: "UpToDate"}, tcbNow()); !got.IsZero() {
		t.Errorf("a machine that is up to date is tolerated until %s", got)
	}
}

// TestATT05_AnEvaluationFallsOnlyAfterItsDocumentEnded: by signed times alone, in either order.
func TestATT05_AnEvaluationFallsOnlyAfterItsDocumentEnded(t *testing.T) {
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	until := at.Add(30 * 24 * time.Hour)
	early := CollateralWatermark{FMSPC: "00806f050000", TCBEvaluation: 17, QEEvaluation: 17, TCBUntil: until, QEUntil: until, IssuedAt: at}
	standard := func(issued time.Time) CollateralWatermark {
		return CollateralWatermark{FMSPC: early.FMSPC, TCBEvaluation: 16, QEEvaluation: 16, TCBUntil: issued.Add(30 * 24 * time.Hour), QEUntil: issued.Add(30 * 24 * time.Hour), IssuedAt: issued}
	}
	bound := early
	bound.TCBUntil = time.Time{} // of an earlier version
	for name, c := range map[string]struct {
		a, b     CollateralWatermark
		tcb, qe  uint32
		tcbUntil time.Time
	}{
		"while the higher one is in date":   {early, standard(at.Add(time.Hour)), 17, 17, until},
		"at its last moment":                {early, standard(until), 17, 17, until},
		"after it ended":                    {early, standard(until.Add(time.Second)), 16, 16, until.Add(time.Second + 30*24*time.Hour)},
		"a record without an end":           {bound, standard(until.Add(time.Second)), 17, 16, time.Time{}},
		"the same number, signed once more": {early, CollateralWatermark{FMSPC: early.FMSPC, TCBEvaluation: 17, QEEvaluation: 17, TCBUntil: until.Add(time.Hour), QEUntil: until, IssuedAt: at}, 17, 17, until.Add(time.Hour)},
		"a mark that says nothing":          {early, CollateralWatermark{FMSPC: early.FMSPC, IssuedAt: until.Add(time.Hour)}, 17, 17, until},
	} {
		for _, got := range []CollateralWatermark{c.a.Raised(c.b), c.b.Raised(c.a)} {
			if got.TCBEvaluation != c.tcb || got.QEEvaluation != c.qe || !got.TCBUntil.Equal(c.tcbUntil) {
				t.Errorf("%s: %+v, want TCB %d until %s, QE %d", name, got, c.tcb, c.tcbUntil, c.qe)
			}
		}
	}
}

// TestOPS12_TheTrustFileBoundsWhatOperatorsGrant: a limit that would allow more than its words say is
// refused when the file is read.
func TestOPS12_TheTrustFileBoundsWhatOperatorsGrant(t *testing.T) {
	for name, c := range map[string]struct {
		limits TCBLimits
		want   string
	}{
		"none":            {TCBLimits{}, ""},
		"some":            {TCBLimits{MaxDays: 30, Statuses: []string{"OutOfDate"}, Advisories: []string{"INTEL-SA-*", "INTEL-SA-00615"}}, ""},
		"too long":        {TCBLimits{MaxDays: 31, Statuses: []string{"OutOfDate"}}, "max_days"},
		"negative":        {TCBLimits{MaxDays: -1}, "max_days"},
		"no status":       {TCBLimits{MaxDays: 7}, "max_days and statuses"},
		"no days":         {TCBLimits{Statuses: []string{"OutOfDate"}}, "max_days and statuses"},
		"revoked":         {TCBLimits{MaxDays: 7, Statuses: []string{"Revoked"}}, "statuses"},
		"every advisory":  {TCBLimits{MaxDays: 7, Statuses: []string{"OutOfDate"}, Advisories: []string{"*"}}, "advisories"},
		"star in between": {TCBLimits{MaxDays: 7, Statuses: []string{"OutOfDate"}, Advisories: []string{"INTEL-*-00615"}}, "advisories"},
		"no advisory":     {TCBLimits{MaxDays: 7, Statuses: []string{"OutOfDate"}, Advisories: []string{"all"}}, "advisories"},
	} {
		err := TCBPolicy{OperatorExceptions: c.limits}.Validate(tcbNow())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), "operator_exceptions: "+c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestOPS12_AnEditedChainShows: an entry that was changed, or taken out, breaks it.
func TestOPS12_AnEditedChainShows(t *testing.T) {
	var l TCBLedger
	for range maxTCBEntries + 3 {
		l = l.Append(TCBEntry{At: tcbNow(), What: TCBGranted, ID: "e", By: "ann"})
	}
	if err := l.Verify(); err != nil || len(l.Entries) != maxTCBEntries || l.Entries[0].Number != 4 {
		t.Fatalf("%d entries from %d on: %v", len(l.Entries), l.Entries[0].Number, err)
	}
	for name, edit := range map[string]func(*TCBLedger){
		"changed":       func(l *TCBLedger) { l.Entries[5].By = "bob" },
		"taken out":     func(l *TCBLedger) { l.Entries = slices.Delete(l.Entries, 5, 6) },
		"last one gone": func(l *TCBLedger) { l.Entries = l.Entries[:len(l.Entries)-1] },
		"all gone":      func(l *TCBLedger) { l.Entries = nil },
	} {
		edited := l
		edited.Entries = slices.Clone(l.Entries)
		edit(&edited)
		if err := edited.Verify(); err == nil || !strings.Contains(err.Error(), string(CodeAuditChainBroken)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
