package driver

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestConsulReal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three Consul servers")
	}
	c := consulServers(t, 1)
	c.contract(t)
}

// consulServers starts three servers on the loopback addresses of kind.
func consulServers(t *testing.T, kind byte) *realCluster {
	t.Helper()
	c := &realCluster{settle: time.Minute, quorum: true}
	for i := range 3 {
		p, d := startConsul(t, subnet(t, kind), i, t.TempDir())
		c.names, c.drivers, c.procs = append(c.names, consulName(i)), append(c.drivers, d), append(c.procs, p)
	}
	c.dumpLogs(t)
	return c
}

func consulName(i int) string { return fmt.Sprintf("coordinator-%d", i) }

// startConsul starts server i on the data in dir.
func startConsul(t *testing.T, addr func(int) netip.Addr, i int, dir string) (*proc, Driver) {
	t.Helper()
	p := startConsulWith(t, addr, i, dir, nil)
	return p, consulDriver(t, i, map[string]string{"http_addr": addr(i).String() + ":8500"})
}

func consulDriver(t *testing.T, i int, settings map[string]string) Driver {
	t.Helper()
	d, err := New(Config{Kind: "consul", Self: consulName(i), Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// startConsulWith starts it with these values in its configuration too.
func startConsulWith(t *testing.T, addr func(int) netip.Addr, i int, dir string, more map[string]any) *proc {
	t.Helper()
	config := map[string]any{
		"node_name": consulName(i), "server": true, "bootstrap_expect": 3, "data_dir": filepath.Join(dir, "data"),
		"bind_addr": addr(i).String(), "client_addr": addr(i).String(),
		"retry_join": []string{addr(0).String(), addr(1).String(), addr(2).String()}, "retry_interval": "1s",
		"ports":       map[string]int{"dns": -1, "grpc": -1, "grpc_tls": -1, "serf_wan": -1},
		"performance": map[string]int{"raft_multiplier": 1}, "disable_update_check": true,
		"autopilot": map[string]any{"server_stabilization_time": "1s"},
	}
	maps.Copy(config, more)
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "consul.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &proc{t: t, argv: []string{tool(t, "bin/consul"), "agent", "-config-file", file}, log: filepath.Join(dir, "log")}
	p.start()
	return p
}
