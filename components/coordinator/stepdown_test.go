package coordinator_test

import (
	"errors"
	"fmt"
	"testing"

	"cadre.dev/coordinator/internal/testnet"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// TestACoordinatorStepsDown runs a whole coordinator with a real Consul. It gives the Lease up at once,
// and takes it again, since no other coordinator does.
func TestACoordinatorStepsDown(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	h := newHarness(t)
	h.Start()
	api := h.dial(h.OperatorToken)
	coordinators := apiv1.NewCoordinatorsServiceClient(api.conn)
	var before *apiv1.GetCoordinatorsResponse
	h.Eventually("a leader", func() (err error) {
		before, err = coordinators.GetCoordinators(api.ctx, &apiv1.GetCoordinatorsRequest{})
		if err == nil && (before.GetLeader() == "" || len(before.GetServers()) != 1 || !before.GetServers()[0].GetHealthy()) {
			err = fmt.Errorf("facts: %v", before)
		}
		return err
	})
	if before.GetSelf() != "coordinator-0" || before.GetComposeHash() == "" || before.GetBootId() == "" || before.GetServers()[0].GetNode() != "coordinator-0" || !before.GetServers()[0].GetVoter() {
		t.Errorf("facts: %v", before)
	}
	// The only server of Consul has no successor, so that the call fails after the Lease was given up.
	if out, err := coordinators.StepDown(api.ctx, &apiv1.StepDownRequest{}); err == nil && !out.GetLease() {
		t.Errorf("a leader stepped down and held no lease: %v", out)
	}
	now, err := api.GetCluster(api.ctx, &apiv1.GetClusterRequest{})
	if err != nil || now.GetLeader() != "" {
		t.Errorf("after the step down %q leads, %v", now.GetLeader(), err)
	}
	h.Eventually("the same leader in another term", func() error {
		now, err := api.GetCluster(api.ctx, &apiv1.GetClusterRequest{})
		if err == nil && (now.GetLeader() != "coordinator-0" || now.GetTerm() <= before.GetTerm()) {
			err = errors.New(now.String())
		}
		return err
	})
}
