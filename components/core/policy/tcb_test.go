package policy

import (
	"fmt"
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
	// Longer exceptions for other machines do not count.
	p.GraceDays = 0
	longer := TCBException{Status: "OutOfDate", Until: until.Add(time.Hour), Reason: "r", FMSPC: "b0c06f000000"}
	p.Exceptions = append(p.Exceptions, longer)
	old.FMSPC = "00806f050000"
	if got := p.ToleratedUntil(old, tcbNow()); !got.Equal(until) {
		t.Errorf("an exception for another family counts until %s", got)
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

// TestOPS12_TheTrustFileBoundsTheGrantsOfOperators: a limit that would allow more than its words say is refused when
// the file is read.
func TestOPS12_TheTrustFileBoundsTheGrantsOfOperators(t *testing.T) {
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
		"more than fit":   {TCBLimits{MaxDays: 7, Statuses: []string{"OutOfDate"}, Advisories: slices.Repeat([]string{"INTEL-SA-00615"}, maxTCBAdvisories+1)}, "advisories has 33 entries"},
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

// operatorLimits are the limits of a trust file, and operatorGrant is an exception within them.
func operatorLimits() TCBLimits {
	return TCBLimits{MaxDays: 14, Statuses: []string{"OutOfDate"}, Advisories: []string{"INTEL-SA-*", "AMD-SB-3001"}}
}

func operatorGrant(id string, edits ...func(*TCBGrant)) TCBGrant {
	g := TCBGrant{ID: id, Status: "OutOfDate", Advisories: []string{"INTEL-SA-01397"}, FMSPC: "b0c06f000000",
		At: tcbNow(), Until: tcbNow().Add(10 * 24 * time.Hour), Reason: "firmware comes on Friday", By: "ann"}
	for _, edit := range edits {
		edit(&g)
	}
	return g
}

// TestOPS12_AGrantOutsideOfTheTrustFileDoesNotCount: the problem names the field that is wrong, and
// the machine is refused.
func TestOPS12_AGrantOutsideOfTheTrustFileDoesNotCount(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		limits func(*TCBLimits)
		edit   func(*TCBGrant)
		later  time.Duration
		want   string // "": it counts
	}{
		"within":                           {nil, nil, 0, ""},
		"an advisory that is named whole":  {nil, func(g *TCBGrant) { g.Advisories = []string{"AMD-SB-3001"} }, 0, ""},
		"any family":                       {nil, func(g *TCBGrant) { g.FMSPC = "" }, 0, ""},
		"the longest":                      {nil, func(g *TCBGrant) { g.Until = g.At.Add(14 * day) }, 0, ""},
		"a clock that is a little behind":  {nil, func(g *TCBGrant) { g.At = g.At.Add(clockSlack) }, 0, ""},
		"its last second":                  {nil, nil, 10*day - time.Second, ""},
		"its end":                          {nil, nil, 10 * day, "it ended on 2026-06-11"},
		"no grants in the trust file":      {func(l *TCBLimits) { l.MaxDays = 0 }, nil, 0, "set tcb.operator_exceptions"},
		"more days than Cadre allows":      {func(l *TCBLimits) { l.MaxDays = 31 }, nil, 0, "set tcb.operator_exceptions"},
		"revoked":                          {nil, func(g *TCBGrant) { g.RevokedBy = "bob" }, 0, "bob took it back"},
		"another status":                   {nil, func(g *TCBGrant) { g.Status = "SWHardeningNeeded" }, 0, "status: "},
		"a status that none may tolerate":  {func(l *TCBLimits) { l.Statuses = []string{"Revoked"} }, func(g *TCBGrant) { g.Status = "Revoked" }, 0, "status: "},
		"a family in capitals":             {nil, func(g *TCBGrant) { g.FMSPC = "B0C06F000000" }, 0, "fmspc: "},
		"too many advisories":              {nil, func(g *TCBGrant) { g.Advisories = slices.Repeat(g.Advisories, maxTCBAdvisories+1) }, 0, "advisories: 33 of them"},
		"no id":                            {nil, func(g *TCBGrant) { g.ID = "" }, 0, "id, reason, by and at"},
		"no reason":                        {nil, func(g *TCBGrant) { g.Reason = "" }, 0, "id, reason, by and at"},
		"no operator":                      {nil, func(g *TCBGrant) { g.By = "" }, 0, "id, reason, by and at"},
		"no time":                          {nil, func(g *TCBGrant) { g.At = time.Time{} }, 0, "id, reason, by and at"},
		"granted in the future":            {nil, func(g *TCBGrant) { g.At = g.At.Add(clockSlack + time.Second) }, 0, "at: "},
		"an end before its grant":          {nil, func(g *TCBGrant) { g.Until = g.At }, 0, "until: it may last at most 14 days"},
		"longer than the trust file":       {nil, func(g *TCBGrant) { g.Until = g.At.Add(14*day + time.Second) }, 0, "until: it may last at most 14 days"},
		"an advisory of another maker":     {nil, func(g *TCBGrant) { g.Advisories = append(g.Advisories, "OTHER-SA-00001") }, 0, `advisories: "OTHER-SA-00001"`},
		"an advisory that only looks long": {nil, func(g *TCBGrant) { g.Advisories = []string{"AMD-SB-30011"} }, 0, `advisories: "AMD-SB-30011"`},
		"no advisory at all":               {nil, func(g *TCBGrant) { g.Advisories = []string{"INTEL-SA-*"} }, 0, `advisories: "INTEL-SA-*"`},
	} {
		limits, now := operatorLimits(), tcbNow().Add(c.later)
		if c.limits != nil {
			c.limits(&limits)
		}
		g := operatorGrant("e1")
		if c.edit != nil {
			c.edit(&g)
		}
		err := limits.Check(g, now)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		machine := TCB{Status: g.Status, Advisories: g.Advisories, FMSPC: "b0c06f000000"}
		p := TCBPolicy{OperatorExceptions: limits, Granted: []TCBGrant{g}}
		if got := AppraiseTCB(p, machine, now).Allowed; got != (c.want == "") {
			t.Errorf("%s: the machine is allowed: %t", name, got)
		}
		if got := p.ToleratedUntil(machine, now); got.Equal(g.Until) != (c.want == "") {
			t.Errorf("%s: the machine is tolerated until %s", name, got)
		}
	}
}

// TestOPS12_TheLedgerFollowsTheRecordsOfOperators: each change of the exceptions in force gets an
// entry with its operator, and a record that says nothing more is spent.
func TestOPS12_TheLedgerFollowsTheRecordsOfOperators(t *testing.T) {
	edited := func(edit func(*TCBGrant)) []TCBGrant { return []TCBGrant{operatorGrant("e1", edit)} }
	late := operatorGrant("e1").Until
	const granted = "grant e1 by ann"
	for name, c := range map[string]struct {
		asked  []TCBGrant
		limits TCBLimits
		now    time.Time
		want   string
		force  int
		spent  []string
	}{
		"unchanged":              {edited(func(*TCBGrant) {}), operatorLimits(), tcbNow(), granted, 1, nil},
		"removed":                {nil, operatorLimits(), tcbNow(), granted + "; revoke e1 by " + unknownOperator, 0, nil},
		"revoked":                {edited(func(g *TCBGrant) { g.RevokedBy = "bob" }), operatorLimits(), tcbNow(), granted + "; revoke e1 by bob", 0, []string{"e1"}},
		"ended":                  {edited(func(*TCBGrant) {}), operatorLimits(), late, granted + "; end e1 by ann", 0, []string{"e1"}},
		"changed within limits":  {edited(func(g *TCBGrant) { g.Reason = "another" }), operatorLimits(), tcbNow(), granted + "; revoke e1 by " + unknownOperator + "; " + granted, 1, nil},
		"changed beyond limits":  {edited(func(g *TCBGrant) { g.Status = "Revoked" }), operatorLimits(), tcbNow(), granted + "; revoke e1 by " + unknownOperator, 0, nil},
		"refused by trust file":  {edited(func(*TCBGrant) {}), TCBLimits{}, tcbNow(), granted + "; revoke e1 by " + unknownOperator, 0, nil},
		"another one in its way": {append(edited(func(*TCBGrant) {}), operatorGrant("e0")), operatorLimits(), tcbNow(), granted + "; grant e0 by ann", 2, nil},
		"another one, revoked":   {append(edited(func(*TCBGrant) {}), operatorGrant("e0", func(g *TCBGrant) { g.RevokedBy = "bob" })), operatorLimits(), tcbNow(), granted, 1, []string{"e0"}},
		"another one, too long":  {append(edited(func(*TCBGrant) {}), operatorGrant("e0", func(g *TCBGrant) { g.Until = time.Time{} })), operatorLimits(), tcbNow(), granted, 1, nil},
	} {
		first, spent := TCBLedger{}.Fold(edited(func(*TCBGrant) {}), operatorLimits(), tcbNow(), "coordinator-0")
		if len(spent) != 0 {
			t.Fatalf("%s: a fresh record is spent: %v", name, spent)
		}
		l, spent := first.Fold(c.asked, c.limits, c.now, "coordinator-1")
		var got []string
		for _, e := range l.Entries {
			got = append(got, e.What+" "+e.ID+" by "+e.By)
		}
		if strings.Join(got, "; ") != c.want || !slices.Equal(spent, c.spent) {
			t.Errorf("%s: entries %q, spent %v; want %q, %v", name, got, spent, c.want, c.spent)
		}
		if in := l.InForce(c.asked); len(in) != c.force || len(l.Granted) != c.force {
			t.Errorf("%s: in force %v, granted %v, want %d of each", name, in, l.Granted, c.force)
		}
		if err := l.Verify(); err != nil || len(first.Granted) != 1 || first.Entries[0].Leader != "coordinator-0" {
			t.Errorf("%s: %v; the ledger before is %+v", name, err, first)
		}
		if last := l.Entries[len(l.Entries)-1]; !last.At.Equal(c.now) || len(l.Entries) > 1 && last.Leader != "coordinator-1" {
			t.Errorf("%s: the last entry is %+v", name, last)
		}
	}
}

func TestOPS12_AnEntryNamesItsToleratedStatus(t *testing.T) {
	l, _ := TCBLedger{}.Fold([]TCBGrant{operatorGrant("e1"), operatorGrant("e2", func(g *TCBGrant) { g.FMSPC = "" })}, operatorLimits(), tcbNow(), "coordinator-0")
	for i, want := range []string{
		"OutOfDate [INTEL-SA-01397], family b0c06f000000, until 2026-06-11T00:00:00Z: firmware comes on Friday",
		"OutOfDate [INTEL-SA-01397], family any, until 2026-06-11T00:00:00Z: firmware comes on Friday",
	} {
		if got := l.Entries[i].Text; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestOPS12_TheOverviewShowsExceptionsWithoutEffect: each with its problem.
func TestOPS12_TheOverviewShowsExceptionsWithoutEffect(t *testing.T) {
	var asked []TCBGrant
	for i := range maxTCBGrants {
		asked = append(asked, operatorGrant(fmt.Sprintf("e%02d", i)))
	}
	l, _ := TCBLedger{}.Fold(asked, operatorLimits(), tcbNow(), "coordinator-0")
	surplus, ended := operatorGrant("eZZ"), operatorGrant("ended", func(g *TCBGrant) { g.At, g.Until = tcbNow().Add(-2*time.Hour), tcbNow().Add(-time.Hour) })
	asked = append(asked, surplus, ended)
	l, _ = l.Fold(asked, operatorLimits(), tcbNow(), "coordinator-0")
	o := l.Overview(asked, operatorLimits(), tcbNow())
	if len(o.Exceptions) != maxTCBGrants+2 || len(o.Entries) != maxTCBGrants || o.ChainProblem != "" || o.Limits.MaxDays != 14 {
		t.Fatalf("overview %+v", o)
	}
	for _, e := range o.Exceptions {
		want := map[string]string{surplus.ID: "as many as there may be", ended.ID: "it ended on"}[e.ID]
		if (e.Problem == "") != (want == "") || !strings.Contains(e.Problem, want) {
			t.Errorf("%s: problem %q, want %q", e.ID, e.Problem, want)
		}
	}
	l.Head = "edited"
	if o = l.Overview(nil, operatorLimits(), tcbNow()); !strings.Contains(o.ChainProblem, string(CodeAuditChainBroken)) || o.Exceptions == nil || o.Collateral == nil {
		t.Errorf("an edited ledger: %+v", o)
	}
}

// TestATT05_ALoweringPermitsNamedNumbersUntilTheNewerDocumentsEnd: the watermark itself stays.
func TestATT05_ALoweringPermitsNamedNumbersUntilTheNewerDocumentsEnd(t *testing.T) {
	day, now := 24*time.Hour, tcbNow()
	mark := CollateralWatermark{FMSPC: "00806f050000", TCBEvaluation: 20, QEEvaluation: 18, TCBUntil: now.Add(20 * day), QEUntil: now.Add(25 * day), IssuedAt: now}
	for name, c := range map[string]struct {
		mark  func(*CollateralWatermark)
		asked func(*CollateralLowering)
		until time.Time
		want  string // the error; "": it is done
	}{
		"both":                           {nil, nil, now.Add(25 * day), ""},
		"only the TCB":                   {nil, func(l *CollateralLowering) { l.QEEvaluation = 18 }, now.Add(25 * day), ""},
		"only the QE":                    {nil, func(l *CollateralLowering) { l.TCBEvaluation = 20 }, now.Add(25 * day), ""},
		"documents that last for longer": {func(m *CollateralWatermark) { m.QEUntil = now.Add(40 * day) }, nil, now.Add(maxPermit), ""},
		"a document without an end":      {func(m *CollateralWatermark) { m.TCBUntil = time.Time{} }, nil, now.Add(maxPermit), ""},
		"a document that ended":          {func(m *CollateralWatermark) { m.QEUntil = now }, nil, now.Add(maxPermit), ""},
		"another family":                 {nil, func(l *CollateralLowering) { l.FMSPC = "b0c06f000000" }, time.Time{}, "fmspc, reason and by"},
		"no reason":                      {nil, func(l *CollateralLowering) { l.Reason = "" }, time.Time{}, "fmspc, reason and by"},
		"no operator":                    {nil, func(l *CollateralLowering) { l.By = "" }, time.Time{}, "fmspc, reason and by"},
		"no number of the TCB":           {nil, func(l *CollateralLowering) { l.TCBEvaluation = 0 }, time.Time{}, "must name the lowest"},
		"no number of the QE":            {nil, func(l *CollateralLowering) { l.QEEvaluation = 0 }, time.Time{}, "must name the lowest"},
		"no lower number":                {nil, func(l *CollateralLowering) { l.TCBEvaluation, l.QEEvaluation = 20, 18 }, time.Time{}, "20 and 18 are not below the present ones, 20 and 18"},
	} {
		m, l := mark, CollateralLowering{FMSPC: mark.FMSPC, TCBEvaluation: 19, QEEvaluation: 17, Reason: "the cache was put back", By: "ann", At: now}
		if c.mark != nil {
			c.mark(&m)
		}
		if c.asked != nil {
			c.asked(&l)
		}
		want := m
		if c.want == "" {
			want.Permit = CollateralPermit{TCBEvaluation: l.TCBEvaluation, QEEvaluation: l.QEEvaluation, Until: c.until}
		}
		got, err := m.Lowered(l, now)
		if !got.Equal(want) || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, want, c.want)
		}
	}
}

// TestATT05_AWatermarkDiffersInEachField: a changed record is written again.
func TestATT05_AWatermarkDiffersInEachField(t *testing.T) {
	mark := CollateralWatermark{FMSPC: "00806f050000", TCBEvaluation: 17, QEEvaluation: 17, TCBUntil: tcbNow(), QEUntil: tcbNow(), IssuedAt: tcbNow(),
		Permit: CollateralPermit{TCBEvaluation: 16, QEEvaluation: 16, Until: tcbNow()}}
	later := tcbNow().Add(time.Second)
	for name, edit := range map[string]func(*CollateralWatermark){
		"family":        func(m *CollateralWatermark) { m.FMSPC = "b0c06f000000" },
		"TCB":           func(m *CollateralWatermark) { m.TCBEvaluation++ },
		"QE":            func(m *CollateralWatermark) { m.QEEvaluation++ },
		"TCB until":     func(m *CollateralWatermark) { m.TCBUntil = later },
		"QE until":      func(m *CollateralWatermark) { m.QEUntil = later },
		"issued at":     func(m *CollateralWatermark) { m.IssuedAt = later },
		"permitted TCB": func(m *CollateralWatermark) { m.Permit.TCBEvaluation-- },
		"permitted QE":  func(m *CollateralWatermark) { m.Permit.QEEvaluation-- },
		"permit until":  func(m *CollateralWatermark) { m.Permit.Until = later },
	} {
		other := mark
		edit(&other)
		if mark.Equal(other) || !mark.Equal(mark) {
			t.Errorf("%s: a changed watermark counts as the same", name)
		}
	}
}

// TestATT05_TheLaterPermitSurvivesAWatermark: whichever of both carries it.
func TestATT05_TheLaterPermitSurvivesAWatermark(t *testing.T) {
	later := CollateralPermit{TCBEvaluation: 16, QEEvaluation: 16, Until: tcbNow().Add(time.Hour)}
	a, b := CollateralWatermark{FMSPC: "00806f050000", TCBEvaluation: 17, Permit: later}, CollateralWatermark{FMSPC: "00806f050000", TCBEvaluation: 18}
	b.Permit = CollateralPermit{TCBEvaluation: 15, QEEvaluation: 15, Until: tcbNow()}
	for _, got := range []CollateralWatermark{a.Raised(b), b.Raised(a)} {
		if got.Permit != later || got.TCBEvaluation != 18 {
			t.Errorf("raised to %+v", got)
		}
	}
}

// TestATT05_TheOutlookWarnsOfTheEarlySet: only of a machine that is still up to date.
func TestATT05_TheOutlookWarnsOfTheEarlySet(t *testing.T) {
	replaced := tcbNow().Add(-24 * time.Hour)
	for name, c := range map[string]struct {
		edit func(*TCB)
		want Outlook
	}{
		"out of date early":               {func(*TCB) {}, Outlook{Falls: true, At: replaced.Add(StandardAfterDays * 24 * time.Hour)}},
		"without a signed date":           {func(t *TCB) { t.Early.ReplacedAt = time.Time{} }, Outlook{Falls: true}},
		"of the same evaluation":          {func(t *TCB) { t.Early.EvaluationNumber = 17 }, Outlook{Falls: true, At: replaced.Add(StandardAfterDays * 24 * time.Hour)}},
		"up to date early too":            {func(t *TCB) { t.Early.Status = "UpToDate" }, Outlook{}},
		"no early set":                    {func(t *TCB) { t.Early.Status = "" }, Outlook{}},
		"an early set that is older":      {func(t *TCB) { t.Early.EvaluationNumber = 16 }, Outlook{}},
		"out of date by the standard set": {func(t *TCB) { t.Status = "OutOfDate" }, Outlook{}},
	} {
		tcb := TCB{Status: "UpToDate", EvaluationNumber: 17}
		tcb.Early.Status, tcb.Early.EvaluationNumber, tcb.Early.ReplacedAt = "OutOfDate", 18, replaced
		c.edit(&tcb)
		if got := tcb.Outlook(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		s := MachineStatus("coordinator-0", "i-0", tcb, TCBPolicy{}, tcbNow())
		if s.State != StateAdmitted || s.TCBStatus != tcb.Status || s.TCBOutOfDateSoon != c.want.Falls || !s.TCBOutOfDateAt.Equal(c.want.At) || !s.AttestedAt.Equal(tcbNow()) {
			t.Errorf("%s: the coordinator's line is %+v", name, s)
		}
	}
}
