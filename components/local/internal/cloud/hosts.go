package cloud

import "slices"

// HostDown says whether a host is without power.
func (c *Cloud) HostDown(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, down := c.down[host]
	return down
}

// KillHost takes the power from a host: each of its VMs dies. No VM of the host starts until
// ReturnHost. It returns when all are gone.
func (c *Cloud) KillHost(host string) error {
	var ended []*vmRun
	err := c.onHost(host, func() {
		c.down[host] = struct{}{}
		for _, v := range c.st.CVMs {
			if r := c.runs[v.VMUUID]; r != nil && c.hostOf(v) == host {
				r.end()
				ended = append(ended, r)
			}
		}
	})
	for _, r := range ended {
		<-r.done
	}
	return err
}

// ReturnHost gives a host its power back: it starts the VMs that were on.
func (c *Cloud) ReturnHost(host string) error {
	return c.onHost(host, func() {
		delete(c.down, host)
		for _, v := range c.st.CVMs {
			if v.VM != nil && c.hostOf(v) == host {
				v.VM.Known = false
			}
		}
		c.reload(host, true)
	})
}

// RestartVMM restarts the server of a host alone: its VMs run on. The server has forgotten the
// reports of guests, and starts VMs that are on and lack a process.
func (c *Cloud) RestartVMM(host string) error {
	return c.onHost(host, func() { c.reload(host, true) })
}

// ReloadVMs reads the VMs of a host again, and starts each VM that is on. It returns the number of VMs.
func (c *Cloud) ReloadVMs(host string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reload(host, false)
}

func (c *Cloud) onHost(host string, act func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.cfg.Hosts, host) {
		return refuse(NotFound, "no host is named %.64q", host)
	}
	act()
	return nil
}

// reload starts the VMs of a host that are on; afresh forgets the reports of guests first. Called
// under the lock.
func (c *Cloud) reload(host string, afresh bool) int {
	n := 0
	for _, v := range c.st.CVMs {
		if v.VM == nil || c.hostOf(v) != host {
			continue
		}
		n++
		if afresh {
			v.BootProgress, v.BootError, v.BootDetail, v.VM.ShutdownProgress, v.VM.Events = "", "", "", "", nil
			delete(c.retries, v.VMUUID)
		}
		if v.PowerOn && !v.VM.Removing && (afresh || c.runs[v.VMUUID] == nil) {
			if err := c.startVM(v); err != nil {
				c.cfg.Log.Warn("vm not started", "instance", v.Name, "error", err)
			}
		}
	}
	return n
}
