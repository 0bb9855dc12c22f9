package nats

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cadre.dev/adapters/serve"
	"cadre.dev/core/adapter"
)

// TestRealServers takes three real servers through the calls of a rollout and of a replacement.
func TestRealServers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nats-servers")
	}
	c := newCluster(t)
	js := c.app()
	c.settled()
	c.stream(js, "events", 3)
	leader := c.settled()

	m := c.member(leader)
	followers := []int{(leader + 1) % 3, (leader + 2) % 3}
	if !slices.Equal(m.Voters, []string{"nats-0", "nats-1", "nats-2"}) || len(m.MemberIDs) != 3 || len(m.Followers) != 2 || m.Epoch == 0 || m.Version == "" || m.Fault != "" {
		t.Fatalf("the leader is %+v", m)
	}
	if f := c.member(followers[0]); f.Role != adapter.RoleFollower || f.Leader != slotName(leader) || f.MemberIDs[slotName(leader)] != m.MemberIDs[slotName(leader)] || f.Epoch != m.Epoch {
		t.Fatalf("a follower is %+v, the leader %+v", f, m)
	}

	t.Log("transfer")
	_, err := c.adapters[leader].Transfer(t.Context(), adapter.TransferRequest{ExpectedLeader: slotName(leader), Candidates: []string{"nats-7"}})
	if !errors.Is(err, serve.ErrUnsafe) {
		t.Errorf("a transfer to an unknown member: %v", err)
	}
	to := slotName(followers[1])
	moved, err := c.adapters[leader].Transfer(t.Context(), adapter.TransferRequest{ExpectedLeader: slotName(leader), Candidates: []string{"nats-7", to}})
	if err != nil || !moved.Moved || moved.Leader != to || moved.Epoch <= m.Epoch {
		t.Fatalf("the transfer from epoch %d gave %+v, %v", m.Epoch, moved, err)
	}
	repeated, err := c.adapters[leader].Transfer(t.Context(), adapter.TransferRequest{ExpectedLeader: slotName(leader), Candidates: []string{to}})
	if err != nil || repeated.Moved || repeated.Leader != to {
		t.Errorf("the repeated transfer gave %+v, %v", repeated, err)
	}

	t.Log("drain")
	drained := c.leads(js, "events")
	for range 2 {
		if err := c.adapters[drained].Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if now := c.leads(js, "events"); now == drained {
		t.Errorf("server %d leads the stream behind its drain", now)
	}
	if err := c.adapters[drained].CancelDrain(t.Context()); err != nil {
		t.Error(err)
	}

	t.Log("a member is stopped")
	leader = c.settled()
	away, other := (leader+1)%3, (leader+2)%3
	c.signal(away, syscall.SIGTERM)
	_ = c.servers[away].Wait()
	if m := c.member(away); m.Liveness != adapter.Refused || m.Ready || m.MayDisrupt {
		t.Errorf("a stopped member is %+v", m)
	}
	c.sees(other, "needed by the stream", func(m adapter.Member) bool {
		return !m.MayDisrupt && strings.Contains(m.MayDisruptReason, "APP/events would have 1 of 3 current replicas") && strings.Contains(m.MayDisruptReason, c.names[away])
	})
	c.start(away)
	leader = c.settled()

	t.Log("a member hangs")
	hung := (leader + 1) % 3
	c.signal(hung, syscall.SIGSTOP)
	c.sees(hung, "of unknown life", func(m adapter.Member) bool { return m.Liveness == adapter.Unknown && !m.Ready && !m.MayDisrupt })
	err = c.adapters[leader].ChangeSet(t.Context(), adapter.SetRequest{Do: "remove", Slot: slotName(leader)})
	if !errors.Is(err, serve.ErrUnsafe) {
		t.Errorf("a leader that removes itself: %v", err)
	}
	c.signal(hung, syscall.SIGCONT)
	leader = c.settled()

	t.Log("the power of all members fails, and one stays away")
	for i := range 3 {
		c.kill(i)
	}
	gone := (leader + 1) % 3
	c.start(leader)
	c.sees(leader, "a voter without a meta leader", func(m adapter.Member) bool {
		return !m.Ready && !m.MayDisrupt && m.MayDisruptReason == "the servers have no meta leader" && len(m.Voters) == 3 && m.Fault == ""
	})
	c.start((leader + 2) % 3)
	m = c.sees(leader, "in service without one peer", func(m adapter.Member) bool { return m.Ready && len(m.Voters) == 3 && !m.MayDisrupt })
	if id := m.MemberIDs[slotName(gone)]; id != idOf(c.names[gone]) {
		t.Errorf("the peer that nobody met has the id %q: %+v", id, m)
	}
	c.start(gone)
	leader = c.settled()

	t.Log("a member loses its disk")
	lost := (leader + 1) % 3
	before := c.member(leader).MemberIDs[slotName(lost)]
	request := adapter.SetRequest{Do: "remove", Slot: slotName(lost), Member: before}
	if err := c.adapters[leader].ChangeSet(t.Context(), request); !errors.Is(err, serve.ErrUnsafe) {
		t.Errorf("the removal of a live member: %v", err)
	}
	c.kill(lost)
	if err := os.RemoveAll(c.data(lost)); err != nil {
		t.Fatal(err)
	}
	c.sees(leader, "alone with one follower", func(m adapter.Member) bool { return len(m.Followers) == 1 })
	for range 2 {
		if err := c.adapters[leader].ChangeSet(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if m := c.member(leader); slices.Contains(m.Voters, slotName(lost)) || m.MayDisrupt {
		t.Errorf("behind the removal the leader is %+v", m)
	}
	c.names[lost] = slotName(lost) + "_00b"
	c.start(lost)
	leader = c.settled()
	if after := c.member(leader).MemberIDs[slotName(lost)]; after == before || after == "" {
		t.Errorf("the replacement has the id %q, the lost member had %q", after, before)
	}
	// A late order spares the replacement.
	if err := c.adapters[leader].ChangeSet(t.Context(), request); err != nil {
		t.Error(err)
	}
	if m := c.member(leader); !slices.Contains(m.Voters, slotName(lost)) {
		t.Errorf("a late removal took the replacement out: %+v", m)
	}
}

// TestRealRefusals: bad settings are named, and no member counts as dead because of them.
func TestRealRefusals(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nats-servers")
	}
	c := newCluster(t)
	js := c.app()
	c.settled()
	c.stream(js, "single", 1)
	single := c.leads(js, "single")
	m := c.sees(single, "warned of a stream with one replica", func(m adapter.Member) bool { return m.Fault != "" })
	if !well(m) || !strings.Contains(m.Fault, "stream APP/single has 1 of the 3 replicas") {
		t.Errorf("the member with the stream is %+v", m)
	}
	for what, cfg := range map[string]Config{
		"a wrong password": {Slot: "nats-0", User: "sys", PasswordFile: c.file("wrong", "wrong")},
		"no such file":     {Slot: "nats-0", User: "sys", PasswordFile: "/nonexistent/password"},
		"system account":   {Slot: "nats-0", User: "app", PasswordFile: c.file("app2", "of an application")},
		`the server is named "nats-0_00a"; its name m`: {Slot: "nats-1"},
	} {
		m, err := c.adapter(cfg, 0).Member(t.Context())
		if err != nil || m.Liveness != adapter.Alive || m.Ready || m.Message == "" {
			t.Errorf("%s: %+v, %v", what, m, err)
		}
		t.Logf("%s: %s", what, m.Message)
	}
}

// TestRealConformance runs the agent's own suite for adapters at the leader and at a follower.
func TestRealConformance(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nats-servers")
	}
	agent, err := filepath.Abs("../../../bin/cadre-agent")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(agent); err != nil {
		t.Skip("bin/cadre-agent is missing: run make build")
	}
	c := newCluster(t)
	js := c.app()
	c.settled()
	c.stream(js, "events", 3)
	leader := c.settled()
	for _, at := range []struct {
		server int
		flags  []string
	}{{(leader + 1) % 3, []string{"-drain", "-change", "nats-7"}}, {leader, []string{"-drain", "-transfer", "-change", "nats-7"}}} {
		served := httptest.NewServer(serve.Handler(c.adapters[at.server]))
		args := append([]string{"driver", "check", "-slot", slotName(at.server), "-voters", "-set", "changes"}, at.flags...)
		out, err := exec.CommandContext(t.Context(), agent, append(args, served.URL)...).CombinedOutput()
		t.Logf("%s:\n%s", slotName(at.server), out)
		if err != nil {
			t.Error(err)
		}
		served.Close()
	}
}
