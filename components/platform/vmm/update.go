package vmm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/platform"
	"cadre.dev/platform/internal/words"
)

func sameImage(a, b string) bool { return group.SameOSImage(a, b) }

// edit is a change of a stopped CVM.
type edit struct {
	hash   string // of a provisioned document; "" leaves the document and the env
	env    map[string]string
	envKey []byte
	shape  platform.Shape
}

// Update implements platform.Platform: content and shape of a stopped CVM, with one call. An absent
// env replaces a present one by none. Documents of Provision are remembered by this process: an
// Update of another hash is ErrRefused.
func (c *Client) Update(ctx context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	doing := "update cvm " + req.VMUUID
	if req.ComposeHash == "" {
		return platform.Accepted{}, fmt.Errorf("%s: no compose hash given: %w", doing, platform.ErrRefused)
	}
	return c.change(ctx, doing, req.VMUUID, edit{hash: words.ID(req.ComposeHash), env: req.Env, envKey: req.EnvKey, shape: req.Shape})
}

// SetOSImage implements platform.Platform, of a stopped CVM.
func (c *Client) SetOSImage(ctx context.Context, vmUUID, image string) (platform.Accepted, error) {
	doing := "set os image of cvm " + vmUUID
	if image == "" {
		return platform.Accepted{}, fmt.Errorf("%s: no image named: %w", doing, platform.ErrRefused)
	}
	return c.change(ctx, doing, vmUUID, edit{shape: platform.Shape{OSImage: image}})
}

// Resize implements platform.Platform, of a stopped CVM.
func (c *Client) Resize(ctx context.Context, vmUUID string, s platform.Shape) (platform.Accepted, error) {
	doing := "resize cvm " + vmUUID
	if s.InstanceType == "" && s.DiskGB == 0 {
		return platform.Accepted{}, fmt.Errorf("%s: %+v is no shape to change to: %w", doing, s, platform.ErrRefused)
	}
	return c.change(ctx, doing, vmUUID, edit{shape: s})
}

func (c *Client) change(ctx context.Context, doing, id string, e edit) (platform.Accepted, error) {
	refused := func(err error) (platform.Accepted, error) {
		return platform.Accepted{}, fmt.Errorf("%s: %w", doing, err)
	}
	h, vm, err := c.find(ctx, doing, id)
	if err != nil {
		return platform.Accepted{}, err
	}
	if vm.Configuration == nil {
		return refused(fmt.Errorf("node %s shows no configuration: %w: %w", h.Name, platform.ErrBusy, platform.ErrRefused))
	}
	// An impossible change is refused as such, before the status of the moment counts.
	r, err := c.request(ctx, h, vm, e)
	if err != nil {
		return refused(err)
	}
	if s := vm.status(); s != statusStopped {
		return refused(fmt.Errorf("its status is %q, and only a stopped cvm is changed: %w: %w", s, platform.ErrBusy, platform.ErrRefused))
	}
	if e.hash != "" && (len(e.env) > 0 || vm.Configuration.EncryptedEnv != "") {
		if r.EncryptedEnv, err = c.sealEnv(ctx, h, words.ID(vm.AppID), e.envKey, e.env); err != nil {
			return refused(err)
		}
	}
	if r.empty() {
		return platform.Accepted{NoChange: true, OSImage: e.shape.OSImage != ""}, nil
	}
	if err := c.send(ctx, doing, h, vm, r); err != nil {
		return platform.Accepted{}, err
	}
	return platform.Accepted{OSImage: e.shape.OSImage != ""}, nil
}

// request holds the differences between the CVM and the edit, without env.
func (c *Client) request(ctx context.Context, h *host, vm *vmInfo, e edit) (updateRequest, error) {
	have := vm.Configuration
	r := updateRequest{ID: vm.ID}
	refused := func(format string, args ...any) (updateRequest, error) {
		return r, fmt.Errorf("%w: %w", fmt.Errorf(format, args...), platform.ErrRefused)
	}
	if s := e.shape; s.InstanceType != "" {
		want, err := sizeOf(s.InstanceType)
		if err != nil {
			return r, err
		}
		now := have.size()
		if want.vcpu != now.vcpu {
			r.VCPU = want.vcpu
		}
		if want.memoryMB != now.memoryMB {
			r.Memory = want.memoryMB
		}
		if want.gpus != now.gpus || want.allGPUs != now.allGPUs {
			if r.GPUs, err = h.attach(ctx, want, vm.ID, have.GPUs); err != nil {
				return r, err
			}
		}
	}
	switch disk := e.shape.DiskGB; {
	case disk < 0 || disk > maxDiskGB:
		return refused("a disk of %d GB: use 1 to %d", disk, maxDiskGB)
	case disk > 0 && disk < int(have.DiskSize):
		return refused("a disk only grows: it has %d GB, %d are asked for", have.DiskSize, disk)
	case disk > int(have.DiskSize):
		r.DiskSize = uint32(disk)
	}
	if e.shape.OSImage != "" && !sameImage(e.shape.OSImage, have.Image) {
		var err error
		if r.Image, err = h.image(ctx, e.shape.OSImage); err != nil {
			return r, err
		}
	}
	if e.hash == "" || e.hash == hashOf(have.ComposeFile) {
		return r, nil
	}
	text, ok := c.text(e.hash)
	if !ok {
		return refused("the document with compose hash %.64s was not provisioned by this process, or too long ago: provision it again", e.hash)
	}
	var doc document
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return refused("the provisioned document: %w", err)
	}
	if !doc.hasKMS() {
		return refused("the new app-compose.json names no key service: the guest would boot as another app, without the key of its disk")
	}
	r.ComposeFile = text
	return r, nil
}

func (r updateRequest) empty() bool {
	return r.ComposeFile == "" && r.EncryptedEnv == "" && r.content()
}

// content reports that nothing but document and env changes.
func (r updateRequest) content() bool {
	return r.GPUs == nil && r.VCPU == 0 && r.Memory == 0 && r.DiskSize == 0 && r.Image == ""
}

// send makes the change, and reads every part back.
func (c *Client) send(ctx context.Context, doing string, h *host, before *vmInfo, r updateRequest) error {
	sent := h.update(ctx, r)
	if sent != nil && !said(sent) {
		return fmt.Errorf("%s: %w", doing, sent) // lost, or refused before it reached the handler
	}
	vm, err := h.info(ctx, r.ID)
	switch {
	case err != nil && sent == nil:
		// The host said that it wrote everything.
		c.log.Warn("an accepted change was not read back", "doing", doing, "node", h.Name, "error", err)
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w; reading it back: %w", doing, sent, unknown(err))
	case vm == nil || vm.Configuration == nil:
		return fmt.Errorf("%s: the host does not show the cvm any more: %w", doing, orUnknown(sent))
	}
	missing, made := r.missing(vm.Configuration), r.made(before.Configuration, vm.Configuration)
	switch {
	case sent == nil && len(missing) == 0:
		return nil
	case sent == nil:
		return fmt.Errorf("%s: node %s answered success, and does not show the new %s", doing, h.Name, strings.Join(missing, ", "))
	case len(made) > 0:
		return fmt.Errorf("%s: %w: the new %s was written all the same", doing, sent, strings.Join(made, ", "))
	case vm.status() != statusStopped:
		return fmt.Errorf("%s: %w: its status is %q: %w: %w", doing, sent, vm.status(), platform.ErrBusy, platform.ErrRefused)
	}
	return fmt.Errorf("%s: %w (read back: nothing changed: %w)", doing, sent, platform.ErrRefused)
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("the outcome is unknown")
	}
	return err
}

// update sends r with one call, or with two to a VMM that is older than the one call. The reply has
// the app's id, not that of the CVM, and is not read.
func (h *host) update(ctx context.Context, r updateRequest) error {
	version, err := h.version(ctx)
	if err != nil {
		return notSent(err)
	}
	if !before(version, withUpdate) {
		return h.write(ctx, call{doing: "UpdateVm of cvm " + r.ID, method: "UpdateVm", body: r})
	}
	if r.ComposeFile != "" || r.EncryptedEnv != "" || r.GPUs != nil {
		content := updateRequest{ID: r.ID, ComposeFile: r.ComposeFile, EncryptedEnv: r.EncryptedEnv, GPUs: r.GPUs}
		if err := h.write(ctx, call{doing: "UpgradeApp of cvm " + r.ID, method: "UpgradeApp", body: content}); err != nil {
			return err
		}
	}
	shape := updateRequest{ID: r.ID, VCPU: r.VCPU, Memory: r.Memory, DiskSize: r.DiskSize, Image: r.Image}
	if shape.content() {
		return nil
	}
	err = h.write(ctx, call{doing: "ResizeVm of cvm " + r.ID, method: "ResizeVm", body: shape})
	if err != nil && !said(err) && (r.ComposeFile != "" || r.EncryptedEnv != "" || r.GPUs != nil) {
		return unknown(err) // the content is written
	}
	return err
}

// missing are the parts of r that have does not show.
func (r updateRequest) missing(have *configuration) []string {
	return r.parts(func(p part) bool { return !p.is(have) })
}

// made are the parts of r that now shows and was did not.
func (r updateRequest) made(was, now *configuration) []string {
	return r.parts(func(p part) bool { return p.is(now) && !p.is(was) })
}

type part struct {
	name    string
	changes bool
	is      func(*configuration) bool
}

func (r updateRequest) parts(which func(part) bool) []string {
	var out []string
	for _, p := range []part{
		{"compose file", r.ComposeFile != "", func(c *configuration) bool { return c.ComposeFile == r.ComposeFile }},
		{"environment", r.EncryptedEnv != "", func(c *configuration) bool { return strings.EqualFold(c.EncryptedEnv, r.EncryptedEnv) }},
		{"vCPUs", r.VCPU != 0, func(c *configuration) bool { return c.VCPU == r.VCPU }},
		{"memory", r.Memory != 0, func(c *configuration) bool { return c.Memory == r.Memory }},
		{"disk", r.DiskSize != 0, func(c *configuration) bool { return c.DiskSize == r.DiskSize }},
		{"os image", r.Image != "", func(c *configuration) bool { return c.Image == r.Image }},
		{"GPUs", r.GPUs != nil, func(c *configuration) bool { return sameGPUs(c.GPUs, r.GPUs) }},
	} {
		if p.changes && which(p) {
			out = append(out, p.name)
		}
	}
	return out
}

// sameGPUs compares the GPUs that a host shows with the wanted ones. For all GPUs the host fills the list.
func sameGPUs(have, want *gpuConfig) bool {
	if have == nil {
		have = &gpuConfig{AttachMode: attachListed}
	}
	if have.AttachMode != want.AttachMode {
		return false
	}
	if want.AttachMode == attachAll {
		return true
	}
	a, errA := json.Marshal(have.GPUs)
	b, errB := json.Marshal(want.GPUs)
	return errA == nil && errB == nil && bytes.Equal(a, b) || len(have.GPUs) == 0 && len(want.GPUs) == 0
}
