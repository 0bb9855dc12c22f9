package driver

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func TestEtcdReal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three etcd members")
	}
	c := etcdServers(t, 2, etcdSetup{})
	c.contract(t)
}

// etcdBinary is the etcd of the tests; CADRE_TEST_ETCD names another version.
func etcdBinary(t *testing.T) string {
	t.Helper()
	if at := os.Getenv("CADRE_TEST_ETCD"); at != "" {
		return at
	}
	return tool(t, "bin/etcd")
}

// etcdSetup lists the differences from plain members on the same addresses.
type etcdSetup struct {
	binary   string
	flags    []string
	tls      bool
	settings map[string]string
}

// etcdCluster is three members on the loopback addresses of its kind.
type etcdCluster struct {
	*realCluster
	t     *testing.T
	addr  func(int) netip.Addr
	setup etcdSetup
}

func etcdServers(t *testing.T, kind byte, setup etcdSetup) *etcdCluster {
	t.Helper()
	if setup.binary == "" {
		setup.binary = etcdBinary(t)
	}
	c := &etcdCluster{t: t, addr: subnet(t, kind), setup: setup, realCluster: &realCluster{settle: 30 * time.Second, quorum: true}}
	for i := range 3 {
		dir := t.TempDir()
		p := &proc{t: t, log: filepath.Join(dir, "log"), argv: c.argv(setup.binary, i, filepath.Join(dir, "data"), setup.flags)}
		p.start()
		c.names, c.drivers, c.procs = append(c.names, etcdName(i)), append(c.drivers, c.driver(i, setup.settings)), append(c.procs, p)
	}
	c.dumpLogs(t)
	return c
}

func etcdName(i int) string { return fmt.Sprintf("etcd-%d", i) }

func (c *etcdCluster) client(i int) string { return c.url(i, 2379) }

// url is that of member i at port: the peer port has no TLS.
func (c *etcdCluster) url(i, port int) string {
	if c.setup.tls && port == 2379 {
		return fmt.Sprintf("https://%s:%d", c.addr(i), port)
	}
	return fmt.Sprintf("http://%s:%d", c.addr(i), port)
}

func (c *etcdCluster) argv(binary string, i int, data string, flags []string) []string {
	var initial []string
	for n := range 3 {
		initial = append(initial, etcdName(n)+"="+c.url(n, 2380))
	}
	return append([]string{
		binary, "--name", etcdName(i), "--data-dir", data,
		"--listen-client-urls", c.client(i), "--advertise-client-urls", c.client(i),
		"--listen-peer-urls", c.url(i, 2380), "--initial-advertise-peer-urls", c.url(i, 2380),
		"--initial-cluster", strings.Join(initial, ","), "--log-level", "warn",
	}, flags...)
}

func (c *etcdCluster) slotAt(at netip.Addr) (string, bool) {
	for n := range 3 {
		if c.addr(n) == at {
			return etcdName(n), true
		}
	}
	return "", false
}

func (c *etcdCluster) vip(slot string) (netip.Addr, bool) {
	var n int
	_, err := fmt.Sscanf(slot, "etcd-%d", &n)
	return c.addr(n), err == nil
}

// driver is that of member i with these settings.
func (c *etcdCluster) driver(i int, settings map[string]string) Driver {
	c.t.Helper()
	d, err := New(Config{
		Kind: "etcd", Self: etcdName(i), VIP: c.vip, SlotAt: c.slotAt, Local: c.addr(i), Settings: settings,
		Members: func() []string { return []string{etcdName(0), etcdName(1), etcdName(2)} },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { Close(d) })
	return d
}

// operator is a client of all members, as a person would use etcdctl.
func (c *etcdCluster) operator() *clientv3.Client {
	c.t.Helper()
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{c.client(0), c.client(1), c.client(2)}, DialTimeout: time.Second, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cli.Close() })
	return cli
}

// sees waits until the driver's view passes check.
func sees(t *testing.T, d Driver, what string, check func(View) bool) {
	t.Helper()
	within(t, 30*time.Second, what, func(ctx context.Context) error {
		v, err := d.Observe(ctx)
		if err != nil || !check(v) {
			return fmt.Errorf("%+v, %w", v, err)
		}
		return nil
	})
}
