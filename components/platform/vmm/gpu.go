package vmm

import (
	"context"
	"fmt"
	"slices"

	"cadre.dev/platform"
)

// Attach modes of GPUs.
const (
	attachListed = "listed"
	attachAll    = "all"
)

// GPU is one GPU of a host.
type GPU struct {
	Slot        string `json:"slot"` // PCI address
	ProductID   string `json:"product_id"`
	Description string `json:"description"`
	Free        bool   `json:"is_free"` // no running CVM has it
}

func (h *host) gpus(ctx context.Context) (list []GPU, attachAllAllowed bool, err error) {
	var reply struct {
		GPUs  []GPU `json:"gpus"`
		AllOK bool  `json:"allow_attach_all"`
	}
	err = h.read(ctx, call{doing: "ListGpus", method: "ListGpus", into: &reply, limit: maxListReply})
	return reply.GPUs, reply.AllOK, err
}

// attach chooses the GPUs of a CVM of size s, of which it has the ones of had already; nil: none. A
// GPU of a CVM that is stopped now is taken too: its next start would find it in use.
func (h *host) attach(ctx context.Context, s size, id string, had *gpuConfig) (*gpuConfig, error) {
	if !s.allGPUs && s.gpus == 0 {
		return &gpuConfig{AttachMode: attachListed, GPUs: []gpuSlot{}}, nil
	}
	list, allOK, err := h.gpus(ctx)
	if err != nil {
		return nil, notSent(err)
	}
	if s.allGPUs {
		if !allOK || len(list) == 0 {
			return nil, fmt.Errorf("node %s: it has %d GPUs, attaching all of them is allowed: %v: %w", h.Name, len(list), allOK, platform.ErrRefused)
		}
		return &gpuConfig{AttachMode: attachAll, GPUs: []gpuSlot{}}, nil
	}
	vms, err := h.list(ctx, "")
	if err != nil {
		return nil, notSent(err)
	}
	taken := map[string]bool{}
	for _, vm := range vms {
		if vm.ID == id || vm.Configuration == nil || vm.Configuration.GPUs == nil {
			continue
		}
		if vm.Configuration.GPUs.AttachMode == attachAll {
			return nil, fmt.Errorf("node %s: cvm %s has every GPU: %w", h.Name, vm.Name, platform.ErrRefused)
		}
		for _, g := range vm.Configuration.GPUs.GPUs {
			taken[g.Slot] = true
		}
	}
	out := &gpuConfig{AttachMode: attachListed, GPUs: []gpuSlot{}}
	add := func(slot string) {
		if len(out.GPUs) < s.gpus && !taken[slot] {
			taken[slot] = true
			out.GPUs = append(out.GPUs, gpuSlot{slot})
		}
	}
	if had != nil && had.AttachMode != attachAll {
		for _, g := range had.GPUs {
			if slices.ContainsFunc(list, func(one GPU) bool { return one.Slot == g.Slot }) {
				add(g.Slot)
			}
		}
	}
	for _, one := range list {
		if one.Free {
			add(one.Slot)
		}
	}
	if len(out.GPUs) < s.gpus {
		return nil, fmt.Errorf("node %s: %d of %d GPUs are free: %w", h.Name, len(out.GPUs), s.gpus, platform.ErrRefused)
	}
	return out, nil
}

// notSent is the error of a preparation: the call itself was not made, and may be made later.
func notSent(err error) error {
	return fmt.Errorf("%w (nothing was sent: %w: %w)", err, platform.ErrBusy, platform.ErrRefused)
}
