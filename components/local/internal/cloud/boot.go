package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/local/internal/appcompose"
	"cadre.dev/local/internal/envelope"
)

// boot spends the boot delay and starts v's machine.
func (c *Cloud) boot(ctx context.Context, v *CVM) Status {
	c.mu.Lock()
	delay, ok := c.settings.BootDelays[v.Name]
	if !ok {
		delay = c.settings.BootDelay
	}
	if v.Status == Pending {
		v.Status = Starting
	}
	v.BootError, v.BootDetail, v.BootProgress = "", "", "booting"
	c.mu.Unlock()
	if spec, err := c.bootSpec(v); err == nil {
		c.tasks.Go(func() { c.cfg.Hypervisor.Prepare(ctx, spec) })
	}
	if !sleep(ctx, time.Duration(delay)) {
		return Stopped
	}
	spec, err := c.bootSpec(v)
	var m Machine
	if err == nil {
		m, err = c.cfg.Hypervisor.Boot(ctx, spec)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		return Stopped // ended on request: no error of the guest
	}
	if err != nil {
		v.BootError, v.BootProgress = err.Error(), ""
		var halted *Halted
		if errors.As(err, &halted) {
			v.BootProgress = halted.Progress
			v.noteEvent("boot.progress", halted.Progress)
		}
		v.noteEvent("boot.error", v.BootError)
		c.cfg.Log.Warn("boot refused", "instance", v.Name, "error", err)
		return Stopped
	}
	if c.closing {
		// Close has not seen this machine.
		c.tasks.Go(m.Kill)
		return Stopped
	}
	c.machines[v.VMUUID] = m
	v.InstanceID, v.BootedAt = m.InstanceID(), time.Now().UTC()
	if v.BootProgress == "booting" { // else the services were quicker
		v.BootProgress = "setting up docker"
		v.noteEvent("boot.progress", v.BootProgress)
	}
	v.noteEvent("instance.info", fmt.Sprintf(`{"app_id":%q,"instance_id":%q}`, v.AppID, v.InstanceID))
	v.Boots++
	if v.VM == nil { // the process of a VM has a watcher: its run
		c.tasks.Go(func() { c.watch(v, m) })
	}
	return Running
}

// Halted is a boot error after which the guest's last report of progress stays visible.
type Halted struct {
	Progress string
	Err      error
}

func (h *Halted) Error() string { return h.Err.Error() }

// Unwrap returns the error.
func (h *Halted) Unwrap() error { return h.Err }

func (c *Cloud) bootSpec(v *CVM) (BootSpec, error) {
	raw, err := c.document(v)
	if err != nil {
		return BootSpec{}, err
	}
	parsed, err := appcompose.Parse(raw)
	if err != nil {
		return BootSpec{}, err
	}
	if !appcompose.Harmless(parsed.PreLaunchScript) {
		return BootSpec{}, fmt.Errorf("pre_launch_script: the local cloud runs no script; leave it out, or send the text that Cadre renders")
	}
	key, err := c.cfg.EnvKey(v.AppID)
	if err != nil {
		return BootSpec{}, fmt.Errorf("env key: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	vars, err := envelope.Decrypt(key, v.EncryptedEnv)
	if err != nil {
		return BootSpec{}, fmt.Errorf("encrypted env: %w", err)
	}
	boot := v.Boots
	size, _ := InstanceTypeNamed(v.InstanceType)
	if v.VM != nil {
		size.VCPU, size.MemoryMB = max(1, int(v.VM.VCPU)), int(v.VM.MemoryMB) // as the launcher does
	}
	return BootSpec{
		UUID: v.VMUUID, Name: v.Name, Index: v.Index, AppID: v.AppID, AppCompose: raw, Compose: parsed.DockerComposeFile, InitScript: parsed.InitScript,
		Env: envelope.Filter(vars, parsed.AllowedEnvs), Seed: v.Seed,
		OSImage: v.OSImage, VCPU: size.VCPU, MemoryMB: size.MemoryMB, HostUpdated: c.settings.HostUpdated, Machine: v.machine(), KMSAuth: c.settings.KMSAuth,
		Notify: func(o Outcome) { c.servicesStarted(v, boot+1, o) },
	}, nil
}

// document is the app-compose.json of v's next boot.
func (c *Cloud) document(v *CVM) ([]byte, error) {
	c.mu.Lock()
	vm, hash := v.VM, v.ComposeHash
	if vm != nil {
		defer c.mu.Unlock()
		return []byte(vm.ComposeFile), nil
	}
	c.mu.Unlock()
	return c.Compose(v.AppID, hash)
}

// startFailed is all that a guest says to its host when `docker compose up` fails (app-compose.sh of
// dstack 0.5 and 0.6): neither the service nor the image. The guest stays up.
const startFailed = "failed to start containers"

// servicesStarted notes the outcome of starting the services of v's boot n.
func (c *Cloud) servicesStarted(v *CVM, n int, o Outcome) {
	// Boot may not have returned yet; its caller then still counts the old number.
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.Boots > n || c.closing {
		return // a later boot reports it; after Close nothing is written
	}
	v.BootError, v.BootDetail, v.BootProgress = "", o.Error, "done"
	switch {
	case o.Error != "":
		v.BootError, v.BootProgress = startFailed, "setting up docker"
		c.cfg.Log.Warn("services not started", "instance", v.Name, "error", o.Error)
	case o.Waiting != "":
		v.BootProgress = "setting up docker; " + o.Waiting
		c.cfg.Log.Info("services are tried again", "instance", v.Name, "reason", o.Waiting)
	}
	if v.BootError != "" {
		v.noteEvent("boot.error", v.BootError)
	} else {
		v.noteEvent("boot.progress", v.BootProgress)
	}
	v.UpdatedAt = time.Now().UTC()
	c.keep()
}

// watch waits for the end of m and deals with an unplanned one.
func (c *Cloud) watch(v *CVM, m Machine) {
	<-m.Done()
	c.forget(v.VMUUID, m)
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.Progress != nil || c.closing || c.machines[v.VMUUID] != nil {
		return // an operation's doing, or one sees to it
	}
	v.Status, v.UpdatedAt = Stopped, time.Now().UTC()
	c.keep()
	c.cfg.Log.Warn("cvm died", "instance", v.Name)
	after := time.Duration(c.settings.AutoRestart)
	if after > 0 {
		c.tasks.Go(func() { c.revive(v, after) })
	}
}

// revive boots a CVM that died, unless its owner did something first.
func (c *Cloud) revive(v *CVM, after time.Duration) {
	if !c.sleep(after) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.Status != Stopped || !v.PowerOn || v.Progress != nil {
		return
	}
	err := c.begin(v, operation{name: "auto_restart", during: Starting, target: Running, work: c.workBoot, shown: true})
	if err != nil {
		c.cfg.Log.Warn("cvm not restarted", "instance", v.Name, "error", err)
	}
}
