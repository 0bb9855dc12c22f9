package server

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/watermark"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// TestCTL06_AnOperatorLetsARestoredClusterGoOn: the caller needs the right to write the record and
// a reason, and there must be something to recover from.
func TestCTL06_AnOperatorLetsARestoredClusterGoOn(t *testing.T) {
	a := newAPI(t)
	operator := as(t.Context(), operatorToken)
	lease, err := store.AcquireBlocking(t.Context(), a.cfg.Store, "coordinator-0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lease.Release(context.WithoutCancel(t.Context())) }()
	grow := func() {
		t.Helper()
		if err := a.cfg.Watermark.(*watermark.Watermark).Grow(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	grow()
	// The first call creates the operators' token, so the backup has it.
	if out, err := a.Recover(operator, &apiv1.RecoverRequest{Reason: "nothing happened"}); err != nil || out.GetRaised() || out.GetHalted() != "" || out.GetState() != 1 {
		t.Fatalf("with nothing to recover from: %v, %v", out, err)
	}
	backup, _, err := a.consul.Snapshot().Save(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer backup.Close() //nolint:errcheck // read to its end
	grow()
	grow()
	if err := a.consul.Snapshot().Restore(nil, backup); err != nil {
		t.Fatal(err)
	}
	if out, err := a.GetCluster(operator, &apiv1.GetClusterRequest{}); err != nil || !strings.Contains(out.GetHalted(), "cadre cluster accept-restore") {
		t.Errorf("the cluster's status: %v, %v", out, err)
	}
	out, err := a.Recover(operator, &apiv1.RecoverRequest{DryRun: true})
	if err != nil || out.GetRaised() || out.GetState() != 1 || out.GetSeenState() != 3 || out.GetRaisedState() != 3 || out.GetHalted() == "" {
		t.Fatalf("answer: %v, %v", out, err)
	}
	for name, c := range map[string]struct {
		ctx  context.Context //nolint:containedctx // one case of a table
		req  *apiv1.RecoverRequest
		code codes.Code
	}{
		"a member":          {as(t.Context(), a.workload), &apiv1.RecoverRequest{Reason: "x"}, codes.PermissionDenied},
		"no reason":         {operator, &apiv1.RecoverRequest{Reason: " "}, codes.InvalidArgument},
		"a whole book":      {operator, &apiv1.RecoverRequest{Reason: strings.Repeat("x", maxReason+1)}, codes.InvalidArgument},
		"an unknown caller": {as(t.Context(), "00000000-0000-4000-8000-000000000000"), &apiv1.RecoverRequest{Reason: "x"}, codes.PermissionDenied},
	} {
		if _, err := a.Recover(c.ctx, c.req); status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
	if _, err := a.cfg.Store.Get(t.Context(), store.RecoverKey()); err == nil {
		t.Fatal("it was raised without the right, or without a reason")
	}
	if out, err := a.Recover(operator, &apiv1.RecoverRequest{Reason: "backup of Monday"}); err != nil || !out.GetRaised() {
		t.Fatalf("%v, %v", out, err)
	}
	record, _, err := store.Read[store.Recovery](t.Context(), a.cfg.Store, store.RecoverKey())
	if err != nil || record.State != 3 || record.Term != lease.Term() || record.Reason != "backup of Monday" || record.By == "" || record.At.IsZero() {
		t.Errorf("record %+v, %v", record, err)
	}
	if out, err := a.GetCluster(operator, &apiv1.GetClusterRequest{}); err != nil || out.GetHalted() != "" {
		t.Errorf("still halted: %v, %v", out, err)
	}
	grow()
}
