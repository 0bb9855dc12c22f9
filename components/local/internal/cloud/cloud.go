package cloud

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"cadre.dev/local/internal/durable"
)

// Config configures a Cloud.
type Config struct {
	// Dir holds state.json.
	Dir        string
	Hypervisor Hypervisor
	// EnvKey gives an app's private key for encrypted environments.
	EnvKey func(appID string) (*ecdh.PrivateKey, error)
	// Images names the OS images on offer; nil offers any.
	Images []string
	// Hosts names the hosts of dstack-vmm, in an order that stays; nil: Phala's platform.
	Hosts    []string
	Settings Settings
	// OnDown is called when a machine is gone; nil does nothing.
	OnDown func(uuid string)
	Log    *slog.Logger
}

// Cloud owns the records. Safe for concurrent use.
type Cloud struct {
	cfg    Config
	ctx    context.Context //nolint:containedctx // ends with Close: operations belong to the Cloud, not to the call that began them
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup

	mu         sync.Mutex // guards the following
	settings   Settings
	st         state
	machines   map[string]Machine // by vm uuid
	lastCreate time.Time
	turns      map[string]int // round robin by app id
	closing    bool
	runs       map[string]*vmRun   // the processes of VMs, by vm uuid
	down       map[string]struct{} // hosts without power
	retries    map[string]*retries // of hosts, by vm uuid
	// settled is closed and replaced when settings change.
	settled chan struct{}
}

// state is the part that survives the daemon.
type state struct {
	Apps    map[string]*App   `json:"apps"`
	CVMs    []*CVM            `json:"cvms"`
	NextNum int               `json:"next_num"`
	Allots  map[string]uint64 `json:"allots"` // app ids given out, with their nonce
	// Hosts are those of dstack-vmm, in order; none: Phala's platform.
	Hosts []string `json:"hosts,omitempty"`
}

var errClosed = errors.New("the local cloud is shutting down")

// Open reads the state of dir, or starts an empty cloud, and resumes: it boots the CVMs that were
// on, and finishes interrupted deletions.
func Open(cfg Config) (*Cloud, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &Cloud{
		cfg: cfg, ctx: ctx, cancel: cancel, settings: cfg.Settings, machines: map[string]Machine{}, turns: map[string]int{},
		runs: map[string]*vmRun{}, down: map[string]struct{}{}, retries: map[string]*retries{}, settled: make(chan struct{}),
	}
	var err error
	if c.st, err = readState(cfg.Dir); err != nil {
		return nil, err
	}
	if err := c.st.checkHosts(cfg.Hosts); err != nil {
		return nil, err
	}
	c.st.Hosts = cfg.Hosts
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.st.CVMs {
		c.resume(v)
	}
	if len(cfg.Hosts) > 0 {
		c.tasks.Go(c.restartExited)
	}
	return c, c.save()
}

// Close stops every CVM, each service with its grace until ctx ends, and waits for all operations.
// The next Open boots the CVMs that were on.
func (c *Cloud) Close(ctx context.Context) {
	c.mu.Lock()
	c.closing = true
	machines := slices.Collect(maps.Values(c.machines))
	c.mu.Unlock()
	c.cancel(errClosed)
	var all sync.WaitGroup
	for _, m := range machines {
		all.Go(func() { m.Stop(ctx) })
	}
	all.Wait()
	c.tasks.Wait()
}

// readState reads the records of dir; a missing file is an empty cloud.
func readState(dir string) (state, error) {
	st := state{Apps: map[string]*App{}, Allots: map[string]uint64{}}
	path := statePath(dir)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err != nil {
		return st, fmt.Errorf("read state: %w", err)
	}
	if err := json.Unmarshal(raw, &st); err != nil {
		return st, fmt.Errorf("parse %s: %w", path, err)
	}
	return st, nil
}

func statePath(dir string) string { return filepath.Join(dir, "state.json") }

// save persists the state; called under the lock, before the effect it announces.
func (c *Cloud) save() error {
	raw, err := json.MarshalIndent(c.st, "", " ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	return durable.Write(statePath(c.cfg.Dir), raw, 0o600)
}

// keep saves the state where no caller can receive an error.
func (c *Cloud) keep() {
	if err := c.save(); err != nil {
		c.cfg.Log.Error("state not saved", "error", err)
	}
}

// Settings returns the timing habits.
func (c *Cloud) Settings() Settings {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.settings
	s.BootDelays = maps.Clone(s.BootDelays)
	return s
}

// SetSettings replaces the timing habits; running operations keep the old ones.
func (c *Cloud) SetSettings(s Settings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings = s
	close(c.settled)
	c.settled = make(chan struct{})
}

// List returns the visible CVMs, of one app when appID is not empty, oldest first.
func (c *Cloud) List(appID string) []CVM {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []CVM
	for _, v := range c.st.CVMs {
		if c.visible(v) && (appID == "" || v.AppID == appID) {
			out = append(out, snapshot(v))
		}
	}
	return out
}

// Apps returns the committed apps by id.
func (c *Cloud) Apps() []App {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []App
	for _, id := range slices.Sorted(maps.Keys(c.st.Apps)) {
		if a := c.st.Apps[id]; a.Committed {
			out = append(out, copyApp(a))
		}
	}
	return out
}

// App finds a committed app; id may carry "app_".
func (c *Cloud) App(id string) (App, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.app(id)
	if err != nil {
		return App{}, err
	}
	return copyApp(a), nil
}

// Find resolves the path segment {cvm}: cvm_…, UUID with or without dashes,
// name, number, instance_<40 hex>, or app_<40 hex> when the app has one CVM.
func (c *Cloud) Find(ref string) (CVM, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(ref)
	if err != nil {
		return CVM{}, err
	}
	return snapshot(v), nil
}

// Compose returns app-compose.json of hash in the app.
func (c *Cloud) Compose(appID, hash string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.st.Apps[appID]
	if !ok || a.Composes[hash] == "" {
		return nil, refuse(NotFound, "compose %s not found", hash)
	}
	return []byte(a.Composes[hash]), nil
}

// Machine returns the running machine of a CVM, if any.
func (c *Cloud) Machine(uuid string) (Machine, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.machines[uuid]
	return m, ok
}

func (c *Cloud) app(id string) (*App, error) {
	a, ok := c.st.Apps[BareID(id)]
	if !ok || !a.Committed {
		return nil, refuse(NotFound, "App not found")
	}
	return a, nil
}

func (c *Cloud) find(ref string) (*CVM, error) {
	ref = strings.TrimSpace(ref)
	bare := BareID(ref)
	byApp := len(bare) == 40 && isHex(bare)
	instance, byInstance := strings.CutPrefix(strings.ToLower(ref), "instance_")
	var found []*CVM
	for _, v := range c.st.CVMs {
		if !c.visible(v) {
			continue
		}
		switch {
		case byApp && v.AppID == bare,
			byInstance && instance != "" && v.InstanceID == instance,
			!byApp && (v.ID == ref || strings.EqualFold(v.Name, ref) || fmt.Sprint(v.Num) == ref),
			!byApp && strings.ReplaceAll(v.VMUUID, "-", "") == strings.ReplaceAll(strings.ToLower(ref), "-", ""):
			found = append(found, v)
		}
	}
	switch len(found) {
	case 0:
		return nil, refuse(NotFound, "CVM not found")
	case 1:
		return found[0], nil
	default:
		return nil, refuse(Ambiguous, "%d CVMs match %q; use the vm_uuid of one", len(found), ref)
	}
}

func (c *Cloud) visible(v *CVM) bool { return !time.Now().Before(v.VisibleAt) }

// snapshot is the visible form of v: an operation's changes become visible with the operation.
func snapshot(v *CVM) CVM {
	out := *v
	out.Tasks = slices.Clone(v.Tasks)
	out.VM = v.VM.clone()
	if v.Progress != nil {
		p := *v.Progress
		out.Progress = &p
		if was := p.Was; was != nil && !p.Shown {
			out.OSImage, out.InstanceType, out.DiskGB = was.OSImage, was.InstanceType, was.DiskGB
		}
	}
	return out
}

func copyApp(a *App) App {
	out := *a
	out.Composes = maps.Clone(a.Composes)
	out.Revisions = slices.Clone(a.Revisions)
	return out
}

// BareID drops "app_" and "0x" and lowers the case.
func BareID(id string) string {
	id = strings.ToLower(strings.TrimSpace(id))
	return strings.TrimPrefix(strings.TrimPrefix(id, "app_"), "0x")
}

func isHex(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	return b
}

func newUUID() string { return uuid.NewString() }
