package envoy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/agent/internal/latestvalue"
)

// Version is the Envoy that this package is tested with.
const Version = "1.39.3"

const (
	// defaultStop leaves the connections of workloads two seconds to end.
	defaultStop = 3 * time.Second
	// defaultDrain is Envoy's own default. After it Envoy closes the connections of a changed
	// listener. A coordinator changes a listener whenever a certificate is renewed or a caller is
	// added or removed: a short time would cut the connections of all other callers each time.
	defaultDrain = 10 * time.Minute
)

// Proxy is a wanted proxy. All fields are required.
type Proxy struct {
	// ID is the proxy's id in Consul's catalog, Service the service behind it, and Node the Slot.
	ID, Service, Node string
}

// State of one proxy's Envoy.
type State string

const (
	// StateStarting is before it has its listeners.
	StateStarting State = "starting"
	StateLive     State = "live"
	// StateDraining accepts no new connections from other machines: the Envoy is about to end.
	// While its Slot drains, the Envoy stays live. Discovery keeps callers away, and a caller with
	// old data is better served than refused. Only a new start ends the draining of an Envoy.
	StateDraining State = "draining"
	// StateDown is without a process.
	StateDown State = "down"
)

// Status of one proxy's Envoy.
type Status struct {
	ID    string
	State State
	// Since is when the State began.
	Since time.Time
	// Restarts counts how often it was started again, by this process.
	Restarts int
	// Message names the fault, "" for none.
	Message string
	// PID is 0 while there is no process.
	PID int
}

// Config makes a Supervisor.
type Config struct {
	// Binary is the path of the program. Required. While the file is missing all Envoys are down
	// and report it.
	Binary string
	// RunDir is a folder on a tmpfs for this Supervisor alone. The Supervisor makes it. Its path
	// must be short enough for sockets below it. Required.
	RunDir string
	// XDS is where the agent's relay listens. Required.
	XDS netip.AddrPort
	// Log may be nil.
	Log *slog.Logger
	// DrainTime is how long connections continue after their listener was changed or removed;
	// StopWithin bounds the end of an Envoy. Zero means the default.
	DrainTime, StopWithin time.Duration
	// Leaves reports whether the Envoys are left running when Run's context ends for that
	// cause: another process of the same Boot takes them over. nil: never.
	Leaves func(cause error) bool

	// mortal ends the Envoys with this process, for tests.
	mortal bool
}

func (c *Config) leaves(cause error) bool { return c.Leaves != nil && c.Leaves(cause) }

// Supervisor keeps one Envoy for each proxy. Make it with [New]; safe for concurrent use.
type Supervisor struct {
	cfg     Config
	wanted  latestvalue.Value[map[string]Proxy] // nil: not known yet
	status  latestvalue.Value[[]Status]
	publish sync.Mutex

	mu      sync.Mutex
	keepers map[string]*keeper // guarded by mu
}

// New checks cfg; nothing runs yet.
func New(cfg Config) (*Supervisor, error) {
	if cfg.StopWithin == 0 {
		cfg.StopWithin = defaultStop
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.DrainTime == 0 {
		cfg.DrainTime = defaultDrain
	}
	var errs []error
	if !filepath.IsAbs(cfg.Binary) {
		errs = append(errs, fmt.Errorf("envoy's program %q: give an absolute path", cfg.Binary))
	}
	if !filepath.IsAbs(cfg.RunDir) {
		errs = append(errs, fmt.Errorf("envoy's run folder %q: give an absolute path", cfg.RunDir))
	} else if n := len(folder(filepath.Join(cfg.RunDir, folderName(""))).admin()); n > pathMost {
		errs = append(errs, fmt.Errorf("envoy's run folder %s: sockets below it have a path of %d bytes, the kernel takes %d; give a shorter one", cfg.RunDir, n, pathMost))
	}
	if !cfg.XDS.IsValid() || !cfg.XDS.Addr().IsLoopback() {
		errs = append(errs, fmt.Errorf("envoy's source of configuration %s: give 127.0.0.1:port, where the agent's relay listens", cfg.XDS))
	}
	if cfg.DrainTime < time.Second {
		errs = append(errs, fmt.Errorf("envoy's drain time %v: give a second or more", cfg.DrainTime))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Supervisor{cfg: cfg, keepers: map[string]*keeper{}}, nil
}

// Set replaces the wanted proxies. Envoys of unchanged proxies continue untouched. Before the first
// Set the Envoys of an earlier process continue, too.
func (s *Supervisor) Set(proxies []Proxy) {
	wanted := make(map[string]Proxy, len(proxies))
	for _, p := range proxies {
		wanted[p.ID] = p
	}
	s.wanted.Set(wanted)
}

// Status of all proxies that are wanted, by ID.
func (s *Supervisor) Status() []Status {
	out, _ := s.status.Get()
	return out
}

// Statuses changes whenever one of them does.
func (s *Supervisor) Statuses() *latestvalue.Value[[]Status] { return &s.status }

// Run keeps the Envoys until ctx ends, and then drains and ends them, within Config.StopWithin and
// the kernel's own time, unless Config.Leaves. It returns an error when RunDir cannot be used. Call
// it once.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.RunDir, 0o700); err != nil {
		return fmt.Errorf("envoy's run folder: %w", err)
	}
	if err := os.Chmod(s.cfg.RunDir, 0o700); err != nil { //nolint:gosec // a folder is entered
		return fmt.Errorf("envoy's run folder: %w", err)
	}
	var (
		running sync.WaitGroup
		// busy is closed, for each folder, when its previous keeper has ended.
		busy  = map[string]<-chan struct{}{}
		index uint64
		last  map[string]Proxy
	)
	for ctx.Err() == nil {
		last, index = s.wanted.Get()
		if err := s.reconcile(ctx, last, busy, &running); err != nil {
			s.cfg.Log.Error("folders of earlier envoys are not found", "error", err)
		}
		select {
		case <-s.wanted.Changed(index):
		case <-ctx.Done():
		}
	}
	if last == nil && !s.cfg.leaves(context.Cause(ctx)) {
		// The Envoys of an earlier process end with this one.
		folders, err := s.folders()
		if err != nil {
			return err
		}
		s.sweep(context.WithoutCancel(ctx), folders, busy, &running)
	}
	running.Wait()
	return nil
}

func (s *Supervisor) reconcile(ctx context.Context, wanted map[string]Proxy, busy map[string]<-chan struct{}, running *sync.WaitGroup) error {
	folders, err := s.folders()
	if err != nil {
		return err
	}
	s.mu.Lock()
	keeping := map[string]Proxy{}
	for id, k := range s.keepers {
		keeping[id] = k.proxy
	}
	todo := plan(wanted, keeping, folders)
	for _, id := range todo.stop {
		s.keepers[id].cancel(errNotWanted)
		delete(s.keepers, id)
	}
	for _, p := range todo.start {
		k := s.keeper(p)
		name := folderName(p.ID)
		after := busy[name]
		busy[name] = k.done
		inner, cancel := context.WithCancelCause(ctx)
		k.cancel = cancel
		s.keepers[p.ID] = k
		running.Go(func() {
			defer cancel(nil)
			k.run(inner, after)
		})
	}
	s.mu.Unlock()
	s.sweep(ctx, todo.sweep, busy, running)
	s.publishStatuses()
	return nil
}

var errNotWanted = errors.New("the proxy is not wanted any more")

// keeper makes one. The caller has mu.
func (s *Supervisor) keeper(p Proxy) *keeper {
	cfg := s.cfg
	cfg.Leaves = func(cause error) bool { return !errors.Is(cause, errNotWanted) && s.cfg.leaves(cause) }
	return &keeper{
		cfg: &cfg, proxy: p, at: folder(filepath.Join(s.cfg.RunDir, folderName(p.ID))),
		log: s.cfg.Log.With("proxy", p.ID), changed: s.publishStatuses, done: make(chan struct{}),
		status: Status{ID: p.ID, State: StateStarting, Since: time.Now()},
	}
}

// sweep ends the Envoys of earlier processes in folders.
func (s *Supervisor) sweep(ctx context.Context, folders []string, busy map[string]<-chan struct{}, running *sync.WaitGroup) {
	for _, name := range folders {
		after := busy[name]
		select {
		case <-after: // never, if there is none
		default:
			if after != nil {
				continue // its keeper removes it
			}
		}
		done := make(chan struct{})
		busy[name] = done
		running.Go(func() {
			defer close(done)
			ctx := context.WithoutCancel(ctx)
			at := folder(filepath.Join(s.cfg.RunDir, name))
			idle(ctx, at, max(s.cfg.StopWithin-killWithin, 0))
			if err := sweep(ctx, at, nil); err != nil {
				s.cfg.Log.Error("an earlier envoy does not end", "error", err)
			}
		})
	}
}

// folders are the names of the folders in RunDir.
func (s *Supervisor) folders() ([]string, error) {
	entries, err := os.ReadDir(s.cfg.RunDir)
	if err != nil {
		return nil, fmt.Errorf("envoy's run folder: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// all are the keepers, by ID.
func (s *Supervisor) all() []*keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*keeper, 0, len(s.keepers))
	for _, k := range s.keepers {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b *keeper) int { return strings.Compare(a.proxy.ID, b.proxy.ID) })
	return out
}

// publishStatuses publishes the statuses; the last call publishes the newest.
func (s *Supervisor) publishStatuses() {
	s.publish.Lock()
	defer s.publish.Unlock()
	var out []Status
	for _, k := range s.all() {
		out = append(out, k.get())
	}
	if before, _ := s.status.Get(); !slices.Equal(before, out) {
		s.status.Set(out)
	}
}

// Clusters are the upstreams that a proxy's Envoy knows now.
func (s *Supervisor) Clusters(ctx context.Context, id string) ([]Cluster, error) {
	s.mu.Lock()
	k := s.keepers[id]
	s.mu.Unlock()
	if k == nil {
		return nil, fmt.Errorf("there is no proxy %s in this machine", id)
	}
	text, err := admin(k.at.admin()).ask(ctx, http.MethodGet, "/clusters?format=json")
	if err != nil {
		return nil, fmt.Errorf("ask the envoy of %s: %w", id, err)
	}
	return parseClusters(text)
}
