package world

import (
	"context"
	"fmt"
	"strings"
	"time"

	agent "cadre.dev/agent/simulated"
	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// cvm is the content of a CVM: the agent and the workload. Guarded by World.mu, except disk.
type cvm struct {
	*cloud.CVM[*cvm]

	w    *World
	slot string
	// boot names its Boot while it runs, since bootAt.
	boot   string
	bootAt time.Time
	// off ends the programs in it; nil: none run.
	off context.CancelFunc
	// runs is the release of this Boot.
	runs string
	// admitted: a coordinator admitted this Boot.
	admitted bool
	// worker is the process of its agent; nil: none runs.
	worker *worker
	// well: it runs, is admitted and is healthy. served: the trace has it as serving; without a
	// leader no voting member serves.
	well, served bool
	// behindUntil is until when it lags behind the others.
	behindUntil time.Time
	// mute and sick count its present faults.
	mute, sick int
	// hung: its workload hangs until a restart. starting: a restart is under way.
	hung, starting bool
	// armed: its agent dies at that point of its work, counted from now; 0: it does not.
	armed int
	// disk is the agent's storage.
	disk agent.Disk
	// joined is on its disk: the workload started as a member of its set, at joinedAt. config is
	// the agent's config in force, which the workload sees.
	joined   bool
	joinedAt time.Time
	config   *group.AgentConfig
	// outAt is when it was taken out of a set; zero: it never was.
	outAt time.Time
}

func (c *cvm) group() string { return plan.GroupOf(c.slot) }

// ill: its workload reports as unhealthy.
func (c *cvm) ill() bool { return c.sick > 0 || c.hung || c.starting || c.runs == plan.IllRelease }

// standLocked updates the health of a group's members, updates the group's cluster, and makes their
// agents observe.
func (w *World) standLocked(name, why string) {
	for range 2 { // a healthy member may admit others
		for _, one := range w.cloud.AllLocked() {
			c := one.Guest
			if c.group() == name {
				w.enterLocked(c)
				was := c.well
				c.well = c.boot != "" && c.admitted && !c.ill() && w.workloads[name].started(c)
				if c.well && !was {
					w.catchUpLocked(c)
				}
			}
		}
		w.electLocked(name, why)
	}
	for _, one := range w.cloud.AllLocked() {
		c := one.Guest
		if c.group() == name && c.worker != nil {
			c.worker.agent.Kick()
		}
	}
}

// catchUpLocked makes a new member lag behind the leader for a while.
func (w *World) catchUpLocked(c *cvm) {
	cluster := w.workloads[c.group()]
	if w.plan.Takes.Lag == 0 || cluster.leader == "" || cluster.leader == c.slot {
		return
	}
	lag := w.drawLocked("lag "+c.slot, w.plan.Takes.Lag)
	c.behindUntil = time.Now().Add(lag)
	w.lookAgainLocked(c.group(), lag)
}

// caughtUp reports that the member no longer lags behind.
func (c *cvm) caughtUp() bool { return !time.Now().Before(c.behindUntil) }

// stopLocked records that nothing runs in the CVM any more.
func (w *World) stopLocked(c *cvm, why string) {
	c.well = false
	w.electLocked(c.group(), why)
	if c.off != nil {
		c.off()
	}
	if c.worker != nil {
		c.worker.die()
	}
	c.off, c.worker, c.boot, c.admitted = nil, nil, "", false
	w.standLocked(c.group(), why)
}

// Why the workload of a CVM that stays does not serve.
const (
	restarted = "its service restarts"
	notWell   = "not well"
)

func (w *World) wellLocked(slot string) bool {
	c := w.cvmLocked(slot)
	return c != nil && c.well
}

// guest is the content of a new CVM.
func (w *World) guest(one *cloud.CVM[*cvm]) *cvm {
	return &cvm{CVM: one, w: w, slot: strings.TrimPrefix(one.Name, Cluster+"-")}
}

// cvmLocked is the CVM of the Slot; nil: there is none.
func (w *World) cvmLocked(slot string) *cvm {
	if one := w.cloud.NamedLocked(Cluster + "-" + slot); one != nil {
		return one.Guest
	}
	return nil
}

// Boots starts a Boot.
func (c *cvm) Boots() {
	w := c.w
	w.boots++
	c.boot, c.bootAt, c.hung, c.starting = fmt.Sprintf("boot-%d", w.boots), time.Now(), false, false
	c.runs = plan.ReleaseOf(w.contentLocked(c.ComposeHash))
	if c.runs == plan.DeadRelease {
		return // it boots, and no coordinator hears of it
	}
	c.off = w.spawn(func(ctx context.Context) { w.live(ctx, c) })
}

// Ends ends the Boot. Members of a cluster without its own set leave the cluster with their CVMs.
func (c *cvm) Ends(why string) {
	c.w.stopLocked(c, why)
	if cluster := c.w.workloads[c.group()]; why == cloud.Deleted && !cluster.changes() {
		cluster.leave(c.slot)
		c.w.standLocked(c.group(), why)
	}
}

// ail mutes or sickens members for a while.
func (w *World) ail(ctx context.Context, f plan.Fault, slots ...string) {
	var all []*cvm
	w.mu.Lock()
	for _, slot := range slots {
		if c := w.cvmLocked(slot); c != nil {
			all = append(all, c)
		}
	}
	w.mu.Unlock()
	change := func(by int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range all {
			if f.Kind == plan.Sicken {
				c.sick += by
				w.standLocked(c.group(), notWell)
				continue
			}
			was := c.mute > 0
			if c.mute += by; was != (c.mute > 0) {
				kind := trace.Heard
				if c.mute > 0 {
					kind = trace.Muted
				}
				w.noteLocked(trace.Event{Kind: kind, By: "fault", Group: c.group(), Slot: c.slot})
				w.relinkLocked()
			}
		}
	}
	change(1)
	w.wait(ctx, f.For)
	change(-1)
}

// hang makes a member's workload hang until a restart, or until an operator acts where nothing
// heals.
func (w *World) hang(ctx context.Context, f plan.Fault) {
	hangs := func(yes bool) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		c := w.cvmLocked(f.Target)
		if c == nil || c.boot == "" || c.hung == yes {
			return false
		}
		c.hung = yes
		w.standLocked(c.group(), notWell)
		return true
	}
	if hangs(true) && w.group(plan.GroupOf(f.Target)).Healing == plan.Unhealed {
		w.wait(ctx, f.For)
		hangs(false)
	}
}

// crashAgent ends a member's agent, which starts again after a while.
func (w *World) crashAgent(ctx context.Context, f plan.Fault) {
	w.mu.Lock()
	if c := w.cvmLocked(f.Target); c != nil && c.worker != nil {
		c.worker.die()
	}
	w.mu.Unlock()
	w.ail(ctx, f, f.Target)
}

// third are every third of all existing members.
func (w *World) third() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for n, one := range w.cloud.AllLocked() {
		if n%3 == 0 {
			out = append(out, one.Guest.slot)
		}
	}
	return out
}

// strike restarts or destroys a CVM without an order of a coordinator.
func (w *World) strike(slot string, kind plan.FaultKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.cvmLocked(slot)
	switch {
	case c == nil:
	case kind == plan.Reboot:
		w.cloud.RebootLocked(c.CVM)
	case kind == plan.Halt:
		w.cloud.HaltLocked(c.CVM)
	default:
		w.cloud.RemoveLocked(c.CVM, "lost")
		w.noteLocked(trace.Event{Kind: trace.Lost, By: "fault", Group: c.group(), Slot: slot})
	}
}
