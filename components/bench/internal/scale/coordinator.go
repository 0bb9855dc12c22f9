package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/attest"
	"cadre.dev/bench/internal/cloud"
	"cadre.dev/bench/internal/world"
	"cadre.dev/coordinator"
	"cadre.dev/coordinator/coordinatortest"
	"cadre.dev/lab/worker"
	"cadre.dev/overlay"
)

// coordinatorName is the role of the measured processes.
const coordinatorName = "coordinator"

// coordinatorConfig of one.
type coordinatorConfig struct {
	Slot     string
	Replicas int
	// Dir has the trust file, StateDir and RunDir are the coordinator's own.
	Dir, StateDir, RunDir string
	Consul                string
	// Gateway is the address of the gateway, Guest and Cloud are sockets.
	Gateway, Guest, Cloud string
}

// health is the answer of /healthz.
type health struct {
	Slot    string `json:"slot"`
	Records bool   `json:"records"`
	Leader  string `json:"leader"`
	Term    uint64 `json:"term"`
	Halted  string `json:"halted"`
}

// memory of a process, in bytes.
type memory struct{ RSS, Live uint64 }

// raft is how far Consul's log has come.
type raft struct {
	Applied uint64
	// Peers are the other servers that are voters or become ones.
	Peers int
}

// nothing is for calls without arguments or results.
type nothing struct{}

// runCoordinator runs one as package coordinator does: "health", "memory", "raft", and
// "profile" of so many seconds into a file.
func runCoordinator(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	var cfg coordinatorConfig
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	trust, trustFile, err := attest.LoadTrust(filepath.Join(cfg.Dir, trustName))
	if err != nil {
		return worker.Actor{}, err
	}
	guest := attest.NewGuestClient(cfg.Guest)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("self", cfg.Slot)
	c, err := coordinator.New(coordinator.Config{
		Cluster: world.Cluster, Slot: cfg.Slot, Replicas: cfg.Replicas, Trust: trust, TrustFile: trustFile,
		Gateway: overlay.Gateway{Domain: world.Domain, Address: cfg.Gateway}, Paths: []overlay.PathKind{overlay.PathGateway},
		StateDir: cfg.StateDir, RunDir: cfg.RunDir, ConsulBinary: cfg.Consul, Version: "bench",
	}, coordinator.Deps{Guest: guest, Platform: cloud.NewClient(cfg.Cloud), Log: log})
	if err != nil {
		return worker.Actor{}, err
	}
	var token atomic.Pointer[string]
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Run(run); err != nil {
			log.Error("the coordinator ended", "error", err)
			os.Exit(1)
		}
	}()
	management := func(ctx context.Context) (string, error) {
		if token.Load() == nil {
			known, err := coordinatortest.ManagementToken(ctx, guest, world.Cluster, cfg.StateDir)
			if err != nil {
				return "", err
			}
			token.Store(&known)
		}
		return *token.Load(), nil
	}
	return worker.Actor{
		Close: func() { stop(); <-ended; guest.Close() },
		Methods: map[string]worker.Method{
			"health": worker.Typed(func(ctx context.Context, _ nothing) (out health, err error) {
				return out, get(ctx, "http://127.0.0.1:7070/healthz", "", &out)
			}),
			"memory": worker.Typed(func(context.Context, nothing) (memory, error) { return ownMemory() }),
			"raft": worker.Typed(func(ctx context.Context, _ nothing) (raft, error) {
				known, err := management(ctx)
				if err != nil {
					return raft{}, err
				}
				var self struct {
					Stats struct {
						Raft struct {
							Applied uint64 `json:"applied_index,string"`
							Peers   int    `json:"num_peers,string"`
						} `json:"raft"`
					}
				}
				err = get(ctx, "http://127.0.0.1:8500/v1/agent/self", known, &self)
				return raft{Applied: self.Stats.Raft.Applied, Peers: self.Stats.Raft.Peers}, err
			}),
			"profile": worker.Typed(func(ctx context.Context, p profile) (nothing, error) {
				known, err := management(ctx)
				if err != nil {
					return nothing{}, err
				}
				return nothing{}, p.take(ctx, known)
			}),
		},
	}, nil
}

// get asks a server of this machine.
func get(ctx context.Context, url, token string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	resp, err := ask(ctx, url, token)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return json.NewDecoder(resp.Body).Decode(out)
}

// ask is get for callers that read the answer; they must close its body.
func ask(ctx context.Context, url, token string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Consul-Token", token)
	return http.DefaultClient.Do(req)
}

// ownMemory is this process's memory, and the part of it in use.
func ownMemory() (memory, error) {
	runtime.GC() // the memory in use is known only after a collection
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return memory{}, err
	}
	var size, resident uint64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return memory{}, err
	}
	return memory{RSS: resident * uint64(os.Getpagesize()), Live: sample[0].Value.Uint64()}, nil
}

// profile records the CPU use of a coordinator and of its Consul server, by function.
type profile struct {
	// Path of the files, which get an ending each.
	Path    string
	Seconds int
}

func (p profile) take(ctx context.Context, token string) error {
	var consul sync.WaitGroup
	defer consul.Wait()
	failed := make(chan error, 1)
	consul.Go(func() { failed <- p.ofConsul(ctx, token) })
	file, err := os.Create(p.Path + ".pprof")
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	select {
	case <-time.After(time.Duration(p.Seconds) * time.Second):
	case <-ctx.Done():
	}
	pprof.StopCPUProfile()
	waits, err := os.Create(p.Path + "-waits.txt")
	if err != nil {
		return err
	}
	defer func() { _ = waits.Close() }()
	heap, err := os.Create(p.Path + "-heap.pprof")
	if err != nil {
		return err
	}
	defer func() { _ = heap.Close() }()
	return errors.Join(pprof.Lookup("goroutine").WriteTo(waits, 1), pprof.Lookup("heap").WriteTo(heap, 0), <-failed)
}

// ofConsul asks the server for its own.
func (p profile) ofConsul(ctx context.Context, token string) error {
	resp, err := ask(ctx, fmt.Sprintf("http://127.0.0.1:8500/debug/pprof/profile?seconds=%d", p.Seconds), token)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile consul: %s", resp.Status)
	}
	file, err := os.Create(p.Path + "-consul.pprof")
	if err != nil {
		return err
	}
	_, err = io.Copy(file, resp.Body)
	return errors.Join(err, file.Close())
}
