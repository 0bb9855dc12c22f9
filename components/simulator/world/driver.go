package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	agent "cadre.dev/agent/simulated"
	"cadre.dev/core/group"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// driver gives an agent access to the workload in its CVM.
type driver struct {
	w *World
	c *cvm
	r *worker
}

var (
	_ agent.Driver  = (*driver)(nil)
	_ agent.Changer = (*driver)(nil)
)

var errGone = errors.New("the agent is gone")

// hereLocked is an error where the agent's process no longer belongs to the CVM's Boot.
func (d *driver) hereLocked() error {
	if d.r.gone.Load() || d.c.boot != d.r.boot {
		return errGone
	}
	return nil
}

func (d *driver) Observe(context.Context) (agent.View, error) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if err := d.hereLocked(); err != nil {
		return agent.View{}, err
	}
	return d.w.viewLocked(d.c), nil
}

// handoverTakes is how long leadership takes to move.
const handoverTakes = 300 * time.Millisecond

// Transfer makes the first serving candidate the leader.
func (d *driver) Transfer(ctx context.Context, r agent.TransferRequest) (agent.Transferred, error) {
	f := d.fate("transfer")
	defer d.r.point(d.w, d.c, "a hand-over")
	if !pause(ctx, handoverTakes+f.slow) {
		return agent.Transferred{}, fmt.Errorf("%w: %w", agent.ErrTransient, context.Cause(ctx))
	}
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if err := d.hereLocked(); err != nil {
		return agent.Transferred{}, err
	}
	cluster := d.w.workloads[d.c.group()]
	able := slices.DeleteFunc(slices.Clone(r.Candidates), func(slot string) bool {
		return !d.w.wellLocked(slot) || !d.w.cvmLocked(slot).caughtUp() || !slices.Contains(cluster.voters, slot)
	})
	switch {
	case cluster.leader != r.ExpectedLeader:
		return agent.Transferred{Leader: cluster.leader, Epoch: cluster.epoch}, nil
	case f.refused:
		return agent.Transferred{}, fmt.Errorf("%w: it does something else", agent.ErrBusy)
	case len(able) == 0:
		return agent.Transferred{}, fmt.Errorf("%w: none of %v can lead", agent.ErrUnsafe, r.Candidates)
	}
	if f.applied {
		d.w.leadLocked(d.c.group(), able[0])
		d.w.standLocked(d.c.group(), "hands over")
	}
	if f.silent {
		return agent.Transferred{}, agent.ErrTransient
	}
	return agent.Transferred{Moved: true, Leader: cluster.leader, Epoch: cluster.epoch}, nil
}

// fateIn draws the fate of a request within a CVM, with the failure rate that of selects.
func (w *World) fateIn(what string, of func(plan.Odds) float64) fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, r := w.oddsLocked(what)
	odds, f := of(all), fate{applied: true}
	if r.Float64() < odds {
		f.slow = time.Duration(r.Int64N(int64(callLimit)))
	}
	switch chance := 3 * r.Float64(); {
	case chance < odds:
		f.applied, f.refused = false, true
	case chance < 2*odds:
		f.silent = true
	case chance < 3*odds:
		f.applied, f.silent = false, true
	}
	if f.slow > 0 || !f.applied || f.silent {
		w.faults++
	}
	return f
}

func (d *driver) fate(what string) fate {
	return d.w.fateIn(what+" "+d.c.slot, func(o plan.Odds) float64 { return o.Handover })
}

// Drain is an agent's last action of a drain, and takes no time.
func (d *driver) Drain(context.Context) error {
	defer d.r.point(d.w, d.c, "the end of a drain")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if err := d.hereLocked(); err != nil {
		return err
	}
	d.w.noteLocked(trace.Event{Kind: trace.Drained, By: d.c.slot, Group: d.c.group(), Slot: d.c.slot, Boot: d.r.boot})
	return nil
}

func (d *driver) CancelDrain(context.Context) error { return nil }

func (d *driver) Join(ctx context.Context, slot string) error {
	return d.change(ctx, group.SetChange{Do: group.SetAdd, Slot: slot})
}

func (d *driver) Promote(ctx context.Context, slot, _ string) error {
	return d.change(ctx, group.SetChange{Do: group.SetPromote, Slot: slot})
}

func (d *driver) Leave(ctx context.Context, slot, _ string) error {
	return d.change(ctx, group.SetChange{Do: group.SetRemove, Slot: slot})
}

func (d *driver) change(ctx context.Context, change group.SetChange) error {
	f := d.fate("set")
	defer d.r.point(d.w, d.c, "a change of the set")
	if !pause(ctx, f.slow) {
		return fmt.Errorf("%w: %w", agent.ErrTransient, context.Cause(ctx))
	}
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if err := d.hereLocked(); err != nil {
		return err
	}
	if f.refused {
		return agent.ErrBusy
	}
	if f.applied {
		if err := d.w.changeSetLocked(d.c, change); err != nil {
			return err
		}
	}
	if f.silent {
		return agent.ErrTransient
	}
	return nil
}

// viewLocked is a member's view of its workload.
func (w *World) viewLocked(c *cvm) agent.View {
	cluster, well := w.workloads[c.group()], !c.ill()
	caught := well && c.caughtUp()
	liveness := agent.LivenessAlive
	if !well {
		liveness = agent.LivenessRefused
	}
	out := agent.View{Liveness: liveness, Ready: well, CaughtUp: &caught, MayDisrupt: true, Role: agent.RoleNone}
	if !cluster.leads() {
		return out
	}
	out.Leader, out.Epoch, out.Role = cluster.leader, cluster.epoch, agent.RoleFollower
	switch cluster.leader {
	case c.slot:
		out.Role = agent.RoleLeader
	case "":
		out.MayDisrupt, out.MayDisruptReason = false, "the cluster has no leader"
	}
	if cluster.votes() && well {
		cluster.voteLocked(c, &out)
	}
	return out
}

// voteLocked adds the view of a member that votes, or is to vote.
func (c *workload) voteLocked(m *cvm, out *agent.View) {
	no := false
	if !c.started(m) {
		*out = agent.View{Role: agent.RoleUnknown, MayDisruptReason: "it does not answer"}
		return
	}
	out.Voters, out.Learners, out.QuorumMember = slices.Clone(c.voters), slices.Clone(c.learners), slices.Contains(c.voters, m.slot)
	led := c.leader != ""
	switch {
	case slices.Contains(c.learners, m.slot):
		out.Role, out.Ready, out.CaughtUp = agent.RoleLearner, false, &no
	case !led || !out.QuorumMember:
		out.Ready, out.CaughtUp = false, nil
	}
	for _, slot := range c.learners {
		out.Busy = append(out.Busy, slot+" joins")
	}
	switch {
	case !led:
		out.MayDisrupt, out.MayDisruptReason = false, "the members have no leader"
	case len(out.Busy) > 0:
		out.MayDisrupt, out.MayDisruptReason = false, "busy: "+out.Busy[0]
	}
}
