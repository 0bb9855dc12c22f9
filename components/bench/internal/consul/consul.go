// Package consul runs a real Consul server with ACLs for a benchmark.
package consul

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"cadre.dev/lab/worker"
	"cadre.dev/store/localconsul"
)

// Server is a running Consul server. It ends with this process, however that ends.
type Server struct {
	// Address of the HTTP API, host:port.
	Address string
	// Token may do everything.
	Token string

	pid    int
	kill   func()
	exited chan struct{}
	once   sync.Once
}

// Start runs a server on free ports, with its data and its log in dir. Its settings are a
// coordinator's, except for TLS and gossip, for which it has no peer.
func Start(ctx context.Context, binary, dir string) (*Server, error) {
	var err error
	for range 3 { // a port may be lost to another process
		var s *Server
		if s, err = startOnce(ctx, binary, dir); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("start consul: %w", err)
}

func startOnce(ctx context.Context, binary, dir string) (*Server, error) {
	dir, err := os.MkdirTemp(dir, "consul-")
	if err != nil {
		return nil, err
	}
	ports, err := localconsul.FreePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	token, err := uuid.NewRandomFromReader(rand.Reader)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "config.json")
	config, err := json.Marshal(document(ports, token.String()))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	s := &Server{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), Token: token.String(), exited: make(chan struct{})}
	if err := s.run(ctx, log, binary, "agent", "-config-file="+file, "-data-dir="+filepath.Join(dir, "data")); err != nil {
		return nil, err
	}
	if err := localconsul.AwaitReady(ctx, s.Address, s.Token, s.exited); err != nil {
		s.Stop()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w\n%s", err, text[max(0, len(text)-2048):])
	}
	return s, nil
}

func document(ports []int, token string) map[string]any {
	return map[string]any{
		"server": true, "bootstrap_expect": 1, "node_name": "coordinator-0", "log_level": "WARN",
		"bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "leave_on_terminate": false, "disable_update_check": true,
		"performance": map[string]any{"raft_multiplier": 1},
		"limits":      map[string]any{"http_max_conns_per_client": 1000},
		"ports": map[string]int{
			"http": ports[0], "server": ports[1], "serf_lan": ports[2], "serf_wan": -1,
			"dns": -1, "grpc": -1, "grpc_tls": -1, "https": -1,
		},
		"acl": map[string]any{
			"enabled": true, "default_policy": "deny", "enable_token_persistence": false, "down_policy": "deny",
			"token_ttl": "5s", "policy_ttl": "5s", "role_ttl": "5s",
			"tokens": map[string]string{"initial_management": token, "agent": token},
		},
	}
}

// run starts the command from a thread that lives as long as it does: the kernel ends
// the command when that thread ends, and so with this process.
func (s *Server) run(ctx context.Context, output *os.File, command ...string) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = output, output
		// An interrupt at the terminal is for the benchmark, which stops the server itself.
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		err := cmd.Start()
		if err == nil {
			s.pid, s.kill = cmd.Process.Pid, func() { _ = cmd.Process.Kill() }
		}
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(s.exited)
	}()
	return <-started
}

// CPU is the server's CPU time so far.
func (s *Server) CPU() (time.Duration, error) {
	used, err := worker.CPUOf(s.pid)
	if err != nil {
		return 0, fmt.Errorf("read CPU time of consul: %w", err)
	}
	return used, nil
}

// Stop ends the server and waits for its end.
func (s *Server) Stop() {
	s.once.Do(s.kill)
	<-s.exited
}
