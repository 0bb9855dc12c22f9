package world

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/platform"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
)

// cvm is a CVM with the agent and the workload in it. Guarded by World.mu.
type cvm struct {
	platform.Instance

	slot string
	// next is the hash of what it boots, or booted last.
	next string
	// boot names its Boot while it runs; bootAt is since when. booting counts, so that a
	// restart within a restart counts once.
	boot    string
	bootAt  time.Time
	booting int
	// admitted: some coordinator let this Boot in.
	admitted bool
	// well: it runs, is admitted and not ill. served: it is what trace says; of those that
	// vote none serves without a leader.
	well, served bool
	// mute and sick count what ails it.
	mute, sick int
	// hung: its workload hangs until it is started anew.
	hung bool
	// told is the newest that it was told, in the order of Terms and versions.
	told *controlv1.Desired
	// drained are the Operations that it drained for, with who leads since; "" moved nothing.
	drained map[string]string
	// restarted are the Operations that it restarted its service for.
	restarted map[string]bool
	// seenTerm and seenState are on its disk.
	seenTerm, seenState uint64
	sequence            uint64
	// joined is on its disk: the workload started as a member of its set, at joinedAt. config is the last
	// that the agent was given, read from configText.
	joined   bool
	joinedAt time.Time
	// outAt is when it was taken out of a set; zero: it never was.
	outAt      time.Time
	config     *group.AgentConfig
	configText []byte
}

func (c *cvm) group() string { return plan.GroupOf(c.slot) }

// ill: its workload answers that it is not well.
func (c *cvm) ill() bool { return c.sick > 0 || c.hung }

// membersLook is how often a member looks at its orders, and reports.
const membersLook = 500 * time.Millisecond

// members runs what is in the CVMs, until ctx ends.
func (w *World) members(ctx context.Context) {
	for pause(ctx, membersLook) {
		w.mu.Lock()
		all, processes := w.sortedLocked(), w.processesLocked()
		w.mu.Unlock()
		for _, c := range all {
			w.admit(ctx, c, processes)
			w.live(c, processes)
		}
	}
}

// processesLocked are the coordinators that members can reach now.
func (w *World) processesLocked() []*process {
	var out []*process
	for n := range w.plan.Coordinators {
		slot := plan.Coordinator(n)
		if p := w.coordinators[slot]; p != nil && !p.dead() && w.cuts[cut{slot, toMembers}] == 0 {
			out = append(out, p)
		}
	}
	return out
}

// admit has a Boot ask the coordinators in turn to let it in.
func (w *World) admit(ctx context.Context, c *cvm, processes []*process) {
	w.mu.Lock()
	w.asked++
	e := simulated.Evidence{Slot: c.slot, Boot: c.boot, Serial: w.asked, InstanceID: c.InstanceID, AppID: c.AppID, ComposeHash: c.ComposeHash, OSImage: c.OSImage}
	asks := c.boot != "" && !c.admitted && c.mute == 0
	w.mu.Unlock()
	if !asks {
		return
	}
	for _, p := range processes {
		if in, err := p.coordinator.Admit(ctx, e); err != nil || !in {
			continue
		}
		w.mu.Lock()
		if c.boot == e.Boot {
			c.admitted = true
		}
		w.mu.Unlock()
		return
	}
}

// live has a member take its orders, do them and report.
func (w *World) live(c *cvm, processes []*process) {
	w.mu.Lock()
	boot, mute := c.boot, c.mute > 0
	w.mu.Unlock()
	if boot == "" {
		return
	}
	ended, told := 0, false
	if !mute {
		for _, p := range processes {
			d, err := p.coordinator.Desired(c.slot, boot)
			switch {
			case err != nil:
			case d == nil:
				ended++
			default:
				told = true
				w.tell(c, boot, d)
			}
		}
	}
	w.mu.Lock()
	if ended == len(processes) && ended > 0 {
		// All whom it hears say that another Boot holds the Slot, or none: it attests again.
		c.admitted = false
	}
	w.standLocked(c)
	if told {
		w.changeSetLocked(c)
	}
	report := w.reportLocked(c)
	w.mu.Unlock()
	if report == nil || mute {
		return
	}
	for _, p := range processes {
		p.coordinator.Hear(c.slot, boot, report)
	}
}

// tell gives a member what a coordinator wants of it; what is older than what it knows is not
// taken (CTL-06).
func (w *World) tell(c *cvm, boot string, d *controlv1.Desired) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.boot != boot || d.GetTerm() < c.seenTerm || d.GetTerm() == c.seenTerm && d.GetVersion() < c.told.GetVersion() {
		return
	}
	c.told, c.seenTerm, c.seenState = d, d.GetTerm(), max(c.seenState, d.GetState())
	c.configureLocked(d.GetConfigJson())
}

// standLocked notes whether the member runs well, and what its group's cluster makes of that.
func (w *World) standLocked(c *cvm) {
	w.enterLocked(c)
	c.well = c.boot != "" && c.admitted && !c.ill() && w.workloads[c.group()].started(c)
	w.electLocked(c.group(), "not well")
}

// stopLocked notes that the member does not run any more.
func (w *World) stopLocked(c *cvm, why string) {
	c.well = false
	w.electLocked(c.group(), why)
}

// reportLocked does what the order says, and is what the agent says of it.
func (w *World) reportLocked(c *cvm) *controlv1.Report {
	if !c.admitted || c.told == nil {
		return nil
	}
	c.sequence++
	r := &controlv1.Report{
		Sequence: c.sequence, Term: c.seenTerm, State: c.seenState, MemberKnown: true, BootAt: timestamppb.New(c.bootAt),
		Member: w.memberLocked(c),
	}
	if !c.ill() && w.workloads[c.group()].started(c) {
		r.HealthyFor = durationpb.New(time.Since(c.bootAt))
	}
	if order := c.told.GetOperation(); order != nil {
		r.Steps = append(r.Steps, w.obeyLocked(c, order))
	}
	return r
}

func (w *World) memberLocked(c *cvm) *controlv1.MemberView {
	cluster, well := w.workloads[c.group()], !c.ill()
	out := &controlv1.MemberView{Alive: well, Ready: well, CaughtUp: &well, MayDisrupt: true, Role: controlv1.Role_ROLE_NONE}
	if !cluster.leads() {
		return out
	}
	out.Leader, out.Epoch, out.Role = cluster.leader, cluster.epoch, controlv1.Role_ROLE_FOLLOWER
	if cluster.leader == c.slot {
		out.Role = controlv1.Role_ROLE_LEADER
	}
	if cluster.votes() && well {
		cluster.voteLocked(c, out)
	}
	return out
}

// voteLocked adds what a member says that votes, or is to.
func (c *workload) voteLocked(m *cvm, out *controlv1.MemberView) {
	no := false
	if !c.started(m) {
		*out = controlv1.MemberView{Role: controlv1.Role_ROLE_UNKNOWN, MayDisruptReason: "it does not answer"}
		return
	}
	out.Voters, out.Learners, out.QuorumMember = slices.Clone(c.voters), slices.Clone(c.learners), slices.Contains(c.voters, m.slot)
	led := c.leader != ""
	switch {
	case slices.Contains(c.learners, m.slot):
		out.Role, out.Ready, out.CaughtUp = controlv1.Role_ROLE_LEARNER, false, &no
	case !led || !out.GetQuorumMember():
		out.Ready, out.CaughtUp = false, nil
	}
	for _, slot := range c.learners {
		out.Busy = append(out.Busy, slot+" joins")
	}
	switch {
	case !led:
		out.MayDisrupt, out.MayDisruptReason = false, "the members have no leader"
	case len(out.GetBusy()) > 0:
		out.MayDisrupt, out.MayDisruptReason = false, "busy: "+out.GetBusy()[0]
	}
}

// obeyLocked does a step: a leader that drains hands over to the first candidate that serves.
func (w *World) obeyLocked(c *cvm, order *controlv1.OperationOrder) *controlv1.StepResult {
	step := &controlv1.StepResult{OperationId: order.GetOperationId(), Verb: order.GetVerb(), Attempt: order.GetAttempt(), State: controlv1.StepState_STEP_STATE_DONE}
	if order.GetVerb() == controlv1.Verb_VERB_RESTART_SERVICE && !c.restarted[order.GetOperationId()] {
		c.restarted[order.GetOperationId()] = true
		w.stopLocked(c, restarted)
		c.hung = false // it serves from the next look on
	}
	if order.GetVerb() != controlv1.Verb_VERB_DRAIN {
		return step
	}
	if w.workloads[c.group()].leader == c.slot {
		for _, candidate := range order.GetTransferCandidates() {
			if w.wellLocked(candidate) && slices.Contains(w.workloads[c.group()].voters, candidate) {
				w.leadLocked(c.group(), candidate)
				c.drained[order.GetOperationId()] = candidate
				break
			}
		}
	}
	if to := c.drained[order.GetOperationId()]; to != "" {
		step.Transferred, step.NewLeader = true, to
	}
	return step
}

// restarted is why the workload of a CVM that stays ends.
const restarted = "its service restarts"

func (w *World) wellLocked(slot string) bool {
	c := w.cvms[Cluster+"-"+slot]
	return c != nil && c.well
}

// bootLocked takes the CVM down and brings it up with what hash names, after a while.
func (w *World) bootLocked(c *cvm, hash string) {
	w.stopLocked(c, "restarts")
	c.boot, c.admitted, c.told = "", false, nil
	c.InProgress, c.Status, c.next = true, "updating", hash
	c.booting++
	mine := c.booting
	time.AfterFunc(bootTakes, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if c.booting != mine || w.cvms[c.Name] != c {
			return
		}
		w.boots++
		c.InProgress, c.Status, c.ComposeHash, c.UpdatedAt = false, "running", hash, time.Now()
		c.boot, c.bootAt, c.drained, c.sequence = fmt.Sprintf("boot-%d", w.boots), time.Now(), map[string]string{}, 0
		c.restarted, c.hung = map[string]bool{}, false
	})
}

// haltLocked stops the CVM, as its host's death does: nobody but a call starts it again.
func (w *World) haltLocked(c *cvm) {
	w.stopLocked(c, "stopped")
	c.boot, c.admitted, c.told = "", false, nil
	c.InProgress, c.Status, c.ComposeHash, c.UpdatedAt = false, "stopped", c.next, time.Now()
	c.booting++
}

// deleted is why a CVM goes by a call.
const deleted = "deleted"

// removeLocked takes the CVM and its disk away.
func (w *World) removeLocked(c *cvm, why string) {
	w.stopLocked(c, why)
	c.boot = ""
	delete(w.cvms, c.Name)
	w.sorted = nil
	if cluster := w.workloads[c.group()]; why == deleted && !cluster.changes() {
		cluster.leave(c.slot)
		w.electLocked(c.group(), why)
	}
}

// ail mutes or sickens members for a while.
func (w *World) ail(ctx context.Context, f plan.Fault, slots ...string) {
	var all []*cvm
	w.mu.Lock()
	for _, slot := range slots {
		if c := w.cvms[Cluster+"-"+slot]; c != nil {
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
				w.standLocked(c)
				continue
			}
			was := c.mute > 0
			if c.mute += by; was != (c.mute > 0) {
				kind := trace.Heard
				if c.mute > 0 {
					kind = trace.Muted
				}
				w.noteLocked(trace.Event{Kind: kind, By: "fault", Group: c.group(), Slot: c.slot})
			}
		}
	}
	change(1)
	w.wait(ctx, f.For)
	change(-1)
}

// hang has a member's workload hang until something starts it anew.
func (w *World) hang(slot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.cvms[Cluster+"-"+slot]; c != nil && c.boot != "" {
		c.hung = true
		w.standLocked(c)
	}
}

// third are every third of all members that there are.
func (w *World) third() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for n, c := range w.sortedLocked() {
		if n%3 == 0 {
			out = append(out, c.slot)
		}
	}
	return out
}

// strike restarts or destroys a CVM behind everybody's back.
func (w *World) strike(slot string, kind plan.FaultKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.cvms[Cluster+"-"+slot]
	switch {
	case c == nil:
	case kind == plan.Reboot:
		w.bootLocked(c, c.next)
	case kind == plan.Halt:
		w.haltLocked(c)
	default:
		w.removeLocked(c, "lost")
		w.noteLocked(trace.Event{Kind: trace.Lost, By: "fault", Group: c.group(), Slot: slot})
	}
}
