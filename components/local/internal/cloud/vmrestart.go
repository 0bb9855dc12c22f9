package cloud

import (
	"fmt"
	"time"
)

// maxRetries is how often a host with the habits of 0.6 starts a VM that ends again and again.
const maxRetries = 5

// retries are the attempts of a host to start a VM that is on and lacks a process. A host of 0.5
// starts it at each look.
type retries struct {
	attempts int
	next     time.Time // of the next attempt; zero: none is planned
	healthy  time.Time // since when the process was seen; zero: it is gone
	reported bool
}

// running notes that the process is there. After a while the earlier attempts are forgotten.
func (r *retries) running(now time.Time, every time.Duration) {
	if r.healthy.IsZero() {
		r.healthy = now
	}
	if now.Sub(r.healthy) >= 15*every {
		*r = retries{healthy: r.healthy}
	}
}

// exited decides about a VM whose process is gone, at a look that comes once in every. The pauses
// have the same proportion to it as on a real host: 5 s, doubling to 300 s, at a look in 20 s.
func (r *retries) exited(now time.Time, every time.Duration) (start, exhausted bool) {
	r.healthy = time.Time{}
	switch {
	case r.attempts >= maxRetries:
		exhausted, r.reported = !r.reported, true
		return false, exhausted
	case r.next.IsZero():
		r.next = now.Add(every / 4)
		return false, false
	case now.Before(r.next):
		return false, false
	}
	r.attempts++
	r.next = now.Add(min(every/4<<r.attempts, 15*every))
	return true, false
}

// restartExited looks, once in the time of the setting AutoRestart, for VMs that are on and whose
// process is gone, and starts them with the files that are there.
func (c *Cloud) restartExited() {
	for {
		c.mu.Lock()
		every, changed := time.Duration(c.settings.AutoRestart), c.settled
		c.mu.Unlock()
		var tick <-chan time.Time
		if every > 0 {
			tick = time.After(every)
		}
		select {
		case <-c.ctx.Done():
			return
		case <-changed:
		case <-tick:
			c.look(time.Now(), every)
		}
	}
}

// look is one look of all hosts.
func (c *Cloud) look(now time.Time, every time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.st.CVMs {
		if v.VM == nil {
			continue
		}
		r := c.retries[v.VMUUID]
		if r == nil {
			r = &retries{}
			c.retries[v.VMUUID] = r
		}
		_, down := c.down[c.hostOf(v)]
		switch {
		case down, !v.PowerOn, v.VM.Removing:
			delete(c.retries, v.VMUUID)
			continue
		case c.runs[v.VMUUID] != nil:
			r.running(now, every)
			continue
		}
		if c.newer() {
			start, exhausted := r.exited(now, every)
			if exhausted {
				v.noteEvent("vmm.auto_restart.exhausted", fmt.Sprintf("Automatic restart stopped after %d failed attempts", r.attempts))
			}
			if !start {
				continue
			}
		}
		if err := c.startVM(v); err != nil {
			c.cfg.Log.Warn("vm not restarted", "instance", v.Name, "error", err)
		}
	}
}
