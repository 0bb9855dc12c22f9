package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// TestIDN03_AReleaseIsAskedFor: the request has the caller's own token, its name and a reason, and
// is accepted only for a held Slot.
func TestIDN03_AReleaseIsAskedFor(t *testing.T) {
	a, first, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	requests := func() (out []store.QueueRequest) {
		t.Helper()
		entries, _, err := a.cfg.Store.List(ctx, store.QueuePrefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			q, _, err := store.Read[store.QueueRequest](ctx, a.cfg.Store, e.Key)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, q)
		}
		return out
	}
	out, err := a.ReleaseSlot(ctx, &apiv1.ReleaseSlotRequest{Slot: "pg-0", Reason: "r"})
	if err != nil || out.GetChanged() || len(requests()) != 0 {
		t.Errorf("a slot that is not held: %v, %v", out, err)
	}
	held := policy.Contest{Changes: policy.MaxContestedChanges}.Met("rival", time.Now())
	put(a, t, store.AdmissionKey("pg-0"), policy.Admission{Group: "pg", Slot: "pg-0", BootID: "boot", InstanceID: boundInstance, Revision: first, Contest: held})
	for want, bad := range map[codes.Code]*apiv1.ReleaseSlotRequest{
		codes.InvalidArgument: {Slot: "pg-0"}, codes.NotFound: {Slot: "pg-7", Reason: "r"},
	} {
		if _, err := a.ReleaseSlot(ctx, bad); status.Code(err) != want {
			t.Errorf("%v: %v, want %v", bad, err, want)
		}
	}
	if _, err := a.ReleaseSlot(ctx, &apiv1.ReleaseSlotRequest{Slot: "pg-0", Reason: strings.Repeat("x", maxReason+1)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an endless reason: %v", err)
	}
	if out, err = a.ReleaseSlot(ctx, &apiv1.ReleaseSlotRequest{Slot: "pg-0", Reason: "one copy is gone"}); err != nil || !out.GetChanged() {
		t.Fatalf("%v, %v", out, err)
	}
	got := requests()
	if len(got) != 1 || got[0].Kind != store.RequestRelease || got[0].Slot != "pg-0" || got[0].Group != "pg" || got[0].Reason != "one copy is gone" ||
		got[0].ID != out.GetRequestId() || !strings.Contains(got[0].By, "cadre-operator") || strings.Contains(got[0].By, operatorToken) {
		t.Errorf("requests %+v", got)
	}
}
