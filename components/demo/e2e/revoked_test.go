package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/policy"
	"cadre.dev/demo/internal/rig"
)

// cutOffTime is the bound of docs/guides/admission.md for all access of a revoked instance.
const cutOffTime = 15 * time.Second

// TestRevokedInstanceLosesItsPeers: from the operator's word to the Sessions of another
// member's agent, with every part between them; and back.
func TestRevokedInstanceLosesItsPeers(t *testing.T) {
	c := ready(t)
	witness, victim := slots(rig.Light)[0], slots(rig.Light)[1]
	c.linked(t, witness, victim, rollTime, true)
	t.Cleanup(func() {
		// The tests after this one want the group whole.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, _, err := c.api.Unrevoke(ctx, policy.RevokedInstance, victim); err != nil {
			t.Errorf("unrevoke %s: %v", victim, err)
		}
	})
	did, err := c.api.Revoke(within(t, 30*time.Second), policy.RevokedInstance, victim, "a test of the cut", false)
	if err != nil {
		t.Fatal(err)
	}
	if !did.Changed || len(did.Slots) != 1 || did.Slots[0] != victim {
		t.Errorf("revoked %+v, want %s alone", did, victim)
	}
	began := time.Now()
	c.linked(t, witness, victim, cutOffTime, false)
	c.linked(t, "", victim, cutOffTime-time.Since(began), false)
	t.Logf("no session with %s after %v", victim, time.Since(began).Round(time.Millisecond))

	if _, changed, err := c.api.Unrevoke(within(t, 30*time.Second), policy.RevokedInstance, victim); err != nil || !changed {
		t.Fatalf("unrevoke: changed %t, %v", changed, err)
	}
	c.linked(t, witness, victim, rollTime, true)
	if err := c.api.Wait(within(t, rollTime), rig.Light, client.WaitOptions{}); err != nil {
		t.Errorf("the group is not whole again: %v", err)
	}
}

// linked waits until slot's agent, or the answering coordinator where that is empty,
// has a Session with peer, or has none.
func (c *cluster) linked(t *testing.T, slot, peer string, limit time.Duration, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("link of %q with %s: %t", slot, peer, want), limit, func(ctx context.Context) error {
		mesh, err := c.api.Overlay(ctx, slot, "")
		if err != nil {
			return err
		}
		for _, l := range mesh.Links {
			if up := l.State == "up"; l.Peer == peer && up == want {
				return nil
			} else if l.Peer == peer {
				return fmt.Errorf("it is %s over %s", l.State, l.Path)
			}
		}
		if want {
			return fmt.Errorf("no link among %d", len(mesh.Links))
		}
		return nil
	})
}
