package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"cadre.dev/store"
	"cadre.dev/store/localconsul"
)

// ConsulServer is a running Consul server with ACLs.
type ConsulServer struct {
	// Addr of the HTTP API, host:port.
	Addr string
	// XDS of the gRPC API, host:port.
	XDS string
	// ManagementToken may do everything.
	ManagementToken string
	// Gossip is the address that client agents join, host:port.
	Gossip string
}

// SessionTTL is the minimum of the test servers, so that tests of expiry are short. A Consul
// session lives up to twice its TTL.
const SessionTTL = 2 * time.Second

// StartConsul returns a real single-server Consul without ACLs (token is ""). All tests of a test
// binary share it: use NewConsul, or a prefix of your own. It ends with the test binary. Without a
// consul binary the test is skipped.
func StartConsul(t testing.TB) (addr, token string) {
	t.Helper()
	binary := ConsulBinary(t)
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "cadre-consul-") //nolint:usetesting // it outlives the first test
		if err != nil {
			shared.err = err
			return
		}
		var server launched
		server, shared.err = launch(context.WithoutCancel(t.Context()), binary, dir, "")
		shared.addr = server.http
	})
	if shared.err != nil {
		t.Fatalf("start consul: %v", shared.err)
	}
	return shared.addr, ""
}

var shared struct {
	once sync.Once
	addr string
	err  error
}

// StartConsulACL returns a real single-server Consul for this test alone, with ACLs on, default
// deny, and an initial management token. It ends with the test.
func StartConsulACL(t testing.TB) ConsulServer {
	t.Helper()
	server, err := spares.take(context.WithoutCancel(t.Context()), ConsulBinary(t))
	if err != nil {
		t.Fatalf("start consul: %v", err)
	}
	t.Cleanup(server.stop)
	return ConsulServer{Addr: server.http, XDS: server.grpc, ManagementToken: spareToken, Gossip: server.gossip}
}

// NewConsul returns a Store on the shared server under its own prefix, with the short SessionTTL.
func NewConsul(t testing.TB) *ConsulStore {
	t.Helper()
	addr, token := StartConsul(t)
	return ConsulAt(t, addr, token, NewPrefix())
}

// NewPrefix returns a prefix on the shared server that no other test uses.
func NewPrefix() string { return fmt.Sprintf("cadre/t%d/", prefixes.Add(1)) }

var prefixes atomic.Int64

// ConsulAt returns a Store at a given server and prefix, with the short SessionTTL.
func ConsulAt(t testing.TB, addr, token, prefix string) *ConsulStore {
	t.Helper()
	switchable := newSwitchTransport()
	c, err := store.NewConsul(store.ConsulConfig{
		Address: addr, Token: token, Prefix: prefix, SessionTTL: SessionTTL,
		Resync: 5 * time.Second, Transport: switchable,
	})
	if err != nil {
		t.Fatalf("new consul store: %v", err)
	}
	t.Cleanup(switchable.close)
	return &ConsulStore{
		Consul: c, transport: switchable,
		again: func() store.Store { return ConsulAt(t, addr, token, prefix) },
		edit: func(change func(kv *api.KV, prefix string) error) {
			client, err := api.NewClient(&api.Config{Address: addr, Token: token})
			if err == nil {
				err = change(client.KV(), prefix)
			}
			if err != nil {
				t.Errorf("edit the store: %v", err)
			}
		},
	}
}

// ConsulBinary finds CADRE_CONSUL, .tools/bin/consul in a parent directory, or consul on PATH. It
// skips the test when there is none.
func ConsulBinary(t testing.TB) string {
	t.Helper()
	path, err := localconsul.Binary()
	if err != nil {
		t.Skip(err)
	}
	return path
}

// launch starts a server and waits until it has a leader, its node is in the catalog, and sessions
// can be created. It picks free ports, and retries when another process takes one.
func launch(ctx context.Context, binary, dir, managementToken string) (server launched, err error) {
	for attempt := range 3 {
		server, err = launchOnce(ctx, binary, filepath.Join(dir, strconv.Itoa(attempt)), managementToken)
		if err == nil {
			return server, nil
		}
	}
	return launched{}, err
}

// launched is a running Consul agent.
type launched struct {
	http, gossip, grpc string
	stop               func()
}

func launchOnce(ctx context.Context, binary, dir, managementToken string) (launched, error) {
	ports, err := localconsul.FreePorts(ctx, portsEach)
	if err != nil {
		return launched{}, err
	}
	process, err := startAgent(ctx, binary, dir, serverConfig(ports, managementToken))
	if err != nil {
		return launched{}, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	if err := localconsul.AwaitReady(ctx, addr, managementToken, process.exited); err != nil {
		process.stop()
		return launched{}, fmt.Errorf("%w\n%s", err, process.tail())
	}
	local := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	return launched{http: addr, gossip: local(ports[2]), grpc: local(ports[3]), stop: process.stop}, nil
}

// startAgent starts a Consul agent in its own directory.
func startAgent(ctx context.Context, binary, dir string, config map[string]any) (*process, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return start(ctx, dir, binary, "agent", "-config-file="+file, "-data-dir="+filepath.Join(dir, "data"))
}

// MaxConns is how many HTTP connections of one address a server accepts. A hundred callers at three
// coordinators reach Consul's default of 200. A test that exhausts the connections opens more.
const MaxConns = 500

// portsEach is how many ports one server has.
const portsEach = 4

// serverConfig takes the ports of HTTP, RPC, gossip and gRPC.
func serverConfig(ports []int, managementToken string) map[string]any {
	config := map[string]any{
		"server": true, "bootstrap_expect": 1, "node_name": "test",
		"bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "log_level": "WARN",
		"ports": map[string]int{
			"http": ports[0], "server": ports[1], "serf_lan": ports[2], "serf_wan": -1,
			"dns": -1, "grpc": ports[3], "grpc_tls": -1, "https": -1,
		},
		"limits":          map[string]any{"http_max_conns_per_client": MaxConns},
		"performance":     map[string]any{"raft_multiplier": 1},
		"session_ttl_min": SessionTTL.String(), "disable_update_check": true, "leave_on_terminate": false,
	}
	if managementToken != "" {
		config["acl"] = map[string]any{
			"enabled": true, "default_policy": "deny", "enable_token_persistence": false,
			"tokens": map[string]string{"initial_management": managementToken, "agent": managementToken},
		}
	}
	return config
}
