package driver

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEtcdReal(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three etcd members")
	}
	binary := tool(t, "bin/etcd")
	addr := subnet(t, 2)
	vip := func(slot string) (netip.Addr, bool) {
		var n int
		_, err := fmt.Sscanf(slot, "etcd-%d", &n)
		return addr(n), err == nil
	}
	var initial []string
	for i := range 3 {
		initial = append(initial, fmt.Sprintf("etcd-%d=http://%s:2380", i, addr(i)))
	}
	c := &realCluster{settle: 30 * time.Second, quorum: true}
	for i := range 3 {
		name, at := fmt.Sprintf("etcd-%d", i), addr(i).String()
		dir := t.TempDir()
		p := &proc{t: t, log: filepath.Join(dir, "log"), argv: []string{
			binary, "--name", name, "--data-dir", filepath.Join(dir, "data"),
			"--listen-client-urls", "http://" + at + ":2379", "--advertise-client-urls", "http://" + at + ":2379",
			"--listen-peer-urls", "http://" + at + ":2380", "--initial-advertise-peer-urls", "http://" + at + ":2380",
			"--initial-cluster", strings.Join(initial, ","), "--log-level", "warn",
		}}
		p.start()
		d, err := New(Config{Kind: "etcd", Self: name, VIP: vip, Local: addr(i)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { Close(d) })
		c.names, c.drivers, c.procs = append(c.names, name), append(c.drivers, d), append(c.procs, p)
	}
	c.dumpLogs(t)
	c.contract(t)
}
