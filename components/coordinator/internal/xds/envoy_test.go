package xds_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/xds"
)

// bootstrap is the configuration of an Envoy: its identity, and its source of configuration. It has
// no token.
const bootstrap = `
admin: { address: { pipe: { path: %q } } }
node:
  id: web-sidecar-proxy
  cluster: web
  metadata: { node_name: web-0, namespace: default, partition: default }
dynamic_resources:
  lds_config: { ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s }
  cds_config: { ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s }
  ads_config: { api_type: DELTA_GRPC, transport_api_version: V3, grpc_services: { envoy_grpc: { cluster_name: coordinators } } }
static_resources:
  clusters:
  - name: coordinators
    type: STATIC
    connect_timeout: 5s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
    load_assignment:
      cluster_name: coordinators
      endpoints: [ { lb_endpoints: [ { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: %d } } } } ] } ]
`

// envoyProgram finds the program below .tools of this repository or on PATH.
func envoyProgram(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if at := filepath.Join(dir, ".tools/bin/envoy"); exec.CommandContext(t.Context(), at, "--version").Run() == nil {
			return at
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	at, err := exec.LookPath("envoy")
	if err != nil {
		t.Fatal("envoy is neither in .tools/bin nor on PATH: make tools gets it")
	}
	return at
}

// TestDOR08_ARealEnvoyIsConfigured: Envoy works as its Slot's proxy: it listens, with a certificate
// of its service, and has no token.
func TestDOR08_ARealEnvoyIsConfigured(t *testing.T) {
	program := envoyProgram(t)
	w := newWorld(t, xds.Limits{})
	m := w.member("web", "web-0", "127.0.0.1")
	w.register(fmt.Sprintf(`{"Node":"web-0","Address":"127.0.0.1","Service":{"Kind":"connect-proxy","ID":"web-sidecar-proxy","Service":"web-sidecar-proxy","Port":%d,"Address":"127.0.0.1",
		"Proxy":{"DestinationServiceName":"web","DestinationServiceID":"web","LocalServiceAddress":"127.0.0.1","LocalServicePort":8080}}}`, freePort(t)))
	admin := filepath.Join(t.TempDir(), "admin")
	config := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, bootstrap, admin, w.consulProxy(m.caller)), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	cmd := exec.Command(program, "-c", config, "--concurrency", "1", "--use-dynamic-base-id", "-l", "warn")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Log(log)
		}
	})
	asked := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", admin)
	}}}
	eventually(t, ended, asked, "/listeners", "public_listener")
	eventually(t, ended, asked, "/certs", "/ns/default/dc/dc1/svc/web")
	if shown := eventually(t, ended, asked, "/config_dump", "local_app"); strings.Contains(shown, "x-consul-token") {
		t.Error("Envoy has a token")
	}
}

// consulProxy returns a port of this machine whose connections reach the relay with the caller's
// name.
func (w *world) consulProxy(c xds.Caller) int {
	w.t.Helper()
	listener, err := new(net.ListenConfig).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	w.closed.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.closed.Go(func() { w.relay.Serve(ctx, c, conn) })
		}
	})
	w.t.Cleanup(func() { cancel(); _ = listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// eventually returns a page of Envoy once it contains want.
func eventually(t *testing.T, ended <-chan struct{}, client *http.Client, page, want string) string {
	t.Helper()
	deadline, tick := time.NewTimer(30*time.Second), time.NewTicker(50*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for {
		text, err := read(t, client, page)
		if err == nil && strings.Contains(text, want) {
			return text
		}
		select {
		case <-ended:
			t.Fatalf("envoy ended; %s: %v", page, err)
		case <-deadline.C:
			t.Fatalf("%s has no %q: %v\n%.2000s", page, want, err, text)
		case <-tick.C:
		}
	}
}

func read(t *testing.T, client *http.Client, page string) (string, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://admin"+page, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}
