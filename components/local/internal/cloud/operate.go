package cloud

import (
	"context"
	"time"
)

// operation is one accepted change of one CVM.
type operation struct {
	name   string
	during Status
	target Status
	// shown at once: no accept lag.
	shown bool
	// was is the hardware before, of an operation that changes it.
	was *Hardware
	// work carries it out and returns the status to end in; "" when the CVM is gone.
	work func(ctx context.Context, v *CVM) Status
}

// begin accepts op, or refuses because another operation runs. Called under the
// lock; persists before anything happens.
func (c *Cloud) begin(v *CVM, op operation) error {
	if err := c.free(v); err != nil {
		return err
	}
	now := time.Now().UTC()
	lag := time.Duration(c.settings.AcceptLag)
	v.Progress = &Progress{Operation: op.name, Target: op.target, StartedAt: now, CorrelationID: newUUID(), Shown: op.shown || lag == 0, Was: op.was}
	v.noteTask()
	v.PowerOn = op.target == Running
	if v.Progress.Shown {
		v.Status, v.UpdatedAt = op.during, now
	}
	if err := c.save(); err != nil {
		v.Progress, v.Tasks = nil, v.Tasks[:len(v.Tasks)-1]
		return err
	}
	c.cfg.Log.Info("operation accepted", "operation", op.name, "instance", v.Name)
	c.tasks.Go(func() { c.carryOut(v, op, lag) })
	return nil
}

// free refuses when v has an operation or the cloud is closing.
func (c *Cloud) free(v *CVM) error {
	if c.closing {
		return refuse(Busy, "the local cloud is shutting down")
	}
	if v.Progress != nil {
		return refuse(Busy, "Another operation is in progress for this CVM")
	}
	return nil
}

func (c *Cloud) carryOut(v *CVM, op operation, lag time.Duration) {
	if !op.shown && lag > 0 {
		if !c.sleep(lag) {
			return // the record still has the open operation
		}
		c.mu.Lock()
		v.Progress.Shown = true
		v.Status, v.UpdatedAt = op.during, time.Now().UTC()
		c.mu.Unlock()
	}
	end := op.work(c.ctx, v)
	if c.ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if end != "" {
		if end == Running && c.machines[v.VMUUID] == nil {
			end = Stopped // it died between its boot and now
		}
		v.endTask(end)
		v.Status, v.Progress, v.UpdatedAt = end, nil, time.Now().UTC()
	}
	c.keep()
	c.cfg.Log.Info("operation done", "operation", op.name, "instance", v.Name, "status", string(end), "boot_error", v.BootError)
}

// sleep waits d; false when the cloud closes first.
func (c *Cloud) sleep(d time.Duration) bool { return sleep(c.ctx, d) }

// sleep waits d; false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// resume puts v into motion after a restart of the daemon; called under the lock.
func (c *Cloud) resume(v *CVM) {
	if v.VM != nil {
		c.resumeVM(v)
		return
	}
	was := v.Progress
	if was != nil {
		v.endTask(was.Target) // the record has its effect, and the next step is a task of its own
	}
	v.Progress = nil
	var err error
	switch {
	case v.Status == Deleting || (was != nil && was.Operation == "delete"):
		err = c.begin(v, operation{name: "delete", during: Deleting, target: Deleting, work: c.workDelete, shown: true})
	case v.PowerOn:
		err = c.begin(v, operation{name: "resume", during: Starting, target: Running, work: c.workBoot, shown: true})
	default:
		v.Status = Stopped
	}
	if err != nil {
		c.cfg.Log.Error("cvm not resumed", "instance", v.Name, "error", err)
	}
}

func (c *Cloud) workBoot(ctx context.Context, v *CVM) Status { return c.boot(ctx, v) }

// workCycle stops v as its guest wishes and boots it.
func (c *Cloud) workCycle(ctx context.Context, v *CVM) Status {
	c.halt(ctx, v, true)
	return c.boot(ctx, v)
}

// workCycleHard kills v and boots it.
func (c *Cloud) workCycleHard(ctx context.Context, v *CVM) Status {
	c.halt(ctx, v, false)
	return c.boot(ctx, v)
}

func (c *Cloud) workShutdown(ctx context.Context, v *CVM) Status {
	c.halt(ctx, v, true)
	return Stopped
}

func (c *Cloud) workStop(ctx context.Context, v *CVM) Status {
	c.halt(ctx, v, false)
	return Stopped
}

func (c *Cloud) workDelete(ctx context.Context, v *CVM) Status {
	c.halt(ctx, v, false)
	if !c.sleep(time.Duration(c.Settings().DeleteLag)) {
		return ""
	}
	if err := c.cfg.Hypervisor.Erase(v.VMUUID); err != nil {
		c.cfg.Log.Error("disk not erased", "instance", v.Name, "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(v)
	return ""
}

func (c *Cloud) remove(v *CVM) {
	others := false
	left := c.st.CVMs[:0]
	for _, o := range c.st.CVMs {
		if o != v {
			left = append(left, o)
			others = others || o.AppID == v.AppID
		}
	}
	c.st.CVMs = left
	if !others && c.settings.DropEmptyApps {
		delete(c.st.Apps, v.AppID)
	}
}

// halt ends v's machine, if it has one.
func (c *Cloud) halt(ctx context.Context, v *CVM, graceful bool) {
	m, ok := c.Machine(v.VMUUID)
	if !ok {
		return
	}
	if graceful {
		if d := time.Duration(v.ShutdownTimeout) * time.Second; d > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, d)
			defer cancel()
		}
		m.Stop(ctx)
	} else {
		m.Kill()
	}
	c.forget(v.VMUUID, m)
}

// forget drops a removed machine and informs the gateway.
func (c *Cloud) forget(uuid string, m Machine) {
	c.mu.Lock()
	mine := c.machines[uuid] == m
	if mine {
		delete(c.machines, uuid)
	}
	c.mu.Unlock()
	if mine && c.cfg.OnDown != nil {
		c.cfg.OnDown(uuid)
	}
}
