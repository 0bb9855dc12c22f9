package supervise

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// realClient is a supervised client agent of a real server.
type realClient struct {
	t        *testing.T
	pki      *pki
	server   string // of its API
	port     int    // of the client's API
	dir      string
	consul   *Consul
	settings Settings
}

// newRealClient starts both; subnet keeps tests apart.
func newRealClient(t *testing.T, subnet byte) *realClient {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Consul server and a client")
	}
	binary := consulBinary(t)
	addr := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, subnet, byte(os.Getpid()), n}) }
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	r := &realClient{t: t, pki: newPKI(t), server: addr(1).String() + ":8500", dir: t.TempDir()}
	gossip := base64.StdEncoding.EncodeToString(key)
	startServer(t, binary, r.pki, addr(1).String(), gossip)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.port = ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	r.consul = NewConsul(Config{
		Binary: binary, StateDir: filepath.Join(r.dir, "state"), RunDir: filepath.Join(r.dir, "run"), HTTPPort: r.port,
		Output: io.Discard, Log: slog.New(slog.DiscardHandler),
	})
	r.await(func() error { _, err := r.call("GET", r.server, "/v1/status/leader", testToken, ""); return err })
	// With more than a member has: what the agent brings to the catalog tells which token
	// it acts with.
	rules := `node "web-0" { policy = "write" } agent "web-0" { policy = "write" } node_prefix "" { policy = "read" } service_prefix "" { policy = "read" }`
	policy, err := json.Marshal(map[string]string{"Name": "agent", "Rules": rules})
	if err != nil {
		t.Fatal(err)
	}
	r.manage("PUT", "/v1/acl/policy", string(policy), nil)
	cert, certKey := r.pki.leaf("web-0")
	r.settings = Settings{
		NodeName: "web-0", Address: addr(2), Datacenter: "dc1", GossipKey: gossip, CAPEM: r.pki.pem, CertPEM: cert, KeyPEM: certKey,
		ServerVIPs: []string{addr(1).String()},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.consul.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *realClient) await(f func() error) {
	r.t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			r.t.Fatal(err)
		}
	}
}

func (r *realClient) call(method, at, path, token, body string) ([]byte, error) {
	req, err := http.NewRequest(method, "http://"+at+path, bytes.NewBufferString(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Consul-Token", token)
	client := &http.Client{Timeout: 2 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // test
	out, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %d %s", method, path, res.StatusCode, out)
	}
	return out, err
}

func (r *realClient) manage(method, path, body string, v any) {
	r.t.Helper()
	r.await(func() error {
		out, err := r.call(method, r.server, path, testToken, body)
		if err != nil && (strings.Contains(err.Error(), "already exists") || method == http.MethodDelete && strings.Contains(err.Error(), "not found")) {
			return nil // an earlier try did it, and its answer was late
		}
		if err == nil && v != nil {
			err = json.Unmarshal(out, v)
		}
		return err
	})
}

type aclToken struct{ AccessorID, SecretID string }

// token makes one with the rights of the node.
func (r *realClient) token() aclToken {
	r.t.Helper()
	var out aclToken
	r.manage("PUT", "/v1/acl/token", `{"Policies":[{"Name":"agent"}],"ExpirationTTL":"15m"}`, &out)
	return out
}

func (r *realClient) delete(token aclToken) {
	r.manage("DELETE", "/v1/acl/token/"+token.AccessorID, "", nil)
}

func (r *realClient) pid() int {
	return childPID(r.t, filepath.Join(r.dir, "run/consul/consul.json"))
}

// local is the address of the client agent's API.
func (r *realClient) local() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// TestTOK15_ConsulTakesNewCredentialsWithoutRestart: the old token is deleted, and the
// same process goes on registering what changes; a new gossip key alone changes nothing
// that runs.
func TestTOK15_ConsulTakesNewCredentialsWithoutRestart(t *testing.T) {
	r := newRealClient(t, 105)
	first := r.token()
	r.settings.AgentToken = first.SecretID
	r.consul.Configure(r.settings)
	awaitReady(t, r.consul, true)
	pid := r.pid()

	second := r.token()
	if err := r.consul.Knows(t.Context(), second.SecretID); err != nil {
		t.Fatal(err)
	}
	r.settings.AgentToken = second.SecretID
	r.settings.CertPEM, r.settings.KeyPEM = r.pki.leaf("client.dc1.consul")
	r.consul.Configure(r.settings)
	r.await(func() error { // it has read its configuration again
		_, err := r.call("PUT", r.local(), "/v1/agent/maintenance?enable=false", second.SecretID, "")
		return err
	})
	r.delete(first)
	// A change of the node's that only the agent itself may bring to the catalog.
	if _, err := r.call("PUT", r.local(), "/v1/agent/maintenance?enable=true&reason=rotation", second.SecretID, ""); err != nil {
		t.Fatal(err)
	}
	r.await(func() error {
		out, err := r.call("GET", r.server, "/v1/health/node/web-0", testToken, "")
		if err == nil && !bytes.Contains(out, []byte("rotation")) {
			err = errors.New("the change is not in the catalog: the agent does not sync with its new token")
		}
		return err
	})

	other := make([]byte, 32)
	if _, err := rand.Read(other); err != nil {
		t.Fatal(err)
	}
	r.settings.GossipKey = base64.StdEncoding.EncodeToString(other)
	third := r.token()
	r.settings.AgentToken = third.SecretID
	r.consul.Configure(r.settings)
	r.delete(second)
	if _, err := r.call("PUT", r.local(), "/v1/agent/maintenance?enable=false", third.SecretID, ""); err != nil {
		t.Fatal(err)
	}
	r.await(func() error {
		out, err := r.call("GET", r.server, "/v1/health/node/web-0", testToken, "")
		if err == nil && bytes.Contains(out, []byte("rotation")) {
			err = errors.New("the agent does not sync any more")
		}
		return err
	})
	if now := r.pid(); now != pid {
		t.Errorf("the agent was restarted: pid %d, was %d", now, pid)
	}
	written, err := os.ReadFile(filepath.Join(r.dir, "run/consul/consul.json"))
	if err != nil || !bytes.Contains(written, []byte(r.settings.GossipKey)) {
		t.Errorf("the next start would use the old gossip key (%v)", err)
	}
}

// TestTOK04_RevokedTokenEndsInACutOffAgent: a token is revoked and the client is cut
// off from the servers in the same moment. What its agent judges by itself stops
// working within the life of its cache.
func TestTOK04_RevokedTokenEndsInACutOffAgent(t *testing.T) {
	r := newRealClient(t, 106)
	own, workload := r.token(), r.token()
	r.settings.AgentToken = own.SecretID
	r.consul.Configure(r.settings)
	awaitReady(t, r.consul, true)
	use := func() error { _, err := r.call("GET", r.local(), "/v1/agent/self", workload.SecretID, ""); return err }
	r.await(use)
	server := childPIDAt(t, r.server)
	r.delete(workload)
	pause(t, server, true)
	revoked := time.Now()
	defer pause(t, server, false)
	last := time.Duration(0)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for time.Since(revoked) < 15*time.Second {
		if use() == nil {
			last = time.Since(revoked)
		}
		<-tick.C
	}
	t.Logf("last accepted use %v after the revocation", last.Round(100*time.Millisecond))
	if last > 6*time.Second {
		t.Errorf("a revoked token was accepted %v later", last)
	}
}

// TestTOK04_RevokedTokenEndsAtTheServersAtOnce: records and sessions are judged by
// the servers, who know.
func TestTOK04_RevokedTokenEndsAtTheServersAtOnce(t *testing.T) {
	r := newRealClient(t, 107)
	own := r.token()
	r.settings.AgentToken = own.SecretID
	r.consul.Configure(r.settings)
	awaitReady(t, r.consul, true)
	var workload aclToken
	r.manage("PUT", "/v1/acl/policy", `{"Name":"w","Rules":"key_prefix \"service/\" { policy = \"write\" }"}`, nil)
	r.manage("PUT", "/v1/acl/token", `{"Policies":[{"Name":"w"}]}`, &workload)
	put := func() error {
		_, err := r.call("PUT", r.local(), "/v1/kv/service/x", workload.SecretID, "v")
		return err
	}
	r.await(put)
	r.delete(workload)
	if err := put(); err == nil {
		t.Error("a revoked token still writes")
	}
}

// childPIDAt finds the server whose API is at the address.
func childPIDAt(t *testing.T, api string) int {
	t.Helper()
	host, _, err := net.SplitHostPort(api)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("consul.json")) {
			continue
		}
		args := bytes.Split(line, []byte{0})
		config, err := os.ReadFile(string(args[len(args)-2]))
		if err == nil && bytes.Contains(config, []byte(host+`"`)) && bytes.Contains(config, []byte(`"server":true`)) {
			var pid int
			if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err == nil {
				return pid
			}
		}
	}
	t.Fatal("the server does not run")
	return 0
}

func pause(t *testing.T, pid int, stop bool) {
	t.Helper()
	s := syscall.SIGCONT
	if stop {
		s = syscall.SIGSTOP
	}
	if err := syscall.Kill(pid, s); err != nil {
		t.Error(err)
	}
}
