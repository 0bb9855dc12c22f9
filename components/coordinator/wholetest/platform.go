package wholetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"cadre.dev/platform"
)

// Platform is a minimal platform: it boots a CVM's agent at once. Safe for concurrent use.
type Platform struct {
	h *Whole

	mu      sync.Mutex
	all     map[string]*machine // by name; guarded by mu
	content map[string][]byte   // app-compose by hash; guarded by mu
	apps    map[string]string   // app allotted to a document, by hash; guarded by mu
	refused error               // error of all updates; nil: they work; guarded by mu
	made    map[string]int      // number of creations by CVM name; guarded by mu
	hold    chan struct{}       // deletes wait until it is closed; nil: they do not wait; guarded by mu
	running sync.WaitGroup
}

type machine struct {
	platform.Instance
	seed []byte // on its disk
	stop context.CancelFunc
}

func newPlatform(h *Whole, coordinator string) *Platform {
	return &Platform{h: h, content: map[string][]byte{}, apps: map[string]string{}, made: map[string]int{}, all: map[string]*machine{
		"demo-coordinator-0": {Instance: platform.Instance{Name: "demo-coordinator-0", VMUUID: "vm-c0", AppID: CoordinatorApp, InstanceID: coordinator, Status: "running"}},
	}}
}

// Close ends all agents and waits for them.
func (p *Platform) Close() {
	p.mu.Lock()
	for _, m := range p.all {
		if m.stop != nil {
			m.stop()
		}
	}
	p.mu.Unlock()
	p.running.Wait()
}

// RefuseUpdates makes updates return err from now on; nil: they work again.
func (p *Platform) RefuseUpdates(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = err
}

// HoldDeletes makes deletes wait until release is called. release may be called repeatedly.
func (p *Platform) HoldDeletes() (release func()) {
	held := make(chan struct{})
	p.mu.Lock()
	p.hold = held
	p.mu.Unlock()
	return sync.OnceFunc(func() {
		p.mu.Lock()
		p.hold = nil
		p.mu.Unlock()
		close(held)
	})
}

// boot ends the machine's agent and starts another on the same disk.
func (p *Platform) boot(m *machine, hash string) {
	if m.stop != nil {
		m.stop()
	}
	ctx, cancel := context.WithCancel(p.h.T.Context()) // a CVM outlives the call that boots it
	m.stop, m.ComposeHash, m.Status = cancel, hash, "running"
	compose, seed, app, name := p.content[hash], m.seed, m.AppID, m.Name
	p.running.Go(func() {
		for ctx.Err() == nil {
			err := p.h.agent(ctx, compose, seed, app, name)
			if err != nil && ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case <-time.After(300 * time.Millisecond):
				}
			}
		}
	})
	if m.InstanceID == "" {
		guest, _ := bootGuest(p.h.T, p.h.Cloud, app, compose, seed, 0)
		m.InstanceID = guest.InstanceID()
	}
}

// List implements platform.Platform.
func (p *Platform) List(_ context.Context, app string) ([]platform.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []platform.Instance
	for _, m := range p.all {
		if app == "" || m.AppID == app {
			out = append(out, m.Instance)
		}
	}
	return out, nil
}

// Describe implements platform.Platform.
func (p *Platform) Describe(_ context.Context, vm string) (platform.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.all {
		if m.VMUUID == vm {
			return m.Instance, nil
		}
	}
	return platform.Instance{}, platform.ErrNotFound
}

// Provision implements platform.Platform.
func (p *Platform) Provision(_ context.Context, _ string, t platform.Template) (platform.Provisioned, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	raw := t.AppCompose
	sum := sha256.Sum256(raw)
	hash := hex.EncodeToString(sum[:])
	p.content[hash] = raw
	app := t.AppID
	if app == "" && p.apps[hash] == "" {
		digest := sha256.Sum256([]byte("app of " + hash))
		p.apps[hash] = hex.EncodeToString(digest[:20])
	}
	if app == "" {
		app = p.apps[hash]
	}
	return platform.Provisioned{AppID: app, ComposeHash: hash}, nil
}

// Create implements platform.Platform.
func (p *Platform) Create(_ context.Context, req platform.CreateRequest) (platform.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, exists := p.all[req.Name]; exists {
		return platform.Instance{}, fmt.Errorf("name is taken: %w", platform.ErrRefused)
	}
	// A second CVM under a name is another machine, on another disk.
	p.made[req.Name]++
	nth := fmt.Sprintf("%s.%d", req.Name, p.made[req.Name])
	disk := sha256.Sum256([]byte(nth))
	m := &machine{Instance: platform.Instance{Name: req.Name, VMUUID: "vm-" + nth, AppID: req.Provisioned.AppID}, seed: disk[:20]}
	p.all[req.Name] = m
	p.boot(m, req.Provisioned.ComposeHash)
	return m.Instance, nil
}

// Update implements platform.Platform.
func (p *Platform) Update(_ context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused != nil {
		return platform.Accepted{}, p.refused
	}
	for _, m := range p.all {
		if m.VMUUID == req.VMUUID {
			p.boot(m, req.ComposeHash)
			return platform.Accepted{}, nil
		}
	}
	return platform.Accepted{}, platform.ErrNotFound
}

// SetOSImage implements platform.Platform.
func (p *Platform) SetOSImage(context.Context, string, string) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

// Resize implements platform.Platform.
func (p *Platform) Resize(context.Context, string, platform.Shape) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

// Offer implements platform.Platform.
func (p *Platform) Offer(context.Context) (platform.Offer, error) { return platform.Offer{}, nil }

// Habits implements platform.Platform.
func (p *Platform) Habits() platform.Habits { return platform.Habits{} }

// Restart implements platform.Platform.
func (p *Platform) Restart(_ context.Context, vm string) (platform.Accepted, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.all {
		if m.VMUUID == vm {
			p.boot(m, m.ComposeHash)
			return platform.Accepted{}, nil
		}
	}
	return platform.Accepted{}, platform.ErrNotFound
}

// ForceRestart implements platform.Platform.
func (p *Platform) ForceRestart(ctx context.Context, vm string) (platform.Accepted, error) {
	return p.Restart(ctx, vm)
}

// Stop implements platform.Platform.
func (p *Platform) Stop(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

// ForceStop is refused.
func (p *Platform) ForceStop(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

// Start implements platform.Platform.
func (p *Platform) Start(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

// Delete implements platform.Platform.
func (p *Platform) Delete(ctx context.Context, vm string) error {
	p.mu.Lock()
	held := p.hold
	p.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return fmt.Errorf("delete %s: %w", vm, context.Cause(ctx))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, m := range p.all {
		if m.VMUUID == vm {
			m.stop()
			delete(p.all, name)
		}
	}
	return nil
}

// Nodes implements platform.Platform.
func (p *Platform) Nodes(context.Context) ([]platform.Node, error) { return nil, nil }

// Created counts the existing CVMs.
func (p *Platform) Created() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

// Reboot restarts the CVM with the given instance id on its disk.
func (p *Platform) Reboot(instance string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.all {
		if m.InstanceID == instance {
			p.boot(m, m.ComposeHash)
		}
	}
}
