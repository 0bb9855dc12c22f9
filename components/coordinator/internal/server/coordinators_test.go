package server

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/voters"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// TestCTL24_CoordinatorsChangeForThoseWhoMayWriteTheirKey: the caller's own token decides.
func TestCTL24_CoordinatorsChangeForThoseWhoMayWriteTheirKey(t *testing.T) {
	a := newAPI(t)
	set, err := voters.New(a.consulAddr, a.consulToken)
	if err != nil {
		t.Fatal(err)
	}
	stepped := 0
	a.cfg.Coordinators = Coordinators{
		ComposeHash: "c0ffee", BootID: "boot", Sessions: func() int { return 3 }, Connected: func() []string { return []string{"coordinator-1"} },
		StepDown: func(context.Context) (bool, error) { stepped++; return true, nil }, Voters: set,
	}
	operator, member := as(t.Context(), operatorToken), as(t.Context(), a.workload)
	got, err := a.GetCoordinators(operator, &apiv1.GetCoordinatorsRequest{})
	for deadline := time.Now().Add(time.Minute); err == nil && !got.GetServers()[0].GetHealthy() && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // autopilot judges a new server after a moment
		got, err = a.GetCoordinators(operator, &apiv1.GetCoordinatorsRequest{})
	}
	if err != nil || got.GetSelf() != "coordinator-0" || got.GetComposeHash() != "c0ffee" || got.GetSessions() != 3 || len(got.GetServers()) != 1 || !got.GetServers()[0].GetLeader() {
		t.Errorf("facts: %v, %v", got, err)
	}
	// The only server cannot pass the leadership of Raft on, and its node is no coordinator's.
	if out, err := a.StepDown(operator, &apiv1.StepDownRequest{}); err != nil || !out.GetLease() || out.GetRaft() || stepped != 1 {
		t.Errorf("step down: %v, %v, %d calls", out, err, stepped)
	}
	if out, err := a.RemoveVoter(operator, &apiv1.RemoveVoterRequest{Slot: "coordinator-1"}); err != nil || out.GetRemoved() {
		t.Errorf("a voter that is gone: %v, %v", out, err)
	}
	for name, call := range map[string]func(context.Context) error{
		"facts":     func(ctx context.Context) error { _, err := a.GetCoordinators(ctx, nil); return err },
		"step down": func(ctx context.Context) error { _, err := a.StepDown(ctx, nil); return err },
		"remove": func(ctx context.Context) error {
			_, err := a.RemoveVoter(ctx, &apiv1.RemoveVoterRequest{Slot: "coordinator-1"})
			return err
		},
	} {
		if err := call(member); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s by a member: %v", name, err)
		}
		if err := call(t.Context()); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s without a token: %v", name, err)
		}
	}
	for _, slot := range []string{"", "coordinator-0", "pg-1", "coordinator-1x", "coordinator-1/../x"} {
		if _, err := a.RemoveVoter(operator, &apiv1.RemoveVoterRequest{Slot: slot}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("remove %q: %v", slot, err)
		}
		if slot == "" {
			continue
		}
		if _, err := a.StepDown(operator, &apiv1.StepDownRequest{RaftTo: slot}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("step down to %q: %v", slot, err)
		}
	}
	if stepped != 1 {
		t.Errorf("refused calls stepped down %d times", stepped-1)
	}
}
