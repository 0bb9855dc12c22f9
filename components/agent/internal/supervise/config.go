package supervise

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"cadre.dev/agent/internal/durable"
	"cadre.dev/core/group"
)

// Settings are what one Boot's Consul client agent needs.
type Settings struct {
	// NodeName is the Slot, NodeID what coordinators know its agent by (group.NodeID);
	// Address is its VIP.
	NodeName   string
	NodeID     string
	Address    netip.Addr
	Datacenter string
	// GossipKey is base64 of 32 bytes.
	GossipKey  string
	AgentToken string
	// CAPEM, CertPEM and KeyPEM secure RPC both ways.
	CAPEM, CertPEM, KeyPEM []byte
	// ServerVIPs are joined through the overlay.
	ServerVIPs []string
}

// HTTPPort is where workloads of this CVM reach the agent, on 127.0.0.1.
const HTTPPort = group.ConsulHTTPPort

// write puts configuration and keys into runDir and returns the file to start with.
func (s Settings) write(runDir, dataDir string, httpPort int) (string, error) {
	if !s.Address.IsLoopback() {
		return "", fmt.Errorf("consul address: LISTENER_FORBIDDEN: %q is not a loopback address", s.Address)
	}
	for _, dir := range []string{runDir, dataDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("consul folders: %w", err)
		}
	}
	files := map[string][]byte{"ca.pem": s.CAPEM, "cert.pem": s.CertPEM, "key.pem": s.KeyPEM}
	for name, data := range files {
		if err := durable.WriteFile(filepath.Join(runDir, name), data, 0o600); err != nil {
			return "", fmt.Errorf("consul keys: %w", err)
		}
	}
	text, err := json.MarshalIndent(s.config(runDir, dataDir, httpPort), "", "  ")
	if err != nil {
		return "", fmt.Errorf("consul configuration: %w", err)
	}
	path := filepath.Join(runDir, "consul.json")
	if err := durable.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("consul configuration: %w", err)
	}
	return path, nil
}

func (s Settings) config(runDir, dataDir string, httpPort int) map[string]any {
	address := s.Address.String()
	return map[string]any{
		"node_name": s.NodeName,
		"node_id":   s.NodeID,
		// They would need the right to write the node, which no member has (IDN-09).
		"disable_coordinates": true,
		"datacenter":          s.Datacenter,
		"data_dir":            dataDir,
		"server":              false,
		"bind_addr":           address,
		"advertise_addr":      address,
		"client_addr":         "127.0.0.1",
		"ports": map[string]int{
			"http": httpPort, "https": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
			"serf_lan": group.ConsulGossipPort, "serf_wan": -1, "server": group.ConsulRPCPort,
		},
		"encrypt": s.GossipKey,
		// The key comes with each admission; a copy on the disk would outlive it.
		"disable_keyring_file": true,
		"retry_join":           s.ServerVIPs,
		"retry_interval":       "1s",
		"rejoin_after_leave":   true,
		// A recreate is not a departure (workload-handover 5).
		"leave_on_terminate":      false,
		"skip_leave_on_interrupt": true,
		"disable_update_check":    true,
		"log_level":               "WARN",
		"acl": map[string]any{
			"enabled": true, "default_policy": "deny",
			// What is asked of this agent alone is judged by what it last heard of a token.
			// A revoked one must not work for longer, also while no server answers: nothing
			// of worth works then anyway, since records and locks are the servers' (TOK-04).
			"down_policy": "deny", "token_ttl": aclCache, "policy_ttl": aclCache, "role_ttl": aclCache,
			"enable_token_persistence": false,
			"tokens":                   map[string]string{"agent": s.AgentToken},
		},
		"tls": map[string]any{
			"defaults": map[string]any{
				"ca_file":   filepath.Join(runDir, "ca.pem"),
				"cert_file": filepath.Join(runDir, "cert.pem"),
				"key_file":  filepath.Join(runDir, "key.pem"),
			},
			"internal_rpc": map[string]any{
				"verify_incoming": true, "verify_outgoing": true, "verify_server_hostname": true,
			},
		},
	}
}

// aclCache is how long the agent may believe what it last heard of a token.
const aclCache = "5s"

// reloadable reports whether a running agent takes new over: tokens and certificates
// with SIGHUP. A new gossip key reaches the running ones by way of the keyring, which
// the coordinators rotate; here it is for the next start.
func (s Settings) reloadable(new Settings) bool {
	s.AgentToken, s.GossipKey, s.CAPEM, s.CertPEM, s.KeyPEM = "", "", nil, nil, nil
	new.AgentToken, new.GossipKey, new.CAPEM, new.CertPEM, new.KeyPEM = "", "", nil, nil, nil
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(new)
	return errA == nil && errB == nil && string(a) == string(b)
}

func (s Settings) equal(o Settings) bool {
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && string(a) == string(b)
}
