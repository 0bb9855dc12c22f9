package tolerance

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest/collateral"
	"cadre.dev/coordinator/internal/highwater"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// office is a leader's Keeper on records in memory, with a clock that the test sets.
type office struct {
	t      *testing.T
	store  *storetest.Memory
	lease  store.Lease
	keeper *Keeper
	now    time.Time
}

func newOffice(t *testing.T, limits policy.TCBLimits) *office {
	t.Helper()
	o := &office{t: t, store: storetest.NewMemory(), now: time.Date(2026, 8, 13, 12, 0, 0, 0, time.UTC)}
	var err error
	if o.lease, err = o.store.Acquire(t.Context(), "coordinator-0"); err != nil {
		t.Fatal(err)
	}
	o.keeper = New(Config{Self: "coordinator-0", Limits: limits, Store: o.store, Now: func() time.Time { return o.now }, Log: slog.New(slog.DiscardHandler)})
	return o
}

func write[T any](o *office, key string, value T) {
	o.t.Helper()
	_, index, err := store.Read[T](o.t.Context(), o.store, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		o.t.Fatal(err)
	}
	op, err := store.Put(key, value, index)
	if err == nil {
		err = o.store.Commit(o.t.Context(), op)
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// pass is one pass of the leader; it returns the View and the ledger afterwards.
func (o *office) pass() (*view.View, policy.TCBLedger) {
	o.t.Helper()
	for range 2 { // the second one must change nothing
		v, err := view.Read(o.t.Context(), o.store)
		if err == nil {
			err = o.keeper.pass(o.t.Context(), o.lease, v)
		}
		if err != nil {
			o.t.Fatal(err)
		}
	}
	v, err := view.Read(o.t.Context(), o.store)
	if err != nil {
		o.t.Fatal(err)
	}
	if err := v.Ledger.Value.Verify(); err != nil {
		o.t.Error(err)
	}
	return v, v.Ledger.Value
}

func whats(l policy.TCBLedger) string {
	var out []string
	for _, e := range l.Entries {
		out = append(out, e.What+" "+e.ID+" by "+e.By)
	}
	return strings.Join(out, "; ")
}

const day = 24 * time.Hour

// TestOPS12_AnOperatorsExceptionIsBoundedRecordedAndEnds: an exception counts once the leader has
// it in the chain, within the limits of the trust file. It ends by its time, its revocation or the
// removal of its record.
func TestOPS12_AnOperatorsExceptionIsBoundedRecordedAndEnds(t *testing.T) {
	limits := policy.TCBLimits{MaxDays: 14, Statuses: []string{"OutOfDate"}, Advisories: []string{"INTEL-SA-*"}}
	machine := policy.TCB{Status: "OutOfDate", Advisories: []string{"INTEL-SA-01397"}, FMSPC: "b0c06f000000"}
	trust := policy.ImagePolicy{TCB: policy.TCBPolicy{OperatorExceptions: limits}}
	o := newOffice(t, limits)
	allowed := func(v *view.View) bool { return policy.AppraiseTCB(v.Judging(trust).TCB, machine, o.now).Allowed }
	grant := policy.TCBGrant{ID: "e1", Status: "OutOfDate", Advisories: machine.Advisories, Until: o.now.Add(10 * day), Reason: "firmware comes on Friday", By: "ann", At: o.now}

	write(o, store.TCBExceptionKey("e1"), grant)
	if v, err := view.Read(t.Context(), o.store); err != nil || allowed(v) {
		t.Errorf("it counts before the leader recorded it (%v)", err)
	}
	v, ledger := o.pass()
	if !allowed(v) || whats(ledger) != "grant e1 by ann" || ledger.Entries[0].Leader != "coordinator-0" || !strings.Contains(ledger.Entries[0].Text, "INTEL-SA-01397") {
		t.Errorf("granted: %t, %+v", allowed(v), ledger)
	}
	// A record that was edited after it was recorded has no effect, and the problem is reported.
	edited := grant
	edited.Advisories = nil
	write(o, store.TCBExceptionKey("e1"), edited)
	if v, err := view.Read(t.Context(), o.store); err != nil || allowed(v) {
		t.Errorf("an edited record counts (%v)", err)
	}
	write(o, store.TCBExceptionKey("e1"), grant)
	o.pass()
	taken := grant
	taken.RevokedBy = "bob"
	write(o, store.TCBExceptionKey("e1"), taken)
	v, ledger = o.pass()
	if allowed(v) || whats(ledger) != "grant e1 by ann; revoke e1 by bob" || len(v.Gate.Exceptions) != 0 {
		t.Errorf("revoked: %t, %s, %v", allowed(v), whats(ledger), v.Gate.Exceptions)
	}
	// The first exception expires, and an operator removes the record of the second.
	second := grant
	second.ID = "e2"
	write(o, store.TCBExceptionKey("e2"), second)
	o.pass()
	o.now = second.Until
	v, ledger = o.pass()
	if allowed(v) || !strings.HasSuffix(whats(ledger), "grant e2 by ann; end e2 by ann") || len(v.Gate.Exceptions) != 0 {
		t.Errorf("ended: %t, %s", allowed(v), whats(ledger))
	}
	third := grant
	third.ID, third.At, third.Until = "e3", o.now, o.now.Add(day)
	write(o, store.TCBExceptionKey("e3"), third)
	o.pass()
	if err := o.store.Commit(t.Context(), store.Op{Kind: store.OpDelete, Key: store.TCBExceptionKey("e3")}); err != nil {
		t.Fatal(err)
	}
	v, ledger = o.pass()
	if allowed(v) || !strings.HasSuffix(whats(ledger), "revoke e3 by unknown (written to Consul KV)") {
		t.Errorf("removed: %t, %s", allowed(v), whats(ledger))
	}
}

// TestOPS12_NoRecordWidensTheTrustFile: an exception outside of the measured limits is neither
// recorded nor applied, and neither is a ledger that claims it.
func TestOPS12_NoRecordWidensTheTrustFile(t *testing.T) {
	limits := policy.TCBLimits{MaxDays: 14, Statuses: []string{"OutOfDate"}, Advisories: []string{"INTEL-SA-*"}}
	base := policy.TCBGrant{ID: "e1", Status: "OutOfDate", Advisories: []string{"INTEL-SA-01397"}, Reason: "r", By: "ann"}
	for name, c := range map[string]struct {
		limits policy.TCBLimits
		edit   func(*policy.TCBGrant)
	}{
		"no limits in the trust file": {policy.TCBLimits{}, func(*policy.TCBGrant) {}},
		"too long":                    {limits, func(g *policy.TCBGrant) { g.Until = g.At.Add(15 * day) }},
		"another status":              {limits, func(g *policy.TCBGrant) { g.Status = "ConfigurationNeeded" }},
		"revoked machines":            {policy.TCBLimits{MaxDays: 14, Statuses: []string{"Revoked"}}, func(g *policy.TCBGrant) { g.Status, g.Advisories = "Revoked", nil }},
		"another advisory":            {limits, func(g *policy.TCBGrant) { g.Advisories = []string{"OTHER-SA-00001"} }},
		"no reason":                   {limits, func(g *policy.TCBGrant) { g.Reason = "" }},
		"no operator":                 {limits, func(g *policy.TCBGrant) { g.By = "" }},
		"granted in the future":       {limits, func(g *policy.TCBGrant) { g.At = g.At.Add(day) }},
		"a limit beyond 30 days":      {policy.TCBLimits{MaxDays: 90, Statuses: []string{"OutOfDate"}, Advisories: []string{"INTEL-SA-*"}}, func(*policy.TCBGrant) {}},
	} {
		o := newOffice(t, c.limits)
		g := base
		g.At, g.Until = o.now, o.now.Add(day)
		c.edit(&g)
		write(o, store.TCBExceptionKey("e1"), g)
		v, ledger := o.pass()
		machine := policy.TCB{Status: g.Status, Advisories: g.Advisories}
		trust := policy.ImagePolicy{TCB: policy.TCBPolicy{OperatorExceptions: c.limits}}
		if policy.AppraiseTCB(v.Judging(trust).TCB, machine, o.now).Allowed || len(ledger.Entries) != 0 {
			t.Errorf("%s: allowed or recorded: %+v", name, ledger)
		}
		// An attacker that also writes the leader's record gains nothing: each judgement checks the
		// trust file.
		ledger.Granted = map[string]policy.TCBGrant{"e1": g}
		write(o, store.TCBLedgerKey, ledger)
		v, err := view.Read(t.Context(), o.store)
		if err != nil || policy.AppraiseTCB(v.Judging(trust).TCB, machine, o.now).Allowed {
			t.Errorf("%s: allowed by a written ledger (%v)", name, err)
		}
	}
}

// TestATT05_AnOperatorLetsOlderCollateralBeUsedOnce: the permit is recorded with the operator and
// ends with the newer document. It permits nothing below the named number and sets no clock back.
func TestATT05_AnOperatorLetsOlderCollateralBeUsedOnce(t *testing.T) {
	o := newOffice(t, policy.TCBLimits{})
	const family = "b0c06f000000"
	kept := policy.CollateralWatermark{FMSPC: family, TCBEvaluation: 20, QEEvaluation: 20, TCBUntil: o.now.Add(20 * day), QEUntil: o.now.Add(25 * day), IssuedAt: o.now.Add(-time.Hour)}
	write(o, store.CollateralKey(family), kept)
	highest := highwater.New(o.store)
	usable := func(number uint32) bool {
		mark, err := highest.Get(t.Context(), family)
		if err != nil {
			t.Fatal(err)
		}
		return collateral.CheckMark(policy.CollateralWatermark{FMSPC: family, TCBEvaluation: number, QEEvaluation: number}, mark, o.now) == nil
	}
	if usable(19) {
		t.Fatal("older collateral is used without a permit")
	}
	write(o, store.LoweringKey(family), policy.CollateralLowering{FMSPC: family, TCBEvaluation: 19, QEEvaluation: 19, Reason: "the cache was put back", By: "ann", At: o.now})
	v, ledger := o.pass()
	if !usable(19) || usable(18) || len(v.Gate.Lowerings) != 0 || whats(ledger) != "lower-collateral "+family+" by ann" {
		t.Errorf("19: %t, 18: %t, %v, %s", usable(19), usable(18), v.Gate.Lowerings, whats(ledger))
	}
	// A coordinator that still has the newer document raises the watermark; the permit outlives
	// that.
	newer := kept
	newer.IssuedAt = o.now
	if err := highest.Raise(t.Context(), newer); err != nil || !usable(19) {
		t.Errorf("after another coordinator raised the mark: %v", err)
	}
	if mark, err := highest.Get(t.Context(), family); err != nil || mark.TCBEvaluation != 20 || !mark.IssuedAt.Equal(o.now) {
		t.Errorf("mark %+v, %v", mark, err)
	}
	o.now = kept.QEUntil
	newer.TCBUntil, newer.QEUntil = o.now.Add(20*day), o.now.Add(20*day)
	if err := highest.Raise(t.Context(), newer); err != nil || usable(19) {
		t.Errorf("the permit outlives the document that it was about: %v", err)
	}
	for name, l := range map[string]policy.CollateralLowering{
		"nothing lower": {FMSPC: family, TCBEvaluation: 20, QEEvaluation: 20, Reason: "r", By: "ann"},
		"no number":     {FMSPC: family, Reason: "r", By: "ann"},
		"no reason":     {FMSPC: family, TCBEvaluation: 19, QEEvaluation: 19, By: "ann"},
	} {
		write(o, store.LoweringKey(family), l)
		if v, after := o.pass(); len(after.Entries) != len(ledger.Entries) || len(v.Gate.Lowerings) != 0 || usable(19) {
			t.Errorf("%s: carried out or kept", name)
		}
	}
}
