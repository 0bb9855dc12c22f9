package reconcile_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"cadre.dev/platform"
)

var _ platform.Platform = (*world)(nil)

// act runs one call with an effect through the injected fault.
func (w *world) act(call string, apply func()) error {
	w.calls = append(w.calls, call)
	if w.fault != nil {
		do, err := w.fault(call)
		switch {
		case do:
			apply()
		case w.late > 0:
			time.AfterFunc(w.late, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				apply()
			})
		}
		return err
	}
	apply()
	return nil
}

func (w *world) List(_ context.Context, appID string) ([]platform.Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed++
	var out []platform.Instance
	for _, name := range sortedNames(w.cvms) {
		if c := w.cvms[name]; appID == "" || c.AppID == appID {
			out = append(out, c.Instance)
		}
	}
	return out, nil
}

func (w *world) Describe(_ context.Context, vmUUID string) (platform.Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.byID(vmUUID); c != nil {
		return c.Instance, nil
	}
	return platform.Instance{}, platform.ErrNotFound
}

func (w *world) byID(vmUUID string) *cvm {
	for _, c := range w.cvms {
		if c.VMUUID == vmUUID {
			return c
		}
	}
	return nil
}

func (w *world) Provision(_ context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mustNotBeOwn("provision", t.AppID)
	if c := w.byID(vmUUID); c != nil {
		w.mustNotBeOwn("provision through "+c.Name, c.AppID)
	}
	p := platform.Provisioned{ComposeHash: hashOf(t), AppID: w.app}
	if vmUUID != "" && w.byID(vmUUID) == nil {
		return p, platform.ErrNotFound
	}
	if w.answer != nil {
		w.answer(t, &p)
	}
	return p, nil
}

// mustNotBeOwn: whatever leads there, no call reaches the coordinators' app.
func (w *world) mustNotBeOwn(call string, apps ...string) {
	if slices.Contains(apps, ownApp) {
		w.t.Errorf("%s in the coordinators' own app", call)
	}
}

func (w *world) Create(_ context.Context, req platform.CreateRequest) (platform.Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mustNotBeOwn("create", req.AppID, req.Provisioned.AppID, req.Template.AppID)
	n := w.createdLocked
	w.createdLocked++
	c := &cvm{slot: req.Name[len("demo-"):], Instance: platform.Instance{
		InstanceType: req.Template.InstanceType, OSImage: req.Template.OSImage, DiskGB: req.Template.DiskGB,
		Name: req.Name, VMUUID: fmt.Sprintf("vm-%d", n), InstanceID: fmt.Sprintf("%040d", 100+n), AppID: req.Provisioned.AppID,
	}}
	err := w.act("create "+req.Name, func() {
		if _, exists := w.cvms[req.Name]; exists {
			w.t.Errorf("%s created twice", req.Name)
		}
		w.cvms[req.Name], c.env = c, req.Template.Env
		w.boot(c, req.Provisioned.ComposeHash)
	})
	if err != nil {
		return platform.Instance{}, err
	}
	return c.Instance, nil
}

func (w *world) Update(_ context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.byID(req.VMUUID)
	if c == nil {
		return platform.Accepted{}, platform.ErrNotFound
	}
	w.mustNotBeOwn("update", c.AppID)
	err := w.act("update "+c.Name, func() {
		if w.leader == c.slot {
			w.t.Errorf("%s is updated while it leads", c.slot)
		}
		c.env = req.Env
		w.boot(c, req.ComposeHash)
	})
	return platform.Accepted{}, err
}

func (w *world) SetOSImage(_ context.Context, vmUUID, image string) (platform.Accepted, error) {
	return w.change("os-image", vmUUID, func(c *cvm) { c.OSImage = image })
}

func (w *world) Resize(_ context.Context, vmUUID string, s platform.Shape) (platform.Accepted, error) {
	return w.change("resize", vmUUID, func(c *cvm) {
		c.InstanceType, c.DiskGB = cmp.Or(s.InstanceType, c.InstanceType), cmp.Or(s.DiskGB, c.DiskGB)
	})
}

// change is an update in place that restarts the CVM.
func (w *world) change(call, vmUUID string, apply func(*cvm)) (platform.Accepted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.byID(vmUUID)
	if c == nil {
		return platform.Accepted{}, platform.ErrNotFound
	}
	w.mustNotBeOwn(call, c.AppID)
	return platform.Accepted{}, w.act(call+" "+c.Name, func() {
		if w.leader == c.slot {
			w.t.Errorf("%s is changed while it leads", c.slot)
		}
		apply(c)
		w.boot(c, c.ComposeHash)
	})
}

func (w *world) Offer(context.Context) (platform.Offer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offer, nil
}

func (w *world) Settle() time.Duration { return 0 }

func (w *world) ForceRestart(ctx context.Context, vm string) (platform.Accepted, error) {
	return w.Restart(ctx, vm)
}

func (w *world) Restart(_ context.Context, vmUUID string) (platform.Accepted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.byID(vmUUID)
	if c == nil {
		return platform.Accepted{}, platform.ErrNotFound
	}
	return platform.Accepted{}, w.act("restart "+c.Name, func() { w.boot(c, c.ComposeHash) })
}

func (w *world) Stop(context.Context, string) (platform.Accepted, error) {
	return platform.Accepted{}, platform.ErrRefused
}

func (w *world) Start(_ context.Context, vmUUID string) (platform.Accepted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.byID(vmUUID)
	if c == nil {
		return platform.Accepted{}, platform.ErrNotFound
	}
	return platform.Accepted{}, w.act("start "+c.Name, func() { w.boot(c, c.ComposeHash) })
}

func (w *world) Delete(_ context.Context, vmUUID string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.byID(vmUUID)
	if c == nil {
		return nil
	}
	return w.act("delete "+c.Name, func() { delete(w.cvms, c.Name) })
}

func (w *world) Nodes(context.Context) ([]platform.Node, error) { return nil, nil }

// boot takes the CVM down and brings it up with another content after a while.
func (w *world) boot(c *cvm, hash string) {
	c.booted, c.InProgress, c.Status = false, true, "updating"
	time.AfterFunc(bootTime, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.InProgress, c.Status, c.ComposeHash, c.UpdatedAt = false, "running", hash, time.Now()
	})
}
