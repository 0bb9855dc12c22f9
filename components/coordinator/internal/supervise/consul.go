package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"cadre.dev/core/secret"
)

// Back-off between starts, and the time limit of a stopping server.
const (
	minBackoff  = 500 * time.Millisecond
	maxBackoff  = 15 * time.Second
	stableAfter = 30 * time.Second
	stopTimeout = 10 * time.Second
	// renewEvery is a third of the certificate's life (keys.LeafTTL).
	renewEvery = 20 * time.Minute
)

// IssueTLS makes a fresh certificate and key for Consul's internal RPC.
type IssueTLS func(now time.Time) (certPEM, keyPEM []byte, err error)

// Consul supervises one server.
type Consul struct {
	cfg   Config
	issue IssueTLS
	log   *slog.Logger

	again chan struct{} // capacity 1: restart the server

	mu     sync.Mutex
	gossip secret.Value // guarded by mu; the key of the next start
	child  *os.Process  // guarded by mu; nil while none runs
	// token is the server's own token; guarded by mu.
	token secret.Value
	// restarts counts starts after the first; guarded by mu.
	restarts int
}

// New prepares a supervisor; nothing is written or started before Run.
func New(cfg Config, issue IssueTLS, log *slog.Logger) *Consul {
	return &Consul{cfg: cfg, issue: issue, log: log, gossip: cfg.GossipKey, again: make(chan struct{}, 1)}
}

// Restarts returns how often the server was restarted.
func (c *Consul) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restarts
}

// UseGossip makes key the key of the next start. A running server changes its key only through the
// cluster's keyring, and an unneeded restart would cost the cluster a voter. Set restart for a
// server that cannot join with its current key.
func (c *Consul) UseGossip(key secret.Value, restart bool) error {
	c.mu.Lock()
	before := c.gossip
	c.gossip = key
	c.mu.Unlock()
	if before.Equal(key) {
		return nil
	}
	if err := c.prepare(); err != nil {
		c.mu.Lock()
		c.gossip = before // otherwise the next call would find no change
		c.mu.Unlock()
		return err
	}
	if restart {
		select {
		case c.again <- struct{}{}:
		default:
		}
	}
	return nil
}

// Run keeps the server running until ctx ends. Then it stops the server without leaving the raft
// set, and returns when the process is gone.
func (c *Consul) Run(ctx context.Context) error {
	// The parent-death signal is bound to the thread that starts the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.prepare(); err != nil {
		return err
	}
	var renewals sync.WaitGroup
	defer renewals.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	renewals.Go(func() { c.renew(ctx) })

	backoff := minBackoff
	for {
		started := time.Now()
		err := c.runOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errAgain) {
			c.log.Info("consul server restarts with another gossip key")
			continue
		}
		if time.Since(started) > stableAfter {
			backoff = minBackoff
		}
		c.log.Warn("consul server ended, it restarts", "error", err, "backoff", backoff)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff):
		}
		backoff = min(backoff*2, maxBackoff)
		c.mu.Lock()
		c.restarts++
		c.mu.Unlock()
	}
}

// prepare writes configuration and certificates.
func (c *Consul) prepare() error {
	for _, dir := range []string{c.cfg.DataDir, c.cfg.RunDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make consul directory: %w", err)
		}
	}
	if err := c.writeTLS(); err != nil {
		return err
	}
	if err := c.write("ca.pem", c.cfg.CAPEM); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writeConfigLocked()
}

func (c *Consul) writeConfigLocked() error {
	cfg := c.cfg
	cfg.GossipKey = c.gossip
	doc, err := cfg.document(c.token)
	if err != nil {
		return fmt.Errorf("encode consul configuration: %w", err)
	}
	return c.write("consul.json", doc)
}

// SetAgentToken sets the server's token for its next start or reload. A running server gets it
// through its API.
func (c *Consul) SetAgentToken(token secret.Value) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token
	return c.writeConfigLocked()
}

func (c *Consul) writeTLS() error {
	cert, key, err := c.issue(time.Now())
	if err != nil {
		return err
	}
	return c.write("consul.pem", cert, "consul-key.pem", key)
}

// write replaces files atomically; pairs of name and content.
func (c *Consul) write(pairs ...any) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		path := filepath.Join(c.cfg.RunDir, pairs[i].(string))
		if err := os.WriteFile(path+".new", pairs[i+1].([]byte), 0o600); err != nil {
			return fmt.Errorf("write consul file: %w", err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			return fmt.Errorf("replace consul file: %w", err)
		}
	}
	return nil
}

// runOnce starts the server and waits for its end.
func (c *Consul) runOnce(ctx context.Context) error {
	//nolint:noctx // it is ended by SIGTERM below; a context would kill it in the middle of a write
	cmd := exec.Command(c.cfg.Binary, "agent", "-config-file="+c.cfg.file("consul.json"))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	// The coordinator's environment has the platform's API key (TOK-09), so the server gets its
	// own.
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent"}
	// The server must not outlive a killed coordinator: otherwise its lease would.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start consul: %w", err)
	}
	c.log.Info("consul server started", "pid", cmd.Process.Pid)
	c.setChild(cmd.Process)
	defer c.setChild(nil)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var why error
	select {
	case err := <-ended:
		if err == nil {
			err = errors.New("exited with status 0")
		}
		return fmt.Errorf("consul: %w", err)
	case <-c.again:
		why = errAgain
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(stopTimeout):
		_ = cmd.Process.Kill()
		<-ended
	}
	return cmp.Or(ctx.Err(), why)
}

// errAgain ends a server that must restart with another configuration.
var errAgain = errors.New("started again")

func (c *Consul) setChild(p *os.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.child = p
}

// renew replaces the certificate well before it expires; SIGHUP makes Consul read it.
func (c *Consul) renew(ctx context.Context) {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := c.writeTLS(); err != nil {
			c.log.Error("consul certificate not renewed", "error", err)
			continue
		}
		c.mu.Lock()
		if c.child != nil {
			_ = c.child.Signal(syscall.SIGHUP)
		}
		c.mu.Unlock()
	}
}
