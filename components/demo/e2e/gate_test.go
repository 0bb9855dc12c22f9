package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/demo/internal/rig"
)

// TestR150_ARolloutWaitsAtAGate: no step begins behind the gate. Each setting opens it for one step, and
// the rollout completes with one setting for each slot.
func TestR150_ARolloutWaitsAtAGate(t *testing.T) {
	c := ready(t)
	file := c.edited(t, `  health_check "web" {`, `  gate "balancer" {
    on  = ["step"]
    per = "slot"
  }

  health_check "web" {`)
	c.left = "a gate"
	before := c.look(t)
	if _, err := c.ApplyLight(within(t, rollTime), file, c.next()); err != nil {
		t.Fatal(err)
	}
	// waiting returns the gates whose step waits for a setting of its own.
	waiting := func(ctx context.Context) (out []client.Gate, err error) {
		gates, err := c.api.Gates(ctx, rig.Light)
		for _, g := range gates {
			if g.Ticket != "" && g.State == group.GateClosed {
				out = append(out, g)
			}
		}
		return out, err
	}
	all := len(slots(rig.Light))
	eventually(t, "every slot waits at the gate", time.Minute, func(ctx context.Context) error {
		gates, err := waiting(ctx)
		if err == nil && len(gates) != all {
			err = fmt.Errorf("%d steps wait: %+v", len(gates), gates)
		}
		return err
	})
	settings := map[string]bool{}
	for range all {
		eventually(t, "a step waits that no setting names", rollTime, func(ctx context.Context) error {
			g, err := c.api.Group(ctx, rig.Light)
			if err != nil || g.Status.Available != all {
				return fmt.Errorf("%d slots are available: %w", g.Status.Available, err)
			}
			gates, err := waiting(ctx)
			if err != nil {
				return err
			}
			for _, one := range gates {
				if settings[one.Slot] {
					return fmt.Errorf("%s waits again", one.Slot)
				}
			}
			if len(gates) != all-len(settings) {
				return fmt.Errorf("%d steps wait after %d settings", len(gates), len(settings))
			}
			one := gates[0]
			_, err = c.api.SetGate(ctx, client.GateSetting{Group: rig.Light, Gate: one.Gate, Slot: one.Slot, State: group.GateOpen, Ticket: one.Ticket, Reason: "it is out of the pool"})
			if err == nil {
				settings[one.Slot] = true
			}
			return err
		})
	}
	c.complete(t, rig.Light)
	c.wantOneUpdateEach(t, rig.Light, before)
}
