// Package cloud is a platform that accepts every call at once: it names instances, has other
// processes boot them, and makes no machine. Coordinators reach it over a unix socket:
//
//	coordinator ── Client ──► Serve ── Cloud ──► Boot (a fleet of played agents)
package cloud

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cadre.dev/platform"
)

// Machine is the machine to boot.
type Machine struct {
	// Name is the platform's, AppID the application's.
	Name, AppID string
	AppCompose  []byte
}

// Boot starts a machine, or restarts it with its new content, and returns its instance id, which
// stays the same for one name and app. It may be called concurrently.
type Boot func(ctx context.Context, m Machine) (instanceID string, err error)

// Cloud is a platform of machines that are elsewhere. Safe for concurrent use.
type Cloud struct {
	boot Boot

	mu      sync.Mutex
	all     map[string]*platform.Instance // by VMUUID; guarded by mu
	content map[string][]byte             // app-compose by hash; guarded by mu
	calls   int                           // with an effect; guarded by mu
}

// New makes one with machines that are there already, the coordinators.
func New(boot Boot, there ...platform.Instance) *Cloud {
	c := &Cloud{boot: boot, all: map[string]*platform.Instance{}, content: map[string][]byte{}}
	for _, i := range there {
		c.all[i.VMUUID] = &i
	}
	return c
}

// Calls is how many calls with an effect there were.
func (c *Cloud) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// List implements platform.Platform.
func (c *Cloud) List(_ context.Context, appID string) ([]platform.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]platform.Instance, 0, len(c.all))
	for _, uuid := range slices.Sorted(maps.Keys(c.all)) {
		if i := c.all[uuid]; appID == "" || i.AppID == appID {
			out = append(out, *i)
		}
	}
	return out, nil
}

// Describe implements platform.Platform.
func (c *Cloud) Describe(_ context.Context, vmUUID string) (platform.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, ok := c.all[vmUUID]; ok {
		return *i, nil
	}
	return platform.Instance{}, platform.ErrNotFound
}

// Provision implements platform.Platform: an application for each first template.
func (c *Cloud) Provision(_ context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := sha256.Sum256(t.AppCompose)
	hash := hex.EncodeToString(sum[:])
	app := hash[:40]
	if vmUUID != "" {
		i, ok := c.all[vmUUID]
		if !ok {
			return platform.Provisioned{}, platform.ErrNotFound
		}
		app = i.AppID
	}
	c.content[hash] = t.AppCompose
	return platform.Provisioned{AppID: app, ComposeHash: hash, EnvKey: make([]byte, 32)}, nil
}

// Create implements platform.Platform.
func (c *Cloud) Create(ctx context.Context, req platform.CreateRequest) (platform.Instance, error) {
	app := req.AppID
	if app == "" {
		app = req.Provisioned.AppID
	}
	uuid := "vm-" + req.Name
	c.mu.Lock()
	c.calls++
	text := c.content[req.Provisioned.ComposeHash]
	_, taken := c.all[uuid]
	c.mu.Unlock()
	if taken || text == nil {
		return platform.Instance{}, fmt.Errorf("create %s: name is taken or nothing was provisioned: %w", req.Name, platform.ErrRefused)
	}
	id, err := c.boot(ctx, Machine{Name: req.Name, AppID: app, AppCompose: text})
	if err != nil {
		return platform.Instance{}, err
	}
	made := platform.Instance{
		ID: uuid, VMUUID: uuid, Name: req.Name, AppID: app, InstanceID: id, Status: "running", ComposeHash: req.Provisioned.ComposeHash,
		OSImage: req.Template.OSImage, InstanceType: req.Template.InstanceType, DiskGB: req.Template.DiskGB, UpdatedAt: time.Now(), EnvKey: make([]byte, 32),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[uuid] = &made
	return made, nil
}

// Update implements platform.Platform.
func (c *Cloud) Update(ctx context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	return c.again(ctx, req.VMUUID, func(i *platform.Instance) { i.ComposeHash = req.ComposeHash })
}

// Restart implements platform.Platform.
func (c *Cloud) Restart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return c.again(ctx, vmUUID, func(*platform.Instance) {})
}

// ForceRestart implements platform.Platform.
func (c *Cloud) ForceRestart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return c.Restart(ctx, vmUUID)
}

func (c *Cloud) again(ctx context.Context, vmUUID string, change func(*platform.Instance)) (platform.Accepted, error) {
	c.mu.Lock()
	c.calls++
	i, ok := c.all[vmUUID]
	if !ok {
		c.mu.Unlock()
		return platform.Accepted{}, platform.ErrNotFound
	}
	change(i)
	i.UpdatedAt = time.Now()
	m := Machine{Name: i.Name, AppID: i.AppID, AppCompose: c.content[i.ComposeHash]}
	c.mu.Unlock()
	_, err := c.boot(ctx, m)
	return platform.Accepted{}, err
}

var errNotHere = fmt.Errorf("this platform changes no shapes: %w", platform.ErrRefused)

// SetOSImage implements platform.Platform.
func (c *Cloud) SetOSImage(context.Context, string, string) (platform.Accepted, error) {
	return platform.Accepted{}, errNotHere
}

// Resize implements platform.Platform.
func (c *Cloud) Resize(context.Context, string, platform.Shape) (platform.Accepted, error) {
	return platform.Accepted{}, errNotHere
}

// Stop implements platform.Platform.
func (c *Cloud) Stop(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, errNotHere
}

// ForceStop implements platform.Platform.
func (c *Cloud) ForceStop(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, errNotHere
}

// Start implements platform.Platform.
func (c *Cloud) Start(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, errNotHere
}

// Delete implements platform.Platform.
func (c *Cloud) Delete(context.Context, string) error {
	return errors.New("this platform removes nothing")
}

// Nodes implements platform.Platform.
func (c *Cloud) Nodes(context.Context) ([]platform.Node, error) { return nil, nil }

// Offer implements platform.Platform.
func (c *Cloud) Offer(context.Context) (platform.Offer, error) { return platform.Offer{}, nil }

// Habits implements platform.Platform.
func (c *Cloud) Habits() platform.Habits { return platform.Habits{} }

var _ platform.Platform = (*Cloud)(nil)
