package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestPatroniReal runs PostgreSQL under Patroni with Consul as its store, named
// and addressed as in a CVM: one VIP per Slot, default ports.
func TestPatroniReal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts Consul and three PostgreSQL members")
	}
	consulBinary, patroniBinary := tool(t, "bin/consul"), tool(t, "patroni/bin/patroni")
	patroniBinary = filepath.Join(reachable(t, filepath.Dir(filepath.Dir(patroniBinary))), "bin/patroni")
	const pgBin = "/usr/lib/postgresql/15/bin"
	if _, err := os.Stat(pgBin); err != nil {
		t.Skipf("no PostgreSQL at %s: this driver was not tested against the real software", pgBin)
	}
	account, err := user.Lookup("postgres")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs root and an account named postgres: PostgreSQL refuses to run as root")
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		t.Fatal(err)
	}
	addr := subnet(t, 3)
	store := startStore(t, consulBinary, addr(9).String())
	vip := func(slot string) (netip.Addr, bool) {
		var n int
		_, err := fmt.Sscanf(slot, "postgres-%d", &n)
		return addr(n), err == nil
	}
	c := &realCluster{settle: 90 * time.Second}
	for i := range 3 {
		name := fmt.Sprintf("postgres-%d", i)
		dir, err := os.MkdirTemp("", "cadre-patroni-") //nolint:usetesting // another user must reach it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if err := os.Chown(dir, uid, -1); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "patroni.json") // YAML takes JSON
		data, err := json.Marshal(patroniConfig(name, addr(i).String(), dir, pgBin, store))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		p := &proc{t: t, argv: []string{patroniBinary, file}, log: filepath.Join(dir, "log"), uid: uint32(uid)}
		p.start()
		// The own member is found at its VIP: nothing listens at this Local.
		d, err := New(Config{Kind: "patroni", Self: name, VIP: vip, Local: addr(20 + i), Settings: map[string]string{"scope": "demo"}})
		if err != nil {
			t.Fatal(err)
		}
		c.names, c.drivers, c.procs = append(c.names, name), append(c.drivers, d), append(c.procs, p)
	}
	c.dumpLogs(t)
	for _, d := range c.drivers {
		sees(t, d, "its PostgreSQL is of 15", func(v View) bool { return v.DataFormat == "15" })
	}
	c.contract(t)
}

func patroniConfig(name, at, dir, pgBin, store string) map[string]any {
	login := func(user string) map[string]string { return map[string]string{"username": user, "password": "test"} }
	return map[string]any{
		"scope": "demo", "name": name,
		"restapi": map[string]any{"listen": at + ":8008", "connect_address": at + ":8008"},
		"consul":  map[string]any{"host": store, "register_service": false},
		"bootstrap": map[string]any{
			"dcs": map[string]any{
				"ttl": 30, "loop_wait": 10, "retry_timeout": 10,
				"postgresql": map[string]any{"use_pg_rewind": true},
			},
			"initdb": []any{map[string]string{"encoding": "UTF8"}, "data-checksums"},
		},
		"postgresql": map[string]any{
			"listen": at + ":5432", "connect_address": at + ":5432", "data_dir": filepath.Join(dir, "data"),
			"bin_dir": pgBin, "pgpass": filepath.Join(dir, "pgpass"),
			"authentication": map[string]any{"superuser": login("postgres"), "replication": login("replicator"), "rewind": login("rewinder")},
			"parameters":     map[string]any{"unix_socket_directories": dir, "fsync": "off", "shared_buffers": "16MB"},
			"pg_hba":         []string{"host all all 127.0.0.0/8 scram-sha-256", "host replication replicator 127.0.0.0/8 scram-sha-256", "local all all trust"},
		},
	}
}

// startStore runs one Consul server and returns host:port of its HTTP port.
func startStore(t *testing.T, binary, at string) string {
	t.Helper()
	dir := t.TempDir()
	p := &proc{t: t, log: filepath.Join(dir, "log"), argv: []string{
		binary, "agent", "-server", "-bootstrap-expect=1", "-data-dir", filepath.Join(dir, "data"), "-node", "store",
		"-bind", at, "-client", at, "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1", "-serf-wan-port=-1",
		"-hcl", "performance { raft_multiplier = 1 }",
	}}
	p.start()
	client := newRESTClient(nil)
	within(t, 30*time.Second, "start the store", func(ctx context.Context) error {
		var leader string
		if _, err := getJSON(ctx, client, "http://"+at+":8500/v1/status/leader", nil, &leader); err != nil {
			return err
		}
		if leader == "" {
			return errors.New("no leader yet")
		}
		return nil
	})
	return at + ":8500"
}
