package storetest

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"cadre.dev/store/localconsul"
)

// ConsulClient is a running Consul client agent.
type ConsulClient struct {
	// Addr of its HTTP API, host:port.
	Addr    string
	process *process
}

// StartClient starts a real client agent that joins the server as node with its own ACL token, as a
// member's CVM runs it. nodeID is a UUID; "" lets the agent create one. The agent may not have
// joined yet. It ends with the test, without leaving.
func (s ConsulServer) StartClient(t testing.TB, node, nodeID, agentToken string) *ConsulClient {
	t.Helper()
	ports, err := localconsul.FreePorts(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]any{
		"server": false, "node_name": node, "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "log_level": "INFO",
		"ports": map[string]int{
			"http": ports[0], "serf_lan": ports[1], "serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1, "https": -1,
		},
		"retry_join": []string{s.Gossip}, "retry_interval": "1s", "disable_update_check": true, "leave_on_terminate": false,
		"acl": map[string]any{
			"enabled": true, "default_policy": "deny", "down_policy": "deny", "token_ttl": "5s", "policy_ttl": "5s",
			"enable_token_persistence": false, "tokens": map[string]string{"agent": agentToken},
		},
	}
	if nodeID != "" {
		config["node_id"] = nodeID
	}
	process, err := startAgent(context.WithoutCancel(t.Context()), ConsulBinary(t), filepath.Join(t.TempDir(), "client"), config)
	if err != nil {
		t.Fatalf("start a consul client: %v", err)
	}
	t.Cleanup(process.stop)
	return &ConsulClient{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), process: process}
}

// Stop kills the agent: it neither leaves nor deregisters.
func (c *ConsulClient) Stop() { c.process.stop() }

// Log returns the end of its output.
func (c *ConsulClient) Log() string { return c.process.tail() }
