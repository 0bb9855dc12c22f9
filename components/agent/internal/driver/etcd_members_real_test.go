package driver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEtcdMembersComeAndGo takes real etcd members through the changes of a scale-out, a lost disk
// and a scale-in: each change twice, since a coordinator may repeat a request.
func TestEtcdMembersComeAndGo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts etcd members")
	}
	c := &etcdMembers{t: t, binary: etcdBinary(t), addr: subnet(t, 4)}
	founders := []string{"etcd-0", "etcd-1", "etcd-2"}
	for _, slot := range founders {
		c.start(slot, "new", founders)
	}
	c.voters(founders)

	// A listed member never starts, and its address belongs to no Peer any more.
	c.twice("add", "etcd-5")
	c.away = c.addr(5)
	at := c.addr(5).String()
	v, err := c.drivers[c.leader()].Observe(t.Context())
	if err != nil || !slices.Equal(v.Learners, []string{at}) || v.MemberIDs[at] == "" {
		t.Fatalf("learners %v, known by %v: %v", v.Learners, v.MemberIDs, err)
	}
	c.change("remove", "etcd-5", v.MemberIDs[at])
	c.voters(founders)

	// A voter without its disk: out first, then in again as another member.
	c.procs["etcd-2"].stop()
	old := c.id("etcd-2")
	c.leaves("etcd-2", "etcd-0", "etcd-1")
	c.joins("etcd-2", "etcd-0", "etcd-1", "etcd-2")

	// A late request for the old member changes no member's place.
	c.change("remove", "etcd-2", old)
	c.refused("promote", "etcd-2", old)
	c.refused("remove", "etcd-1", c.id("etcd-2"))
	c.voters(founders)
	if id := c.id("etcd-2"); id == old {
		t.Errorf("the new member has the id of the old one, %s", id)
	}

	// One more, and the same way back while it lives.
	c.joins("etcd-3", "etcd-0", "etcd-1", "etcd-2", "etcd-3")
	c.leaves("etcd-3", "etcd-0", "etcd-1", "etcd-2")
	// How it ends is etcd's affair: now and then it panics on its way out (status 2).
	out := c.procs["etcd-3"].cmd
	if err := out.Wait(); out.ProcessState == nil || !out.ProcessState.Exited() {
		t.Errorf("the removed member did not exit: %v", err)
	}
	c.refused("remove", c.leader(), "")
	c.refused("promote", "etcd-9", "")
}

type etcdMembers struct {
	t       *testing.T
	binary  string
	flags   []string
	addr    func(int) netip.Addr
	drivers map[string]Driver
	procs   map[string]*proc
	// away is an address without a known Slot.
	away netip.Addr
}

func (c *etcdMembers) vip(slot string) (netip.Addr, bool) {
	var n int
	_, err := fmt.Sscanf(slot, "etcd-%d", &n)
	return c.addr(n), err == nil
}

func (c *etcdMembers) slotAt(at netip.Addr) (string, bool) {
	for n := range 8 {
		if c.addr(n) == at && at != c.away {
			return fmt.Sprintf("etcd-%d", n), true
		}
	}
	return "", false
}

// start runs slot's member on an empty disk.
func (c *etcdMembers) start(slot, state string, set []string) {
	c.t.Helper()
	var initial []string
	for _, one := range set {
		at, _ := c.vip(one)
		initial = append(initial, fmt.Sprintf("%s=http://%s:2380", one, at))
	}
	addr, _ := c.vip(slot)
	at, dir := addr.String(), c.t.TempDir()
	p := &proc{t: c.t, log: filepath.Join(dir, "log"), argv: append([]string{
		c.binary, "--name", slot, "--data-dir", filepath.Join(dir, "data"),
		"--listen-client-urls", "http://" + at + ":2379", "--advertise-client-urls", "http://" + at + ":2379",
		"--listen-peer-urls", "http://" + at + ":2380", "--initial-advertise-peer-urls", "http://" + at + ":2380",
		"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-state", state, "--log-level", "warn",
	}, c.flags...)}
	p.start()
	d, err := New(Config{Kind: "etcd", Self: slot, VIP: c.vip, SlotAt: c.slotAt, Local: addr})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { Close(d) })
	if c.drivers == nil {
		c.drivers, c.procs = map[string]Driver{}, map[string]*proc{}
	}
	c.drivers[slot], c.procs[slot] = d, p
}

func (c *etcdMembers) leader() (slot string) {
	c.t.Helper()
	within(c.t, 30*time.Second, "a leader", func(ctx context.Context) error {
		for one, d := range c.drivers {
			if v, err := d.Observe(ctx); err == nil && v.Role == RoleLeader {
				slot = one
				return nil
			}
		}
		return errors.New("no member leads")
	})
	return slot
}

// id is the leader's id for slot; empty if the leader does not list it.
func (c *etcdMembers) id(slot string) string {
	c.t.Helper()
	v, err := c.drivers[c.leader()].Observe(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return v.MemberIDs[slot]
}

// twice makes a change through the leader until it is made, and once more.
func (c *etcdMembers) twice(do, slot string) {
	c.t.Helper()
	id := c.id(slot)
	for range 2 {
		c.change(do, slot, id)
	}
}

// change makes a change through the leader until it is made.
func (c *etcdMembers) change(do, slot, id string) {
	c.t.Helper()
	within(c.t, 60*time.Second, do+" "+slot, func(ctx context.Context) error {
		err := Change(ctx, c.drivers[c.leader()], changeOf(do, slot, id))
		if errors.Is(err, ErrUnsafe) {
			c.t.Fatal(err)
		}
		return err
	})
}

// refused asks the leader for a change that is not to be made.
func (c *etcdMembers) refused(do, slot, id string) {
	c.t.Helper()
	if err := Change(c.t.Context(), c.drivers[c.leader()], changeOf(do, slot, id)); !errors.Is(err, ErrUnsafe) {
		c.t.Errorf("%s %s %s: %v", do, slot, id, err)
	}
}

func (c *etcdMembers) leaves(slot string, left ...string) {
	c.t.Helper()
	if c.leader() == slot {
		if _, err := c.drivers[slot].Transfer(c.t.Context(), TransferRequest{ExpectedLeader: slot, Candidates: left}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.twice("remove", slot)
	delete(c.drivers, slot)
	c.voters(left)
}

// joins lists slot, starts it once the leader lists it, and gives it its vote.
func (c *etcdMembers) joins(slot string, set ...string) {
	c.t.Helper()
	c.twice("add", slot)
	v, err := c.drivers[c.leader()].Observe(c.t.Context())
	if err != nil || !slices.Equal(v.Learners, []string{slot}) || slices.Contains(v.Voters, slot) || v.MayDisrupt {
		c.t.Fatalf("before it starts: learners %v, voters %v, may be disrupted %t: %v", v.Learners, v.Voters, v.MayDisrupt, err)
	}
	c.start(slot, "existing", set)
	within(c.t, 30*time.Second, "the learner reports its role", func(ctx context.Context) error {
		if v, err := c.drivers[slot].Observe(ctx); err != nil || v.Liveness != LivenessAlive || v.Role != RoleLearner || v.Ready || v.QuorumMember {
			return fmt.Errorf("%+v, %w", v, err)
		}
		return nil
	})
	c.twice("promote", slot)
	c.voters(set)
}

// voters waits until all members agree that these members vote, and that the set has no others.
func (c *etcdMembers) voters(want []string) {
	c.t.Helper()
	within(c.t, 30*time.Second, fmt.Sprintf("voters %v", want), func(ctx context.Context) error {
		for _, slot := range want {
			v, err := c.drivers[slot].Observe(ctx)
			if err != nil || !v.Ready || !slices.Equal(v.Voters, want) || len(v.Learners) > 0 {
				return fmt.Errorf("%s: ready %t, voters %v, learners %v, %s: %w", slot, v.Ready, v.Voters, v.Learners, v.Message, err)
			}
		}
		return nil
	})
}
