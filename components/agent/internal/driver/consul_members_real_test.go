package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestConsulServersLeave removes the server of a lost CVM from real Consul servers, and adds
// another server under its name.
func TestConsulServersLeave(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three Consul servers")
	}
	c := consulServers(t, 5)
	within(t, c.settle, "form", c.healthy)
	lead := c.leader(t)
	lost := (lead + 1) % 3
	old := c.id(t, consulName(lost))
	for what, change := range map[string]struct{ slot, id string }{
		"a live server":      {consulName(lost), old},
		"the leader itself":  {consulName(lead), c.id(t, consulName(lead))},
		"another one's name": {consulName((lead + 2) % 3), old},
	} {
		if err := Change(t.Context(), c.drivers[lead], changeOf("remove", change.slot, change.id)); !errors.Is(err, ErrUnsafe) {
			t.Errorf("%s is taken out: %v", what, err)
		}
	}
	if err := c.healthy(t.Context()); err != nil {
		t.Fatalf("after refused changes: %v", err)
	}

	if err := c.drivers[lead].Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.procs[lost].kill()
	c.leaves(t, lost, old)
	c.leaves(t, lost, old)
	if got := c.minQuorum(t); got != 2 {
		t.Errorf("MinQuorum is %d with two servers", got)
	}

	// Start a new server with another disk and the same name. The leader lists a server that joins
	// within a second of the leave only at its next check, once a minute.
	c.procs[lost], c.drivers[lost] = startConsul(t, subnet(t, 5), lost, t.TempDir())
	within(t, 2*c.settle, "the new server gets its vote", c.healthy)
	if id := c.id(t, consulName(lost)); id == old || id == "" {
		t.Fatalf("the new server has the id %q, the old one had %q", id, old)
	}
	at := c.leader(t)
	if err := Change(t.Context(), c.drivers[at], changeOf("remove", consulName(lost), old)); err != nil {
		t.Errorf("a late request for the old server: %v", err)
	}
	if err := c.healthy(t.Context()); err != nil {
		t.Errorf("it changed something: %v", err)
	}
}

// TestTheLastTwoConsulServersPart: one of two voters is removed while it lives. The other one
// serves alone, also after the removed one has died; then a new server joins under its name.
func TestTheLastTwoConsulServersPart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three Consul servers")
	}
	c := consulServers(t, 6)
	within(t, c.settle, "form", c.healthy)
	lead := c.leader(t)
	lost := (lead + 1) % 3
	old := c.id(t, consulName(lost))
	c.procs[lost].kill()
	c.leaves(t, lost, old)
	lead = c.leader(t)
	other := 3 - lead - lost
	id := c.id(t, consulName(other))
	for range 2 {
		if err := Change(t.Context(), c.drivers[lead], changeOf("remove", consulName(other), id)); err != nil {
			t.Fatalf("of two that live: %v", err)
		}
	}
	voters := func(n int) func(context.Context) error {
		return func(ctx context.Context) error {
			v, err := c.drivers[lead].Observe(ctx)
			if err != nil || v.Role != RoleLeader || len(v.Voters) != n {
				return fmt.Errorf("role %s, voters %v, learners %v: %w", v.Role, v.Voters, v.Learners, err)
			}
			return nil
		}
	}
	if err := voters(1)(t.Context()); err != nil {
		t.Fatalf("after the leave: %v", err)
	}
	c.procs[other].kill()
	c.drivers[other] = nil
	if err := voters(1)(t.Context()); err != nil {
		t.Fatalf("after its CVM went: %v", err)
	}
	c.procs[other], c.drivers[other] = startConsul(t, subnet(t, 6), other, t.TempDir())
	within(t, 2*c.settle, "the new server gets its vote", voters(2))
}

// leaves asks the leader until the server of that id is out of raft.
func (c *realCluster) leaves(t *testing.T, lost int, id string) {
	t.Helper()
	within(t, c.settle, "take "+c.names[lost]+" out", func(ctx context.Context) error {
		for i, d := range c.drivers {
			v, err := d.Observe(ctx)
			if i == lost || err != nil || v.Role != RoleLeader {
				continue
			}
			// Refused as long as the gossip has not noticed that it is gone.
			if err := Change(ctx, d, changeOf("remove", c.names[lost], id)); err != nil {
				return err
			}
			if v, err = d.Observe(ctx); err != nil || len(v.Voters) != 2 || slices.Contains(v.Voters, c.names[lost]) || v.MemberIDs[id] != "" {
				return fmt.Errorf("voters %v, learners %v: %w", v.Voters, v.Learners, err)
			}
			return nil
		}
		return errors.New("no member leads")
	})
}

// minQuorum is autopilot's.
func (c *realCluster) minQuorum(t *testing.T) int {
	t.Helper()
	var config struct{ MinQuorum int }
	if err := c.drivers[c.leader(t)].(*consul).get(t.Context(), "/v1/operator/autopilot/configuration", nil, &config); err != nil {
		t.Fatal(err)
	}
	return config.MinQuorum
}

// id is the leader's id for that server.
func (c *realCluster) id(t *testing.T, name string) string {
	t.Helper()
	v, err := c.drivers[c.leader(t)].Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v.MemberIDs[name]
}
