package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"syscall"
	"time"

	"cadre.dev/agent/internal/latest"
)

const (
	restartFirst = 500 * time.Millisecond
	restartMax   = 10 * time.Second
	// steady is how long a run must last for the back-off to start anew.
	steady = time.Minute
)

// Config makes a Consul. All fields are required.
type Config struct {
	Binary   string
	StateDir string
	RunDir   string
	// HTTPPort is 8500 except in tests.
	HTTPPort int
	// Output takes the child's own log lines.
	Output io.Writer
	Log    *slog.Logger
}

// Consul supervises the client agent. Safe for concurrent use.
type Consul struct {
	cfg      Config
	settings latest.Value[*Settings]
	ready    latest.Value[bool]
	http     *http.Client
}

// RunDir is the folder below runDir that keys and configuration are written to.
func RunDir(runDir string) string { return filepath.Join(runDir, "consul") }

// NewConsul starts nothing before Configure and Run.
func NewConsul(cfg Config) *Consul {
	return &Consul{cfg: cfg, http: &http.Client{Timeout: 2 * time.Second}}
}

// Configure sets what the agent runs with. Renewed credentials are reloaded,
// anything else restarts the child.
func (c *Consul) Configure(s Settings) {
	if old, _ := c.settings.Get(); old == nil || !old.equal(s) {
		c.settings.Set(&s)
	}
}

// Ready is true while the child is joined and a leader answers through it.
func (c *Consul) Ready() *latest.Value[bool] { return &c.ready }

// Run keeps the child running until ctx ends; then the child is gone too.
func (c *Consul) Run(ctx context.Context) error {
	settings, index, err := c.settings.Wait(ctx, 0)
	if err != nil {
		return nil //nolint:nilerr // only ctx ends it
	}
	pause := restartFirst
	for ctx.Err() == nil {
		began := time.Now()
		settings, index, err = c.runOnce(ctx, settings, index)
		c.setReady(false)
		if time.Since(began) > steady || err == nil {
			pause = restartFirst
		}
		if err == nil {
			continue // new settings, or ctx ended
		}
		c.cfg.Log.Warn("consul agent ended and is started again", "pause", pause, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, restartMax)
	}
	return nil
}

// runOnce runs one child until it ends (an error), settings need another one
// (nil), or ctx ends. It returns the settings to go on with.
func (c *Consul) runOnce(ctx context.Context, settings *Settings, index uint64) (*Settings, uint64, error) {
	runDir := RunDir(c.cfg.RunDir)
	dataDir := filepath.Join(c.cfg.StateDir, "consul")
	file, err := settings.write(runDir, dataDir, c.cfg.HTTPPort)
	if err != nil {
		return settings, index, err
	}
	child, err := start([]string{c.cfg.Binary, "agent", "-config-file", file}, c.cfg.Output)
	if err != nil {
		return settings, index, err
	}
	defer child.stop(context.WithoutCancel(ctx))
	c.cfg.Log.Info("consul agent started", "slot", settings.NodeName, "servers", settings.ServerVIPs)
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return settings, index, nil
		case <-child.done:
			return settings, index, fmt.Errorf("consul agent: %w", child.exit())
		case <-c.settings.Changed(index):
			next, now := c.settings.Get()
			if !settings.reloadable(*next) {
				return next, now, nil
			}
			settings, index = next, now
			if _, err := settings.write(runDir, dataDir, c.cfg.HTTPPort); err != nil {
				return settings, index, err
			}
			child.signal(syscall.SIGHUP)
			c.cfg.Log.Info("consul agent reloads renewed credentials", "slot", settings.NodeName)
		case <-tick.C:
			const soon, calm = 50 * time.Millisecond, 2 * time.Second
			ok := c.probe(ctx, settings.AgentToken)
			c.setReady(ok)
			if ok {
				tick.Reset(calm)
			} else {
				tick.Reset(soon)
			}
		}
	}
}

func (p *process) exit() error {
	if p.err != nil {
		return p.err
	}
	return fmt.Errorf("ended with code 0")
}

func (c *Consul) setReady(ok bool) {
	if was, _ := c.ready.Get(); was != ok {
		c.ready.Set(ok)
		c.cfg.Log.Info("consul agent changed", "ready", ok)
	}
}

// probe asks the agent about itself and, through it, for the cluster's leader.
func (c *Consul) probe(ctx context.Context, token string) bool {
	var leader string
	return c.get(ctx, "/v1/agent/self", token, nil) && c.get(ctx, "/v1/status/leader", token, &leader) && leader != ""
}

// Bounds on how long servers may lag behind the issue of a token, and how often they
// are asked meanwhile (TOK-13).
const (
	knowLimit = 10 * time.Second
	knowEvery = 200 * time.Millisecond
)

// Knows returns once the servers know the token, by way of the running agent. "Not
// found" just after the issue is lag and is asked again, for a bound.
func (c *Consul) Knows(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, knowLimit)
	defer cancel()
	tick := time.NewTicker(knowEvery)
	defer tick.Stop()
	for !c.get(ctx, "/v1/acl/token/self", token, nil) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("consul does not know a new token after %v: %w", knowLimit, context.Cause(ctx))
		}
	}
	return nil
}

func (c *Consul) get(ctx context.Context, path, token string, v any) bool {
	url := fmt.Sprintf("http://127.0.0.1:%d%s", c.cfg.HTTPPort, path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	if token != "" {
		req.Header.Set("X-Consul-Token", token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close() //nolint:errcheck // bounded read below
	if res.StatusCode != http.StatusOK {
		return false
	}
	body := io.LimitReader(res.Body, 1<<20)
	if v == nil {
		_, err = io.Copy(io.Discard, body)
		return err == nil
	}
	return json.NewDecoder(body).Decode(v) == nil
}
