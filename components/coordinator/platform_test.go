package coordinator_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"cadre.dev/platform"
)

const workloadApp = "dddddddddddddddddddddddddddddddddddddddd"

// cloudPlatform is the least platform: it boots a CVM's agent at once.
type cloudPlatform struct {
	h *harness

	mu      sync.Mutex
	all     map[string]*machine // by name; guarded by mu
	content map[string][]byte   // app-compose by hash; guarded by mu
	running sync.WaitGroup
}

type machine struct {
	platform.Instance
	stop context.CancelFunc
}

func newCloudPlatform(h *harness, coordinator string) *cloudPlatform {
	return &cloudPlatform{h: h, content: map[string][]byte{}, all: map[string]*machine{
		"demo-coordinator-0": {Instance: platform.Instance{Name: "demo-coordinator-0", VMUUID: "vm-c0", AppID: coordinatorApp, InstanceID: coordinator, Status: "running"}},
	}}
}

func (p *cloudPlatform) close() {
	p.mu.Lock()
	for _, m := range p.all {
		if m.stop != nil {
			m.stop()
		}
	}
	p.mu.Unlock()
	p.running.Wait()
}

// boot ends the machine's agent and starts another on the same disk.
func (p *cloudPlatform) boot(m *machine, hash string) {
	if m.stop != nil {
		m.stop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop, m.ComposeHash, m.Status = cancel, hash, "running"
	compose, seed := p.content[hash], bytes.Repeat([]byte{2}, 20)
	p.running.Go(func() {
		for ctx.Err() == nil {
			err := p.h.agent(ctx, compose, seed, workloadApp)
			if err != nil && ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case <-time.After(300 * time.Millisecond):
				}
			}
		}
	})
	if m.InstanceID == "" {
		guest, _ := bootCVM(p.h.t, p.h.cloud, workloadApp, compose, seed)
		m.InstanceID = guest.InstanceID()
	}
}

func (p *cloudPlatform) List(_ context.Context, app string) ([]platform.Instance, error) {
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

func (p *cloudPlatform) Describe(_ context.Context, vm string) (platform.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.all {
		if m.VMUUID == vm {
			return m.Instance, nil
		}
	}
	return platform.Instance{}, platform.ErrNotFound
}

func (p *cloudPlatform) Provision(_ context.Context, _ string, t platform.Template) (platform.Provisioned, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	raw := t.AppCompose
	sum := sha256.Sum256(raw)
	hash := hex.EncodeToString(sum[:])
	p.content[hash] = raw
	return platform.Provisioned{AppID: workloadApp, ComposeHash: hash}, nil
}

func (p *cloudPlatform) Create(_ context.Context, req platform.CreateRequest) (platform.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, exists := p.all[req.Name]; exists {
		return platform.Instance{}, fmt.Errorf("name is taken: %w", platform.ErrRefused)
	}
	m := &machine{Instance: platform.Instance{Name: req.Name, VMUUID: "vm-" + req.Name, AppID: workloadApp}}
	p.all[req.Name] = m
	p.boot(m, req.Provisioned.ComposeHash)
	return m.Instance, nil
}

func (p *cloudPlatform) Update(_ context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.all {
		if m.VMUUID == req.VMUUID {
			p.boot(m, req.ComposeHash)
			return platform.Accepted{}, nil
		}
	}
	return platform.Accepted{}, platform.ErrNotFound
}

func (p *cloudPlatform) SetOSImage(context.Context, string, string) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

func (p *cloudPlatform) Resize(context.Context, string, platform.Shape) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

func (p *cloudPlatform) Offer(context.Context) (platform.Offer, error) { return platform.Offer{}, nil }
func (p *cloudPlatform) Settle() time.Duration                         { return 0 }

func (p *cloudPlatform) Restart(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

func (p *cloudPlatform) Stop(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

func (p *cloudPlatform) Start(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

func (p *cloudPlatform) Delete(context.Context, string) error           { return nil }
func (p *cloudPlatform) Nodes(context.Context) ([]platform.Node, error) { return nil, nil }

// created counts the CVMs that were made.
func (p *cloudPlatform) created() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.all)
}

// reboot starts the CVM with the given instance id anew, on its disk.
func (p *cloudPlatform) reboot(instance string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.all {
		if m.InstanceID == instance {
			p.boot(m, m.ComposeHash)
		}
	}
}
