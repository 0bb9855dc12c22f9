package vmm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/internal/httpcall"
)

// Stop implements platform.Platform. A guest that powers off notifies its host, which then notes that the CVM is
// not to run: the status becomes "stopped". A guest that ends without a notice is "exited", which its
// host starts again: Stop of an exited CVM makes it stopped. The caller reads the status back, and
// calls Stop again while it is "exited" or again "running".
func (c *Client) Stop(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	doing := "stop cvm " + vmUUID
	h, vm, err := c.find(ctx, doing, vmUUID)
	if err != nil {
		return platform.Accepted{}, err
	}
	return named(doing)(h.stop(ctx, vm))
}

// ForceStop implements platform.Platform.
func (c *Client) ForceStop(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	doing := "force cvm " + vmUUID + " to stop"
	h, vm, err := c.find(ctx, doing, vmUUID)
	if err != nil {
		return platform.Accepted{}, err
	}
	return named(doing)(h.kill(ctx, vm))
}

// Start implements platform.Platform. A CVM whose process still ends is ErrBusy: its host would take
// the call for done, and start it much later or never.
func (c *Client) Start(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	doing := "start cvm " + vmUUID
	h, vm, err := c.find(ctx, doing, vmUUID)
	if err != nil {
		return platform.Accepted{}, err
	}
	return named(doing)(h.start(ctx, vm))
}

// Restart implements platform.Platform, by Stop and Start. It returns when the CVM is started. A
// guest that is not down after the ShutdownTimeout is stopped hard. When ctx ends before, the CVM may
// be left running or stopped.
func (c *Client) Restart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return c.again(ctx, "restart cvm "+vmUUID, vmUUID, (*host).stop)
}

// ForceRestart implements platform.Platform, by ForceStop and Start, as Restart.
func (c *Client) ForceRestart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return c.again(ctx, "force cvm "+vmUUID+" to restart", vmUUID, (*host).kill)
}

func (c *Client) again(ctx context.Context, doing, id string, down func(*host, context.Context, *vmInfo) (platform.Accepted, error)) (platform.Accepted, error) {
	h, vm, err := c.find(ctx, doing, id)
	if err != nil {
		return platform.Accepted{}, err
	}
	first, err := down(h, ctx, vm)
	if err != nil {
		return named(doing)(platform.Accepted{}, err)
	}
	after := func(err error) error {
		if first.NoChange {
			return err
		}
		return unknown(err)
	}
	vm, err = c.untilDown(ctx, h, vm.ID)
	if err != nil {
		return named(doing)(platform.Accepted{}, unknown(err))
	}
	if _, err := h.start(ctx, vm); err != nil {
		return platform.Accepted{}, fmt.Errorf("%s: it is stopped now: %w", doing, after(err))
	}
	return platform.Accepted{}, nil
}

// named says which call an error is of.
func named(doing string) func(platform.Accepted, error) (platform.Accepted, error) {
	return func(got platform.Accepted, err error) (platform.Accepted, error) {
		if err != nil {
			return platform.Accepted{}, fmt.Errorf("%s: %w", doing, err)
		}
		return got, nil
	}
}

// stop asks the guest to shut down.
func (h *host) stop(ctx context.Context, vm *vmInfo) (platform.Accepted, error) {
	switch vm.status() {
	case statusStopped, statusStopping:
		return platform.Accepted{NoChange: true}, nil
	case statusRemoving:
		return busy(vm)
	case statusExited:
		return h.kill(ctx, vm)
	}
	err := h.write(ctx, call{doing: "ShutdownVm of cvm " + vm.ID, method: "ShutdownVm", body: idRequest{vm.ID}})
	if !said(err) {
		return platform.Accepted{}, err
	}
	// The guest may have gone down instead of answering.
	return h.judge(ctx, vm, err, func(now *vmInfo) bool { return now.status() == statusStopping || now.status() == statusStopped })
}

// kill stops the CVM as a power cut does. A CVM without a process is only noted as not to run.
func (h *host) kill(ctx context.Context, vm *vmInfo) (platform.Accepted, error) {
	switch vm.status() {
	case statusStopped:
		return platform.Accepted{NoChange: true}, nil
	case statusRemoving:
		return busy(vm)
	}
	err := h.write(ctx, call{doing: "StopVm of cvm " + vm.ID, method: "StopVm", body: idRequest{vm.ID}, wait: stopFactor * h.client.timeout})
	if !said(err) {
		return platform.Accepted{}, err
	}
	// A host whose supervisor has no process of the CVM says so after it noted that it is not to run.
	return h.judge(ctx, vm, err, func(now *vmInfo) bool { return now.status() == statusStopped })
}

// start starts a CVM.
func (h *host) start(ctx context.Context, vm *vmInfo) (platform.Accepted, error) {
	switch vm.status() {
	case statusRunning:
		return platform.Accepted{NoChange: true}, nil
	case statusStopping, statusRemoving:
		return busy(vm)
	}
	err := h.write(ctx, call{doing: "StartVm of cvm " + vm.ID, method: "StartVm", body: idRequest{vm.ID}})
	if !said(err) {
		return platform.Accepted{}, err
	}
	return h.judge(ctx, vm, err, func(now *vmInfo) bool { return now.status() == statusRunning })
}

func busy(vm *vmInfo) (platform.Accepted, error) {
	return platform.Accepted{}, fmt.Errorf("its status is %q: %w: %w", vm.status(), platform.ErrBusy, platform.ErrRefused)
}

// judge reads a CVM back after the host answered said, an error. A host notes whether a CVM is to run
// before it tries, so an error may have had an effect: it is ErrRefused only if the CVM is stopped
// now as before, or gone.
func (h *host) judge(ctx context.Context, before *vmInfo, said error, done func(*vmInfo) bool) (platform.Accepted, error) {
	now, err := h.info(ctx, before.ID)
	switch {
	case err != nil:
		return platform.Accepted{}, fmt.Errorf("%w; reading it back: %w", said, unknown(err))
	case now == nil:
		return platform.Accepted{}, fmt.Errorf("%w: %w: %w", said, platform.ErrNotFound, platform.ErrRefused)
	case done(now):
		h.client.log.Warn("the host answered an error, and did it", "node", h.Name, "status", now.status(), "error", said)
		return platform.Accepted{}, nil
	case now.status() == statusRemoving:
		return platform.Accepted{}, fmt.Errorf("%w: it is being removed: %w: %w", said, platform.ErrBusy, platform.ErrRefused)
	case now.status() == before.status() && now.status() == statusStopped:
		return platform.Accepted{}, fmt.Errorf("%w: %w", said, platform.ErrRefused)
	}
	return platform.Accepted{}, fmt.Errorf("%w: its status is %q", said, now.status())
}

// untilDown waits until the CVM is stopped. A guest that ended without a notice is noted as not to run
// before its host starts it again.
func (c *Client) untilDown(ctx context.Context, h *host, id string) (*vmInfo, error) {
	var hard time.Time
	if c.shutdown > 0 {
		hard = time.Now().Add(c.shutdown)
	}
	for {
		vm, err := h.info(ctx, id)
		switch {
		case err != nil && ctx.Err() == nil:
			c.log.Warn("a cvm that stops was not read", "node", h.Name, "vm_uuid", id, "error", err)
		case err != nil:
			return nil, fmt.Errorf("it was not seen stopped: %w", err)
		case vm == nil:
			return nil, errors.New("it is gone")
		case vm.status() == statusStopped:
			return vm, nil
		case vm.status() == statusExited, !hard.IsZero() && time.Now().After(hard):
			hard = time.Time{}
			if _, err := h.kill(ctx, vm); err != nil {
				return nil, err
			}
			continue
		}
		if !httpcall.Sleep(ctx, c.poll) {
			return nil, fmt.Errorf("it did not stop in time: %w", context.Cause(ctx))
		}
	}
}

// Delete implements platform.Platform: gone already is success (R68). A host removes a CVM in the
// background: its status is "deleting" until it is gone. Each host must answer before an unknown CVM
// counts as gone.
func (c *Client) Delete(ctx context.Context, vmUUID string) error {
	doing := "delete cvm " + vmUUID
	h, vm, err := c.find(ctx, doing, vmUUID)
	switch {
	case errors.Is(err, platform.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	if vm.status() == statusRemoving {
		return nil
	}
	stopped, err := h.kill(ctx, vm)
	switch {
	case errors.Is(err, platform.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("%s: stop it first: %w", doing, err)
	}
	for last := stopped.NoChange; ; {
		err = h.write(ctx, call{doing: "RemoveVm of cvm " + vm.ID, method: "RemoveVm", body: idRequest{vm.ID}})
		if !said(err) {
			break
		}
		// A VMM before 0.5.6 refuses while the process still ends, which may be over by now.
		now, looked := h.info(ctx, vm.ID)
		switch {
		case looked == nil && (now == nil || now.status() == statusRemoving):
			return nil
		case looked == nil && (now.status() == statusStopping || !last) && httpcall.Sleep(ctx, c.poll):
			last = now.status() == statusStopped // the process ended: one more attempt counts
			continue
		case stopped.NoChange && looked == nil && now.status() == statusStopped:
			return fmt.Errorf("%s: %w: %w", doing, err, platform.ErrRefused)
		}
		return fmt.Errorf("%s: it is stopped: %w", doing, err)
	}
	switch {
	case err == nil:
		return nil
	case stopped.NoChange:
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: it is stopped: %w", doing, unknown(err))
}
