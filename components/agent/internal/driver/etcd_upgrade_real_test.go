package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// oldEtcd is an etcd 3.5 before 3.5.20, which the test tools do not build.
func oldEtcd(t *testing.T) string {
	t.Helper()
	at := os.Getenv("CADRE_TEST_ETCD_OLD")
	if at == "" {
		t.Skip("CADRE_TEST_ETCD_OLD names no etcd 3.5 before 3.5.20: the driver was not tested through that update")
	}
	return at
}

// TestAVoterWithoutANameLeads: members that upgrade to 3.6 first list a member without a name, if
// it was replaced under an etcd before 3.5.20. That member votes, leads and takes over like any
// other.
func TestAVoterWithoutANameLeads(t *testing.T) {
	t.Parallel()
	c := &etcdMembers{t: t, binary: oldEtcd(t), flags: []string{"--snapshot-count", "10"}, addr: subnet(t, 12)}
	all := []string{"etcd-0", "etcd-1", "etcd-2"}
	for _, slot := range all {
		c.start(slot, "new", all)
	}
	c.voters(all)
	c.procs["etcd-2"].stop()
	c.leaves("etcd-2", "etcd-0", "etcd-1")
	c.joins("etcd-2", all...)
	client, err := c.drivers["etcd-0"].(*etcd).local.open()
	if err != nil {
		t.Fatal(err)
	}
	for range 50 { // the log from which 3.6 would learn the name is gone after a snapshot
		if _, err := client.Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
	}
	for _, slot := range all[:2] {
		c.procs[slot].stop()
		c.procs[slot].argv[0] = etcdBinary(t)
		c.procs[slot].start()
		c.voters(all)
	}
	if !c.lists("etcd-0", "") {
		t.Fatal("etcd-0 lists every member by a name: this is not the case that the test is about")
	}
	for _, to := range []string{"etcd-2", "etcd-0", "etcd-2", "etcd-1"} {
		for _, slot := range all {
			sees(t, c.drivers[slot], slot+" may be stopped", func(v View) bool {
				return v.Ready && v.MayDisrupt && slices.Contains(all, v.Leader) && slices.Equal(v.Voters, all)
			})
		}
		from := c.leader()
		if from == to {
			continue
		}
		got, err := c.drivers[from].Transfer(t.Context(), TransferRequest{ExpectedLeader: from, Candidates: []string{to}})
		if err != nil || !got.Moved || got.Leader != to {
			t.Fatalf("from %s to %s: %+v, %v", from, to, got, err)
		}
	}
}

// lists: slot's own list has a member of that name.
func (c *etcdMembers) lists(slot, name string) bool {
	c.t.Helper()
	client, err := c.drivers[slot].(*etcd).local.open()
	if err != nil {
		c.t.Fatal(err)
	}
	list, err := client.MemberList(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range list.Members {
		if m.Name == name {
			return true
		}
	}
	return false
}

// TestTheUndoOfAMinorUpdateSaysWhyItFails: the old binary ends on the newer data, the reason names
// the way back, and that way works.
func TestTheUndoOfAMinorUpdateSaysWhyItFails(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three etcd members")
	}
	old := tool(t, "bin/etcd35")
	c := etcdServers(t, 13, etcdSetup{})
	within(t, c.settle, "form", c.healthy)
	agreed := func(ctx context.Context, minor string) error {
		for i := range 3 {
			v, err := c.drivers[0].(*etcd).version(ctx, c.addr(i))
			if err != nil || !strings.HasPrefix(v.Cluster, minor) {
				return fmt.Errorf("%+v, %w", v, err)
			}
		}
		return nil
	}
	within(t, c.settle, "agree on 3.6", func(ctx context.Context) error { return agreed(ctx, "3.6.") })
	for _, d := range c.drivers {
		sees(t, d, "its data is of 3.6", func(v View) bool { return v.DataFormat == "3.6.0" })
	}
	at := (c.leader(t) + 1) % 3
	newer := c.procs[at].argv[0]
	c.procs[at].stop()
	c.procs[at].argv[0] = old
	c.procs[at].start()
	if err := c.procs[at].cmd.Wait(); err == nil || c.procs[at].cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the old one ends with %v", err)
	}
	v, err := c.drivers[at].Observe(t.Context())
	if err != nil || v.Liveness != LivenessRefused || !strings.Contains(v.Message, "`etcdctl downgrade enable 3.5`") {
		t.Errorf("it says %q, %v", v.Message, err)
	}
	c.procs[at].argv[0] = newer
	c.procs[at].start()
	within(t, c.settle, "the disk is unharmed", c.healthy)

	within(t, c.settle, "downgrade enable", func(ctx context.Context) error {
		_, err := c.operator().Downgrade(ctx, clientv3.DowngradeEnable, "3.5.0")
		return err
	})
	within(t, time.Minute, "all data is of 3.5", func(ctx context.Context) error { return agreed(ctx, "3.5.") })
	for _, d := range c.drivers {
		sees(t, d, "its data is of 3.5", func(v View) bool { return v.DataFormat == "3.5.0" && strings.HasPrefix(v.Version, "3.6.") })
	}
	for i := range 3 {
		c.procs[i].stop()
		c.procs[i].argv[0] = old
		c.procs[i].start()
		within(t, c.settle, "back", func(ctx context.Context) error {
			if err := c.healthy(ctx); err != nil {
				return err
			}
			if v, err := c.drivers[i].Observe(ctx); err != nil || !strings.HasPrefix(v.Version, "3.5.") {
				return errors.Join(err, errors.New(v.Version))
			}
			return nil
		})
	}
}
