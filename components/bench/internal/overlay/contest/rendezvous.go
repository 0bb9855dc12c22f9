package contest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"cadre.dev/bench/internal/overlay/baseline"
	"cadre.dev/bench/internal/overlay/ours"
	"cadre.dev/lab/worker"
)

// Ports of the rendezvous.
const (
	rendezvousPort = 8443
	stunPort       = 3478
)

// rendezvous runs the rendezvous server's own program at a site and returns when it accepts
// connections. Without that program, measurements that need it are not available.
func (r *rig) rendezvous(ctx context.Context, s site) ([]ours.Rendezvous, error) {
	if _, err := os.Stat(r.program); err != nil {
		return nil, fmt.Errorf("rendezvous: %w: %s is not built", worker.ErrUnavailable, r.program)
	}
	dir, err := os.MkdirTemp("", "cadre-bench-rendezvous-")
	if err != nil {
		return nil, fmt.Errorf("start rendezvous: %w", err)
	}
	r.also(func() error { return os.RemoveAll(dir) })
	pair, err := r.ca.IssueAddress(s.addr)
	if err != nil {
		return nil, err
	}
	roots := filepath.Join(dir, "roots")
	if err := os.Mkdir(roots, 0o700); err != nil {
		return nil, fmt.Errorf("start rendezvous: %w", err)
	}
	cert, key := filepath.Join(dir, "tls.pem"), filepath.Join(dir, "tls.key")
	for name, content := range map[string][]byte{filepath.Join(roots, cluster+".pem"): r.ca.Roots, cert: pair.Certificate, key: pair.Key} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, fmt.Errorf("start rendezvous: %w", err)
		}
	}
	address := netip.AddrPortFrom(s.addr, rendezvousPort).String()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.program,
		"--listen", address, "--stun", netip.AddrPortFrom(s.addr, stunPort).String(),
		"--relay-ip", s.addr.String(), "--allow-private-relay", "--admin", "", "--drain", "100ms", "--roots", roots, "--tls-cert", cert, "--tls-key", key)
	cmd.Stderr = r.log
	if err := s.at.Start(cmd); err != nil {
		return nil, fmt.Errorf("start rendezvous: %w", err)
	}
	r.also(func() error { return end(cmd) })
	// Any process of the site can check that it listens.
	probe, err := r.start(ctx, s.at, "app", baseline.AppConfig{})
	if err != nil {
		return nil, err
	}
	if err := probe.Call(ctx, "reach", baseline.Reach{To: address, Within: linkTime}, nil); err != nil {
		return nil, fmt.Errorf("start rendezvous: %w", err)
	}
	return []ours.Rendezvous{{URL: "https://" + address, CA: r.ca.Roots}}, nil
}

// end stops a program that is not a worker. It kills a slow program, whose end is not measured.
func end(cmd *exec.Cmd) error {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	overdue := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if overdue.Stop() && err != nil && cmd.ProcessState.ExitCode() > 0 {
		return fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}
