package driver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestConsulReal(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three Consul servers")
	}
	binary := tool(t, "bin/consul")
	addr := subnet(t, 1)
	c := &realCluster{settle: time.Minute, quorum: true}
	joins := []string{addr(0).String(), addr(1).String(), addr(2).String()}
	for i := range 3 {
		name := fmt.Sprintf("coordinator-%d", i)
		dir := t.TempDir()
		config := map[string]any{
			"node_name": name, "server": true, "bootstrap_expect": 3, "data_dir": filepath.Join(dir, "data"),
			"bind_addr": addr(i).String(), "client_addr": addr(i).String(), "retry_join": joins, "retry_interval": "1s",
			"ports":       map[string]int{"dns": -1, "grpc": -1, "grpc_tls": -1, "serf_wan": -1},
			"performance": map[string]int{"raft_multiplier": 1}, "disable_update_check": true,
			"autopilot": map[string]any{"server_stabilization_time": "1s"},
		}
		data, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "consul.json")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		p := &proc{t: t, argv: []string{binary, "agent", "-config-file", file}, log: filepath.Join(dir, "log")}
		p.start()
		d, err := New(Config{Kind: "consul", Self: name, Settings: map[string]string{"http_addr": addr(i).String() + ":8500"}})
		if err != nil {
			t.Fatal(err)
		}
		c.names, c.drivers, c.procs = append(c.names, name), append(c.drivers, d), append(c.procs, p)
	}
	c.dumpLogs(t)
	c.contract(t)
}
