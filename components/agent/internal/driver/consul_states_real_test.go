package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/core/group"
)

// aloneConsul starts a set of one server.
func aloneConsul(t *testing.T, kind byte, more map[string]any) (*proc, netip.Addr) {
	t.Helper()
	addr := subnet(t, kind)
	more["bootstrap_expect"], more["retry_join"] = 1, []string{}
	return startConsulWith(t, addr, 0, t.TempDir(), more), addr(0)
}

// TestAHangingConsulIsNotTakenForDead: a stopped process answers nothing, which proves nothing; a
// refused connection proves that no process listens.
func TestAHangingConsulIsNotTakenForDead(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a Consul server")
	}
	p, at := aloneConsul(t, 9, map[string]any{})
	d := consulDriver(t, 0, map[string]string{"http_addr": at.String() + ":8500"})
	ready := func(v View) bool { return v.Ready && v.Liveness == LivenessAlive && v.MayDisrupt }
	sees(t, d, "form", ready)
	pid := p.cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	sees(t, d, "no answer", noAnswer)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	sees(t, d, "answer again", ready)
	p.stop()
	v, err := d.Observe(t.Context())
	if err != nil || v.Liveness != LivenessRefused || v.MayDisrupt || !strings.Contains(v.Message, "refused") {
		t.Errorf("ended: %+v, %v", v, err)
	}
}

// TestAConsulThatAsksForATokenLives, with any token of the driver, and the reason names the
// missing setting.
func TestAConsulThatAsksForATokenLives(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a Consul server")
	}
	const management, expired = "7b1d3f8a-2c54-4b1e-9d0e-111111111111", "7b1d3f8a-2c54-4b1e-9d0e-222222222222"
	_, at := aloneConsul(t, 10, map[string]any{
		"acl": map[string]any{"enabled": true, "default_policy": "deny", "tokens": map[string]string{"initial_management": management}},
	})
	settings := func(token string) map[string]string {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return map[string]string{"http_addr": at.String() + ":8500", "token_file": file}
	}
	ready := func(v View) bool { return v.Ready && v.MayDisrupt }
	sees(t, consulDriver(t, 0, settings(management)), "form", ready)
	refused := func(v View) bool {
		return v.Liveness == LivenessAlive && !v.Ready && !v.MayDisrupt && strings.Contains(v.Message, "token_file")
	}
	sees(t, consulDriver(t, 0, map[string]string{"http_addr": at.String() + ":8500"}), "no token", refused)
	sees(t, consulDriver(t, 0, settings(expired)), "a token that is no more", refused)
	sees(t, consulDriver(t, 0, map[string]string{"http_addr": at.String() + ":8500", "token_file": "/nonexistent/token"}), "no file", refused)

	// The token has exactly the rules that the field reference lists.
	token := func(rules string) string {
		header := http.Header{"X-Consul-Token": {management}}
		var policy struct{ ID string }
		var made struct{ SecretID string }
		ask := func(path string, body, v any) {
			within(t, 10*time.Second, path, func(ctx context.Context) error {
				status, answer, err := call(ctx, newRESTClient(nil), http.MethodPut, "http://"+at.String()+":8500"+path, header, body)
				if err != nil || status != http.StatusOK {
					return fmt.Errorf("%d %s: %w", status, answer, err)
				}
				return json.Unmarshal(answer, v)
			})
		}
		ask("/v1/acl/policy", map[string]any{"Name": fmt.Sprintf("p-%d", len(rules)), "Rules": rules}, &policy)
		ask("/v1/acl/token", map[string]any{"Policies": []map[string]string{{"ID": policy.ID}}}, &made)
		return made.SecretID
	}
	d := consulDriver(t, 0, settings(token(group.ConsulDriverRules)))
	sees(t, d, "the documented rules", ready)
	if err := d.Drain(t.Context()); err != nil {
		t.Errorf("drain by the documented rules: %v", err)
	}
	without := strings.Replace(group.ConsulDriverRules, `agent_prefix "" { policy = "read" } `, "", 1)
	sees(t, consulDriver(t, 0, settings(token(without))), "rules without agent_prefix", refused)
}

// TestAConsulWithTLSLives, with any certificates of the driver.
func TestAConsulWithTLSLives(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a Consul server")
	}
	a := newAuthority(t)
	cert, key := a.issue("server", subnet(t, 11)(0))
	mine, myKey := a.issue("agent")
	_, at := aloneConsul(t, 11, map[string]any{
		"ports": map[string]int{"dns": -1, "grpc": -1, "grpc_tls": -1, "serf_wan": -1, "http": -1, "https": 8501},
		"tls":   map[string]any{"https": map[string]any{"ca_file": a.ca, "cert_file": cert, "key_file": key, "verify_incoming": true}},
	})
	https := at.String() + ":8501"
	d := consulDriver(t, 0, map[string]string{"http_addr": https, "ca_file": a.ca, "cert_file": mine, "key_file": myKey})
	sees(t, d, "form", func(v View) bool { return v.Ready && v.MayDisrupt })
	if err := d.Drain(t.Context()); err != nil {
		t.Errorf("drain: %v", err)
	}
	for name, settings := range map[string]map[string]string{
		"without TLS":       {"http_addr": https},
		"another authority": {"http_addr": https, "ca_file": newAuthority(t).ca, "cert_file": mine, "key_file": myKey},
		"no certificate":    {"http_addr": https, "ca_file": a.ca},
	} {
		sees(t, consulDriver(t, 0, settings), name, noTLS)
	}
}
