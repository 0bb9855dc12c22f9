package supervise

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"cadre.dev/core/group"
	"cadre.dev/core/secret"
)

// Config is the configuration of one Consul server.
type Config struct {
	Binary string
	// DataDir is on disk, RunDir should be memory-backed.
	DataDir, RunDir string
	Datacenter      string
	// Node is this coordinator's Slot name.
	Node string
	VIP  netip.Addr
	// Others are the VIPs of the other coordinators.
	Others []netip.Addr
	// Servers is the intended size, for bootstrap and for autopilot.
	Servers int
	// Clients bounds the connections from one address to the local API; 0: no bound.
	Clients int
	// HTTPPort of the local API on 127.0.0.1; 0 means 8500. GRPCPort is the port of xDS; 0 means
	// 8502.
	HTTPPort, GRPCPort int
	// GossipKey is the key of the first start; UseGossip replaces it.
	GossipKey secret.Value
	// ManagementToken exists from the first election on. The server's own token is issued with it
	// and set with SetAgentToken.
	ManagementToken secret.Value
	CAPEM           []byte
	// ServiceMesh is the initial CA of the service mesh; EnsureMeshCA sets its key.
	ServiceMesh MeshCA
}

func (c Config) httpPort() int {
	if c.HTTPPort == 0 {
		return group.ConsulHTTPPort
	}
	return c.HTTPPort
}

func (c Config) grpcPort() int {
	if c.GRPCPort == 0 {
		return group.ConsulXDSPort
	}
	return c.GRPCPort
}

// local is the only address of the server's APIs.
const local = "127.0.0.1"

// Address of the local HTTP API.
func (c Config) Address() string { return fmt.Sprintf("%s:%d", local, c.httpPort()) }

// XDSAddress is the address of the local gRPC API, from which proxies get their configuration.
func (c Config) XDSAddress() string { return fmt.Sprintf("%s:%d", local, c.grpcPort()) }

// aclCache is how long Consul may use its last answer about a token.
const aclCache = "5s"

func (c Config) file(name string) string { return filepath.Join(c.RunDir, name) }

// document returns Consul's JSON configuration. Every setting that matters for safety is explicit,
// so a changed default has no effect here.
func (c Config) document(agentToken secret.Value) ([]byte, error) {
	join := make([]string, 0, len(c.Others))
	for _, vip := range c.Others {
		join = append(join, vip.String())
	}
	if !c.VIP.IsLoopback() {
		return nil, fmt.Errorf("consul address: LISTENER_FORBIDDEN: %q is not a loopback address", c.VIP)
	}
	tokens := map[string]any{"initial_management": c.ManagementToken.RevealString()}
	if !agentToken.IsZero() {
		tokens["agent"] = agentToken.RevealString()
	}
	doc := map[string]any{
		"server":           true,
		"bootstrap_expect": c.Servers,
		"datacenter":       c.Datacenter,
		"node_name":        c.Node,
		"data_dir":         c.DataDir,
		"bind_addr":        c.VIP.String(),
		"advertise_addr":   c.VIP.String(),
		"client_addr":      local,
		"addresses":        map[string]any{"http": local, "grpc": local},
		"retry_join":       join,
		"retry_interval":   "2s",
		"encrypt":          c.GossipKey.RevealString(),
		// The gossip key is derived at each start, and must not be left on disk.
		"disable_keyring_file":    true,
		"disable_update_check":    true,
		"disable_remote_exec":     true,
		"leave_on_terminate":      false,
		"skip_leave_on_interrupt": true,
		"rejoin_after_leave":      true,
		"enable_script_checks":    false,
		"log_level":               "WARN",
		"ui_config":               map[string]any{"enabled": false},
		// Load balancing would end xDS streams above a server's equal share, and an agent that
		// stays with one coordinator would return to the same server.
		"performance":                 map[string]any{"raft_multiplier": 1, "enable_xds_load_balancing": false},
		"ports":                       map[string]any{"http": c.httpPort(), "https": -1, "grpc": c.grpcPort(), "grpc_tls": -1, "dns": -1, "serf_wan": -1},
		"limits":                      map[string]any{"http_max_conns_per_client": c.Clients},
		"enable_agent_tls_for_checks": false,
		"acl": map[string]any{
			"enabled":                  true,
			"default_policy":           "deny",
			"enable_token_persistence": false,
			// Servers decide by their own replica of the tokens and need no cache. These settings
			// bound the cache if that ever changes (TOK-04).
			"down_policy": "deny", "token_ttl": aclCache, "policy_ttl": aclCache, "role_ttl": aclCache,
			"tokens": tokens,
		},
		"connect":                  map[string]any{"enabled": true, "ca_provider": "consul", "ca_config": c.ServiceMesh.config()},
		"default_intention_policy": "deny",
		// Peering would listen at the gRPC port as well.
		"peering": map[string]any{"enabled": false},
		// Without MinQuorum autopilot prunes a server that is away for 8 s, and the next restart of
		// another one loses quorum.
		"autopilot": map[string]any{"min_quorum": c.Servers, "cleanup_dead_servers": true},
		"tls": map[string]any{
			"internal_rpc": map[string]any{
				"ca_file":                c.file("ca.pem"),
				"cert_file":              c.file("consul.pem"),
				"key_file":               c.file("consul-key.pem"),
				"verify_incoming":        true,
				"verify_outgoing":        true,
				"verify_server_hostname": true,
			},
		},
	}
	return json.MarshalIndent(doc, "", "  ")
}
