package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// TestOPS12_ExceptionsAreWrittenWithTheCallersToken: an exception that the trust file forbids is
// rejected with its field. A caller without the right changes nothing, and the record names the
// caller.
func TestOPS12_ExceptionsAreWrittenWithTheCallersToken(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	grant := func() *apiv1.GrantTCBExceptionRequest {
		return &apiv1.GrantTCBExceptionRequest{Status: "OutOfDate", Advisories: []string{"INTEL-SA-01397"}, For: durationpb.New(48 * time.Hour), Reason: "firmware comes on Friday"}
	}
	if _, err := a.GrantTCBException(ctx, grant()); status.Code(err) != codes.FailedPrecondition || !strings.Contains(message(err), "tcb.operator_exceptions") {
		t.Errorf("without limits in the trust file: %v", err)
	}
	a.cfg.Images.TCB.OperatorExceptions = policy.TCBLimits{MaxDays: 7, Statuses: []string{"OutOfDate"}, Advisories: []string{"INTEL-SA-*"}}
	for name, c := range map[string]struct {
		edit func(*apiv1.GrantTCBExceptionRequest)
		want string
	}{
		"status":      {func(r *apiv1.GrantTCBExceptionRequest) { r.Status = "Revoked" }, "status: "},
		"advisory":    {func(r *apiv1.GrantTCBExceptionRequest) { r.Advisories = []string{"X-SA-0001"} }, "advisories: "},
		"family":      {func(r *apiv1.GrantTCBExceptionRequest) { r.Fmspc = "zz" }, "fmspc: "},
		"length":      {func(r *apiv1.GrantTCBExceptionRequest) { r.For = durationpb.New(8 * 24 * time.Hour) }, "until: "},
		"no length":   {func(r *apiv1.GrantTCBExceptionRequest) { r.For = nil }, "until: "},
		"no reason":   {func(r *apiv1.GrantTCBExceptionRequest) { r.Reason = " " }, "reason: "},
		"long reason": {func(r *apiv1.GrantTCBExceptionRequest) { r.Reason = strings.Repeat("x", maxReason+1) }, "reason: "},
	} {
		r := grant()
		c.edit(r)
		if _, err := a.GrantTCBException(ctx, r); err == nil || !strings.HasPrefix(message(err), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := a.GrantTCBException(as(t.Context(), "nobody's"), grant()); err == nil {
		t.Error("a stranger grants an exception")
	}
	out, err := a.GrantTCBException(ctx, grant())
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := store.Read[policy.TCBGrant](t.Context(), a.cfg.Store, store.TCBExceptionKey(out.GetId()))
	if err != nil || g.By == "" || g.Status != "OutOfDate" || !g.Until.Equal(out.GetUntil().AsTime()) || g.Until.Sub(g.At) != 48*time.Hour {
		t.Errorf("record %+v, %v", g, err)
	}
	list := func() (o policy.TCBOverview) {
		t.Helper()
		r, err := a.ListTCB(ctx, &apiv1.ListTCBRequest{})
		if err != nil || json.Unmarshal(r.GetOverviewJson(), &o) != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := list(); len(o.Exceptions) != 1 || !strings.Contains(o.Exceptions[0].Problem, "has not recorded it yet") || o.Limits.MaxDays != 7 {
		t.Errorf("before the leader: %+v", o)
	}
	for _, want := range []bool{true, false} {
		if r, err := a.RevokeTCBException(ctx, &apiv1.RevokeTCBExceptionRequest{Id: out.GetId()}); err != nil || r.GetChanged() != want {
			t.Errorf("revoke: %v, %v; want %t", r, err, want)
		}
	}
	if g, _, err := store.Read[policy.TCBGrant](t.Context(), a.cfg.Store, store.TCBExceptionKey(out.GetId())); err != nil || g.RevokedBy == "" {
		t.Errorf("who revoked it is not recorded: %+v, %v", g, err)
	}
	if _, err := a.RevokeTCBException(ctx, &apiv1.RevokeTCBExceptionRequest{Id: "../x"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an id that is none: %v", err)
	}
}

// TestATT05_OlderCollateralIsAskedForByName: the request names the caller and the lowest number.
// Nothing is written if that number is accepted already.
func TestATT05_OlderCollateralIsAskedForByName(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	const family = "b0c06f000000"
	ask := func(family string, number uint32, reason string) (bool, error) {
		r, err := a.LowerCollateral(ctx, &apiv1.LowerCollateralRequest{Fmspc: family, Evaluation: number, Reason: reason})
		return r.GetChanged(), err
	}
	if _, err := ask(family, 19, "r"); status.Code(err) != codes.NotFound {
		t.Errorf("a family that was never seen: %v", err)
	}
	put(a, t, store.CollateralKey(family), policy.CollateralWatermark{FMSPC: family, TCBEvaluation: 20, QEEvaluation: 20, IssuedAt: time.Now()})
	for name, c := range map[string]struct {
		family string
		number uint32
		reason string
		want   string
	}{
		"family": {"zz", 19, "r", "fmspc: "}, "number": {family, 0, "r", "evaluation: "}, "reason": {family, 19, "", "reason: "},
	} {
		if _, err := ask(c.family, c.number, c.reason); err == nil || !strings.HasPrefix(message(err), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if changed, err := ask(family, 20, "r"); err != nil || changed {
		t.Errorf("the kept number: %t, %v", changed, err)
	}
	if changed, err := ask(family, 19, "the cache was restored"); err != nil || !changed {
		t.Errorf("%t, %v", changed, err)
	}
	l, _, err := store.Read[policy.CollateralLowering](t.Context(), a.cfg.Store, store.LoweringKey(family))
	if err != nil || l.By == "" || l.TCBEvaluation != 19 || l.QEEvaluation != 19 || l.Reason != "the cache was restored" {
		t.Errorf("request %+v, %v", l, err)
	}
}
