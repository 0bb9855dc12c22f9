package client_test

import (
	"testing"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// Other tests depend on this: the fake holds the drain of a protected slot, as the leader does
// (TestR139_AProtectedMemberIsRepairedDespiteADrain).
func TestTheFakeDrainsNoProtectedSlot(t *testing.T) {
	s := clienttest.New(t)
	s.OverridesNow = true
	cl := dial(t, s.Start(t))
	s.Set("web", func(g *clienttest.Group) {
		g.Status.Instances = []group.InstanceStatus{{Slot: "web-0", State: client.StateAvailable}}
	})
	override := func(kind client.OverrideKind) {
		t.Helper()
		if _, err := cl.SetOverride(t.Context(), kind, "web-0", 0, "a test"); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, state group.SlotState) group.InstanceStatus {
		t.Helper()
		i, err := cl.Instance(t.Context(), "web-0")
		if err != nil || i.Status.State != state {
			t.Errorf("%s: %s, %v; want %s", what, i.Status.State, err, state)
		}
		return i.Status
	}

	override(client.OverrideProtect)
	override(client.OverrideDrain)
	held := is("protected", client.StateAvailable)
	if held.Drain == nil || held.Protection == nil || len(held.Holds) != 1 || held.Holds[0].Predicate != rollout.HoldProtected {
		t.Errorf("protected: drain %v, protection %v, holds %v", held.Drain, held.Protection, held.Holds)
	}
	if _, err := cl.ClearOverride(t.Context(), client.OverrideProtect, "web-0"); err != nil {
		t.Fatal(err)
	}
	if free := is("unprotected", client.StateDrained); len(free.Holds) > 0 {
		t.Errorf("unprotected: %v", free.Holds)
	}

	override(client.OverrideProtect)
	override(client.OverrideDrain)
	is("protected once it is drained", client.StateDrained)
	s.EndOverrides()
	is("their time is over", client.StateAvailable)
}
