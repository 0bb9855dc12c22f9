package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
	"cadre.dev/coordinator/internal/highwater"
	"cadre.dev/coordinator/internal/tolerance"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// calendar is a coordinator whose collateral comes from a service over HTTP. All parts use one
// clock that the test moves by months.
type calendar struct {
	*harness
	pccs *attestsim.PCCS
}

func newCalendar(t *testing.T, tcb policy.TCBPolicy) *calendar {
	t.Helper()
	c := &calendar{harness: newHarness(t)}
	c.pccs = c.cloud.NewPCCS(c.now)
	server := httptest.NewServer(c.pccs)
	t.Cleanup(server.Close)
	source, err := collateral.NewPCCS(collateral.PCCSConfig{URL: server.URL, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.Close)
	verifier, err := attest.NewVerifier(attest.VerifierConfig{RootsPEM: c.cloud.RootPEM(), Collateral: source, Highest: highwater.New(c.store), Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	c.cfg.Verifier, c.cfg.Images.TCB = verifier, tcb
	c.service = New(c.cfg)
	return c
}

// until sets the clock.
func (c *calendar) until(at time.Time) { c.ahead.Store(int64(time.Until(at))) }

// restart boots pg-0 again on its machine, after the previous Boot gave up its lease.
func (c *calendar) restart(compose string) error {
	c.t.Helper()
	if lease, err := c.service.lease(c.t.Context(), "pg-0"); err == nil && lease.Leased() {
		giveUpLease(c.t, c.store, lease)
	}
	b := c.boot(compose, c.seed)
	_, err := b.admit()
	if err == nil {
		c.see(func(v *view.View) bool { return v.Admissions["pg-0"].Value.BootID == b.id() })
	}
	return err
}

// see waits until the View of this coordinator meets the condition.
func (c *calendar) see(that func(*view.View) bool) *view.View {
	c.t.Helper()
	limit := time.After(30 * time.Second)
	for {
		v, changed := c.views.Latest()
		if v != nil && that(v) {
			return v
		}
		select {
		case <-changed:
		case <-limit:
			c.t.Fatal("the records do not come to say so")
		}
	}
}

// allow writes the policy of a rollout that lets pg-0 run one more Revision.
func (c *calendar) allow(next, compose string) {
	c.t.Helper()
	sp, index, err := store.Read[policy.SlotPolicy](c.t.Context(), c.store, store.SlotPolicyKey("pg-0"))
	if err != nil {
		c.t.Fatal(err)
	}
	sum, text := sha256.Sum256(appCompose(compose)), sha256.Sum256([]byte(compose))
	sp.Allowed = append(sp.Allowed, policy.AllowedRevision{Revision: next, ComposeHash: hex.EncodeToString(sum[:]), ComposeTextSHA256: hex.EncodeToString(text[:]), OSImage: osImage})
	put, err := store.Put(store.SlotPolicyKey("pg-0"), sp, index)
	if err == nil {
		err = c.store.Commit(c.t.Context(), append(c.leader.Fence(), put)...)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestATT04_IntelsCalendarDoesNotEndAHealthyCluster is the drill. The early set warns, and the
// simulated root publishes the evaluation during a rollout. The rollout and restarts continue
// within the grace. An updated machine ends the warning, and one without the update is refused
// after the last day.
func TestATT04_IntelsCalendarDoesNotEndAHealthyCluster(t *testing.T) {
	const next, nextText = "22222222222222222222222222222222", "services:\n  pg:\n    image: example.org/pg@sha256:02\n"
	day := 24 * time.Hour
	tcb := policy.TCBPolicy{GraceDays: 425, OperatorExceptions: policy.TCBLimits{MaxDays: 7, Statuses: []string{"OutOfDate"}, Advisories: []string{"INTEL-SA-*"}}}
	c := newCalendar(t, tcb)
	replaced := time.Now().Add(-355 * day).UTC().Truncate(time.Second)
	newer := attestsim.Posture{Evaluation: 18, Replaced: replaced, Advisories: []string{"INTEL-SA-01397"}}
	tcbStatus := func() (string, time.Time, policy.Outlook) {
		v, _ := c.views.Latest()
		return v.Admissions["pg-0"].Value.Claims.TCB.Status, v.ToleratedUntil("pg-0", tcb, c.now()), v.Outlook("pg-0")
	}
	must := func(doing string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", doing, err)
		}
	}

	// The evaluation is signed ahead: the member is UpToDate, and the day is known.
	c.pccs.Set(attestsim.Posture{Early: &newer})
	must("the first boot", c.restart(composeText))
	if status, ends, outlook := tcbStatus(); status != "UpToDate" || !ends.IsZero() || !outlook.Falls || !outlook.At.Equal(replaced.Add(365*day)) {
		t.Errorf("before: %s, ends %s, outlook %+v", status, ends, outlook)
	}

	// The evaluation is published during the rollout of the group.
	c.allow(next, nextText)
	c.until(replaced.Add(366 * day))
	c.pccs.Set(newer)
	must("the boot of the next revision", c.restart(nextText))
	if status, ends, outlook := tcbStatus(); status != "OutOfDate" || !ends.Equal(replaced.Add(425*day)) || outlook.Falls {
		t.Errorf("in the rollout: %s, ends %s, outlook %+v", status, ends, outlook)
	}
	if a := c.admission(); a.Revision != next {
		t.Errorf("the rollout stopped: %+v", a)
	}
	c.until(replaced.Add(424 * day))
	must("a restart on the last day but one", c.restart(nextText))

	// The host is updated in time: the warning ends.
	c.host = attestsim.UpdatedHost("")
	must("the boot on the updated host", c.restart(nextText))
	if status, ends, outlook := tcbStatus(); status != "UpToDate" || !ends.IsZero() || outlook.Falls {
		t.Errorf("updated: %s, ends %s, outlook %+v", status, ends, outlook)
	}

	// A host without the update is refused after the last day.
	c.host = ""
	c.until(replaced.Add(425*day + time.Hour))
	err := c.restart(nextText)
	c.wantRefusal(err, policy.CodeTCBOutOfDate, policy.CodeTCBOutOfDate)
	if err == nil || !strings.Contains(err.Error(), "its grace of 425 days ended") {
		t.Errorf("refused with %v", err)
	}

	// An operator with the right to do so admits it for some days; the leader records the
	// operator's name.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	keeper := tolerance.New(tolerance.Config{Self: "coordinator-0", Limits: tcb.OperatorExceptions, Store: c.store, Views: c.views, Now: c.now, Log: slog.New(slog.DiscardHandler)})
	go func() { defer close(done); keeper.Lead(ctx, c.leader) }()
	defer func() { cancel(); <-done }()
	grant := policy.TCBGrant{ID: "tcb-1", Status: "OutOfDate", Advisories: []string{"INTEL-SA-01397"}, Until: c.now().Add(2 * day).UTC(), Reason: "the vendor is late", By: "ann", At: c.now().UTC()}
	put, err := store.Put(store.TCBExceptionKey("tcb-1"), grant, 0)
	must("encode the exception", err)
	must("grant the exception", c.store.Commit(t.Context(), put))
	c.see(func(v *view.View) bool { return len(v.Ledger.Value.Granted) == 1 && len(v.Gate.Exceptions) == 1 })
	must("a boot under the exception", c.restart(nextText))
	if a := c.admission(); !c.views.MayRenew(a, slotPolicy(t, c), c.cfg.Images, c.now()).Allowed {
		t.Error("a member under the exception is not renewed")
	}
	grant.RevokedBy = "bob"
	_, index, err := store.Read[policy.TCBGrant](t.Context(), c.store, store.TCBExceptionKey("tcb-1"))
	must("read the exception", err)
	put, err = store.Put(store.TCBExceptionKey("tcb-1"), grant, index)
	must("encode the revocation", err)
	must("revoke the exception", c.store.Commit(t.Context(), put))
	v := c.see(func(v *view.View) bool { return len(v.Ledger.Value.Granted) == 0 && len(v.Gate.Exceptions) == 0 })
	if n := len(v.Ledger.Value.Entries); n != 2 || v.Ledger.Value.Entries[1].By != "bob" || v.Ledger.Value.Verify() != nil {
		t.Errorf("the chain: %+v", v.Ledger.Value.Entries)
	}
	c.wantRefusal(c.restart(nextText), policy.CodeTCBOutOfDate, policy.CodeTCBOutOfDate)
	if d := c.views.MayRenew(c.admission(), slotPolicy(t, c), c.cfg.Images, c.now()); d.Code != policy.CodeTCBOutOfDate {
		t.Errorf("a member is renewed after the exception: %+v", d)
	}
}

func slotPolicy(t *testing.T, c *calendar) policy.SlotPolicy {
	t.Helper()
	sp, _, err := store.Read[policy.SlotPolicy](t.Context(), c.store, store.SlotPolicyKey("pg-0"))
	if err != nil {
		t.Fatal(err)
	}
	return sp
}
