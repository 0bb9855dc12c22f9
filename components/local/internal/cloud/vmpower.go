package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNoGuest means that no guest agent answers its host: the guest boots, or is down.
var ErrNoGuest = errors.New("client error (Connect): Connection timed out (os error 110)")

// vmRun is one process of a VM, from its start until its end.
type vmRun struct {
	ctx  context.Context //nolint:containedctx // the life of the process, which outlives the call that starts it
	end  context.CancelFunc
	done chan struct{}
}

// StartVM starts the process of a VM with the files that are there. A process that runs already
// stays, and its reports of the boot are forgotten.
func (c *Cloud) StartVM(host, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.vm(host, id)
	if v == nil {
		return noFile("Failed to start VM: Failed to read manifest: Failed to read manifest", id, "vm-manifest.json")
	}
	delete(c.retries, id)
	if err := c.startVM(v); err != nil {
		return fmt.Errorf("Failed to start VM: %w", err) //nolint:staticcheck // the text of the real server
	}
	return nil
}

// startVM starts v's process unless it runs; called under the lock.
func (c *Cloud) startVM(v *CVM) error {
	switch {
	case c.closing:
		return errClosed
	case v.VM.Removing:
		return errors.New("VM is being removed")
	case !c.hasImage(v.OSImage):
		return noImage("Failed to load image info", v.OSImage)
	}
	v.PowerOn, v.VM.Disk, v.VM.Known = true, true, true
	v.BootError, v.BootDetail, v.VM.ShutdownProgress, v.BootProgress = "", "", "", "booting"
	if c.runs[v.VMUUID] != nil {
		v.BootProgress = "running"
		return c.save()
	}
	v.Status, v.UpdatedAt, v.VM.BeganAt, v.VM.StoppedAt = Starting, time.Now().UTC(), time.Now().UTC(), time.Time{}
	if err := c.save(); err != nil {
		return err
	}
	ctx, end := context.WithCancel(c.ctx)
	r := &vmRun{ctx: ctx, end: end, done: make(chan struct{})}
	c.runs[v.VMUUID] = r
	c.cfg.Log.Info("vm starts", "instance", v.Name, "host", c.hostOf(v))
	c.tasks.Go(func() { c.runVM(v, r) })
	return nil
}

// runVM is the life of a process.
func (c *Cloud) runVM(v *CVM, r *vmRun) {
	defer r.end()
	if c.boot(r.ctx, v) == Running {
		if m, ok := c.Machine(v.VMUUID); ok {
			c.mu.Lock()
			v.Status = Running
			c.mu.Unlock()
			select {
			case <-m.Done():
			case <-r.ctx.Done():
				if c.ctx.Err() == nil {
					m.Kill()
				}
				<-m.Done() // Close stops it in order
			}
			c.forget(v.VMUUID, m)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runs, v.VMUUID)
	v.Status, v.UpdatedAt, v.VM.StoppedAt = Stopped, time.Now().UTC(), time.Now().UTC()
	close(r.done)
	if c.ctx.Err() == nil {
		c.keep()
		c.cfg.Log.Info("vm ended", "instance", v.Name, "started", v.PowerOn, "boot_error", v.BootError)
	}
}

// StopVM ends the process of a VM, as a power cut for its guest. It returns before the end. For a VM
// without a process since the host's start it is an error, after the VM is noted as off.
func (c *Cloud) StopVM(host, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.vm(host, id)
	if v == nil {
		return noFile("Failed to stop VM: Failed to set started: Failed to write state", id, "vm-state.json")
	}
	v.PowerOn = false
	delete(c.retries, id)
	if err := c.save(); err != nil {
		return err
	}
	if !v.VM.Known {
		return errors.New("Failed to stop VM: Server returned error: Process not found") //nolint:staticcheck // the text of the real server
	}
	if r := c.runs[id]; r != nil {
		r.end()
	}
	return nil
}

// ShutdownVM asks the guest to shut down. The guest reports a moment later that it powers off; only
// from then on the VM no longer counts as started.
func (c *Cloud) ShutdownVM(host, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.vm(host, id)
	if v == nil {
		return errors.New("vm not found")
	}
	r, m := c.runs[id], c.machines[id]
	if r == nil || m == nil {
		return ErrNoGuest
	}
	lag := time.Duration(c.settings.AcceptLag)
	c.tasks.Go(func() {
		if !sleep(r.ctx, lag) {
			return
		}
		c.mu.Lock()
		if c.runs[id] != r || r.ctx.Err() != nil {
			c.mu.Unlock()
			return // this guest is gone
		}
		v.PowerOn, v.VM.ShutdownProgress = false, "powering off"
		v.noteEvent("shutdown.progress", "powering off")
		c.keep()
		c.mu.Unlock()
		m.Stop(r.ctx)
	})
	return nil
}

// RemoveVM begins to remove a VM with its disk. A VM that runs is stopped hard.
func (c *Cloud) RemoveVM(host, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.vm(host, id)
	switch {
	case v == nil:
		return errors.New("Failed to remove VM: VM not found") //nolint:staticcheck // the text of the real server
	case v.VM.Removing:
		return nil
	}
	v.VM.Removing = true
	if err := c.save(); err != nil {
		v.VM.Removing = false
		return err
	}
	c.finishRemoval(v)
	return nil
}

func (c *Cloud) finishRemoval(v *CVM) {
	r := c.runs[v.VMUUID]
	c.tasks.Go(func() {
		if r != nil {
			r.end()
			<-r.done
		}
		c.workDelete(c.ctx, v)
		if c.ctx.Err() != nil {
			return // the next Open resumes the removal
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keep()
		c.cfg.Log.Info("vm removed", "instance", v.Name)
	})
}

// resumeVM puts v into motion after a restart of the daemon; called under the lock.
func (c *Cloud) resumeVM(v *CVM) {
	v.Status, v.BootProgress, v.BootError, v.BootDetail = Stopped, "", "", ""
	switch {
	case v.VM.Removing:
		c.finishRemoval(v)
	case v.PowerOn:
		if err := c.startVM(v); err != nil {
			c.cfg.Log.Error("vm not resumed", "instance", v.Name, "error", err)
		}
	}
}
