// Package cloudtest has a hypervisor whose machines run nothing, for tests of the packages above
// it.
package cloudtest

import (
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/initctl"
)

var (
	_ cloud.Hypervisor = (*Hypervisor)(nil)
	_ cloud.Machine    = (*Machine)(nil)
)

// Hypervisor records its boots. Safe for concurrent use. A compose text that contains "refuse me"
// does not boot.
type Hypervisor struct {
	mu     sync.Mutex
	boots  []cloud.BootSpec
	erased []string
}

// Boot makes a machine that runs nothing.
func (h *Hypervisor) Boot(_ context.Context, spec cloud.BootSpec) (cloud.Machine, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.boots = append(h.boots, spec)
	if strings.Contains(spec.Compose, "refuse me") {
		return nil, errors.New("service app: privileged: not supported")
	}
	app, err := hex.DecodeString(spec.AppID)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append(slices.Clone(spec.Seed), app...))
	go spec.Notify(cloud.Outcome{})
	return &Machine{id: hex.EncodeToString(sum[:20]), done: make(chan struct{})}, nil
}

// Prepare does nothing.
func (h *Hypervisor) Prepare(context.Context, cloud.BootSpec) {}

// Erase remembers the CVM.
func (h *Hypervisor) Erase(uuid string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.erased = append(h.erased, uuid)
	return nil
}

// LoseDisk does nothing.
func (h *Hypervisor) LoseDisk(string) error { return nil }

// Boots returns the boots under that name, oldest first.
func (h *Hypervisor) Boots(name string) []cloud.BootSpec {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []cloud.BootSpec
	for _, b := range h.boots {
		if b.Name == name {
			out = append(out, b)
		}
	}
	return out
}

// Erased returns the UUIDs of erased CVMs.
func (h *Hypervisor) Erased() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.erased)
}

// Machine is a running nothing.
type Machine struct {
	id   string
	once sync.Once
	done chan struct{}
}

// InstanceID follows from seed and app id, as in a real guest.
func (m *Machine) InstanceID() string { return m.id }

// Addr is no address.
func (m *Machine) Addr() netip.Addr { return netip.Addr{} }

// Done is closed by Stop and Kill.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Stop ends it.
func (m *Machine) Stop(context.Context) { m.Kill() }

// Kill ends it.
func (m *Machine) Kill() { m.once.Do(func() { close(m.done) }) }

// Exec runs nothing.
func (m *Machine) Exec(context.Context, initctl.Exec) (initctl.Output, error) {
	return initctl.Output{}, nil
}

// Hold holds nothing.
func (m *Machine) Hold(context.Context, initctl.Hold) error { return nil }

// Services is empty.
func (m *Machine) Services(context.Context) ([]initctl.Service, error) { return nil, nil }

// SetLink plugs nothing.
func (m *Machine) SetLink(bool) error { return nil }

// EnvKey derives an app's key for encrypted environments.
func EnvKey(appID string) (*ecdh.PrivateKey, error) {
	sum := sha256.Sum256([]byte(appID))
	return ecdh.X25519().NewPrivateKey(sum[:])
}
