package supervise

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/core/group"
)

const testToken = "11111111-2222-3333-4444-555555555555"

func consulBinary(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, ".tools/bin/consul")
		if _, err := os.Stat(at); err == nil {
			return at
		}
	}
	if at, err := exec.LookPath("consul"); err == nil {
		return at
	}
	t.Skip("consul is neither in .tools/bin nor on PATH: the supervisor was not tested against the real software")
	return ""
}

// pki is one CA and its leaves.
type pki struct {
	t   *testing.T
	key *ecdsa.PrivateKey
	ca  *x509.Certificate
	pem []byte
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &pki{t: t, key: key}
	p.ca = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, p.ca, p.ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	p.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return p
}

func (p *pki) leaf(names ...string) (cert, key []byte) {
	p.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, private.Public(), p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		p.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}

// startServer runs one server with gossip encryption, TLS both ways and ACLs.
func startServer(t *testing.T, binary string, p *pki, at, gossip string) {
	t.Helper()
	dir := t.TempDir()
	cert, key := p.leaf("server.dc1.consul")
	for name, data := range map[string][]byte{"ca.pem": p.pem, "cert.pem": cert, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := json.Marshal(map[string]any{
		"node_name": "coordinator-0", "server": true, "bootstrap_expect": 1, "data_dir": filepath.Join(dir, "data"),
		"bind_addr": at, "client_addr": at, "encrypt": gossip, "disable_update_check": true,
		"ports": map[string]int{"dns": -1, "grpc": -1, "grpc_tls": -1, "serf_wan": -1},
		"acl": map[string]any{"enabled": true, "default_policy": "deny",
			"tokens": map[string]string{"initial_management": testToken, "agent": testToken}},
		"tls": map[string]any{
			"defaults":     map[string]any{"ca_file": dir + "/ca.pem", "cert_file": dir + "/cert.pem", "key_file": dir + "/key.pem"},
			"internal_rpc": map[string]any{"verify_incoming": true, "verify_outgoing": true, "verify_server_hostname": true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "consul.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "agent", "-config-file", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

func TestConsulClientReal(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Consul server and a client")
	}
	binary := consulBinary(t)
	pid := os.Getpid()
	addr := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 104, byte(pid), n}) }
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	gossip := base64.StdEncoding.EncodeToString(key)
	p := newPKI(t)
	startServer(t, binary, p, addr(1).String(), gossip)

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	dir := t.TempDir()
	c := NewConsul(Config{
		Binary: binary, StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), HTTPPort: port,
		Output: io.Discard, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	cert, certKey := p.leaf("web-0")
	settings := Settings{
		NodeName: "web-0", NodeID: group.NodeID("demo", "web-0"), Address: addr(2), Datacenter: "dc1", GossipKey: gossip, AgentToken: testToken,
		CAPEM: p.pem, CertPEM: cert, KeyPEM: certKey, ServerVIPs: []string{addr(1).String()},
	}
	c.Configure(settings)
	awaitReady(t, c, true)

	id := nodeID(t, port)
	if id != settings.NodeID {
		t.Errorf("node id = %s, want the slot's, %s", id, settings.NodeID)
	}
	if st, err := os.Stat(filepath.Join(dir, "run/consul/consul.json")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode of the configuration = %v, %v; want 0600", st.Mode(), err)
	}
	if found := grep(t, filepath.Join(dir, "state"), gossip, testToken); found != "" {
		t.Errorf("%s on the preserved disk holds a secret", found)
	}

	child := childPID(t, filepath.Join(dir, "run/consul/consul.json"))
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, c, false)
	awaitReady(t, c, true)
	if again := nodeID(t, port); again != id {
		t.Errorf("node id after a restart = %s, want %s", again, id)
	}

	child = childPID(t, filepath.Join(dir, "run/consul/consul.json"))
	settings.CertPEM, settings.KeyPEM = p.leaf("web-0")
	c.Configure(settings)
	awaitReady(t, c, true)
	if now := childPID(t, filepath.Join(dir, "run/consul/consul.json")); now != child {
		t.Errorf("renewed certificates restarted the agent: pid %d, want %d", now, child)
	}

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(child, 0); err == nil {
		t.Error("the agent outlived its supervisor")
	}
}

func awaitReady(t *testing.T, c *Consul, want bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		ready, index := c.Ready().Get()
		if ready == want {
			return
		}
		if _, _, err := c.Ready().Wait(ctx, index); err != nil {
			t.Fatalf("ready = %t, want %t", ready, want)
		}
	}
}

func nodeID(t *testing.T, port int) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+"/v1/agent/self", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Consul-Token", testToken)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // test
	var self struct{ Config struct{ NodeID string } }
	if err := json.NewDecoder(res.Body).Decode(&self); err != nil || self.Config.NodeID == "" {
		t.Fatalf("node id = %q, %v", self.Config.NodeID, err)
	}
	return self.Config.NodeID
}

// childPID finds the process that runs with the configuration file.
func childPID(t *testing.T, file string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.Contains(string(line), file) {
			return pid
		}
	}
	t.Fatal("no agent runs")
	return 0
}

// grep names a file below dir that holds one of the texts.
func grep(t *testing.T, dir string, texts ...string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, text := range texts {
			if strings.Contains(string(data), text) {
				found = path
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
