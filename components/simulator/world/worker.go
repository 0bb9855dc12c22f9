package world

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	agent "cadre.dev/agent/simulated"
	"cadre.dev/core/group"
	"cadre.dev/simulator/plan"
)

// worker is one process of an agent: the agents' own code, from the admission of its Boot on. A
// Boot may have several processes, one after the other.
type worker struct {
	agent *agent.Agent
	boot  string
	gone  atomic.Bool
	end   context.CancelFunc
	// epoch is the last announced epoch of the Slot's policy.
	epoch latest
	// goesBy and found are its state in the trace; guarded by World.mu.
	goesBy string
	found  map[*process]bool
}

// die ends the process at once: its later actions have no effect.
func (r *worker) die() {
	r.gone.Store(true)
	r.end()
}

// dialTakes is the time until a session is up.
const dialTakes = 100 * time.Millisecond

// againAfter is the time between two agent processes of a Boot.
const againAfter = time.Second

// live runs a CVM's agent until ctx ends, which is when the CVM stops.
func (w *World) live(ctx context.Context, c *cvm) {
	config, run := []byte(nil), uint32(0)
	for ctx.Err() == nil {
		boot := w.untilAdmitted(ctx, c)
		if boot == "" {
			return
		}
		r, err := w.newWorker(c, boot, run, config)
		if err != nil {
			panic(fmt.Sprintf("the agent of %s does not start: %v", c.slot, err)) // the simulator made its disk
		}
		lost := w.work(ctx, c, r)
		if config, run = r.agent.Config(), run+1; lost {
			config, run = nil, 0
			w.anew(c, boot)
		}
		for more := true; more; more = w.isMute(c) {
			if !pause(ctx, againAfter) {
				return
			}
		}
	}
}

func (w *World) isMute(c *cvm) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.mute > 0
}

// untilAdmitted makes a Boot ask the coordinators in turn for admission; "" when ctx ended before.
func (w *World) untilAdmitted(ctx context.Context, c *cvm) (boot string) {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		if boot := w.admit(ctx, c); boot != "" {
			return boot
		}
		if !pause(ctx, wait) {
			return ""
		}
	}
}

// admit asks each coordinator once; "" when none admits the Boot.
func (w *World) admit(ctx context.Context, c *cvm) string {
	w.mu.Lock()
	e := w.evidenceLocked(c)
	in, processes := c.admitted, w.heardByLocked(c)
	w.mu.Unlock()
	if ctx.Err() != nil {
		return ""
	}
	if in {
		return e.Boot
	}
	for _, p := range processes {
		if in, err := p.coordinator.Admit(ctx, e); err != nil || !in {
			continue
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if ctx.Err() != nil || c.boot != e.Boot {
			return ""
		}
		c.admitted = true
		w.standLocked(c.group(), notWell)
		return e.Boot
	}
	return ""
}

// newWorker makes a process.
func (w *World) newWorker(c *cvm, boot string, run uint32, config []byte) (*worker, error) {
	r := &worker{boot: boot, epoch: make(latest, 1), found: map[*process]bool{}}
	does := &commands{w: w, c: c, r: r}
	w.mu.Lock()
	at := c.bootAt
	w.mu.Unlock()
	var err error
	r.agent, err = agent.New(agent.Config{
		Cluster: Cluster, Group: c.group(), Slot: c.slot, BootAt: at, Run: run, Config: config,
		Disk: &c.disk, Driver: &driver{w: w, c: c, r: r}, Commands: does, Checks: does, Gone: r.gone.Load,
		Configured: func(config *group.AgentConfig) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if c.boot == boot && !r.gone.Load() {
				c.config = config
				w.standLocked(c.group(), notWell)
			}
		},
		Log: w.log.With("slot", c.slot, "boot", boot),
	})
	return r, err
}

// work runs the process until it ends; it reports whether the Boot has lost its Slot.
func (w *World) work(ctx context.Context, c *cvm, r *worker) (lost bool) {
	life, end := context.WithCancel(ctx)
	defer end()
	r.end = end
	w.mu.Lock()
	if ctx.Err() != nil || c.boot != r.boot {
		w.mu.Unlock()
		return false
	}
	c.worker = r
	w.mu.Unlock()
	var all sync.WaitGroup
	all.Go(func() { r.agent.Run(life) })
	all.Go(func() { w.renew(life, c, r) })
	if g := w.group(c.group()); g.Hook != plan.Unhooked || g.Launch != plan.Unhooked {
		all.Go(func() { w.decide(life, c, r) })
	}
	sessions := map[*process]context.CancelFunc{}
	for open := true; open; {
		w.mu.Lock()
		reached, changed := w.heardByLocked(c), w.relinked
		w.mu.Unlock()
		now := map[*process]bool{}
		for _, p := range reached {
			if now[p] = true; sessions[p] == nil {
				session, over := context.WithCancel(life)
				sessions[p] = over
				all.Go(func() {
					if pause(session, dialTakes) {
						r.agent.Talk(session, p.slot, &control{w: w, c: c, r: r, p: p})
					}
				})
			}
		}
		for p, over := range sessions {
			if !now[p] {
				over()
				delete(sessions, p)
			}
		}
		select {
		case <-life.Done():
			open = false
		case <-r.agent.Lost():
			lost, open = true, false
		case <-changed:
		}
	}
	r.die()
	all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.worker == r {
		c.worker = nil
	}
	return lost && ctx.Err() == nil
}

// A Boot that lost its Slot is replaced by another Boot, which asks for admission.
func (w *World) anew(c *cvm, boot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.boot != boot {
		return
	}
	c.admitted = false
	w.standLocked(c.group(), "lost its slot")
	w.boots++
	c.boot, c.bootAt = fmt.Sprintf("boot-%d", w.boots), time.Now()
}

// heardByLocked are the coordinators that a member can reach now.
func (w *World) heardByLocked(c *cvm) []*process {
	if c.mute > 0 {
		return nil
	}
	var out []*process
	for n := range w.plan.Coordinators {
		slot := plan.Coordinator(n)
		if p := w.coordinators[slot]; p != nil && !p.dead() && w.cuts[cut{slot, toMembers}] == 0 {
			out = append(out, p)
		}
	}
	return out
}

// relinkLocked makes members check again which coordinators they can reach.
func (w *World) relinkLocked() {
	close(w.relinked)
	w.relinked = make(chan struct{})
}

var errNoAnswer = errors.New("no answer")
