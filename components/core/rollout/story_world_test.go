package rollout_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/core/version"
)

// These are the default times of a story's world.
const (
	bootTakes      = 20 * time.Second
	deleteTakes    = 5 * time.Second
	stopTakes      = 4 * time.Second
	catchUpTakes   = 3 * time.Second
	drainTakes     = 2 * time.Second
	electionTakes  = 5 * time.Second
	callTimesOutIn = 10 * time.Second
)

// storyStart is when stories begin; their groups have run since the day before.
var storyStart = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// world is the true state, unknown to the coordinators: CVMs, the agents in them, the workload's own cluster, the
// platform.
type world struct {
	now  time.Time
	kind string
	// data is the version of the members' data; lowered: an operator lowered it, and it stays.
	data    version.Version
	lowered bool
	// cvms in the order in which they were made.
	cvms []*cvm
	made int
	// broken Revisions stay unhealthy; stuck Revisions never boot.
	broken, stuck map[string]bool
	// says is the workload's message at a broken Revision.
	says map[string]string
	// hosts is the number of hosts, host-0 and so on, or 0; silent hosts do not answer, and dead hosts run no CVM.
	hosts        int
	silent, dead map[string]bool
	// force: the current call does not ask the guest.
	force bool
	// stopFirst: the platform changes a stopped CVM only, and starts none.
	stopFirst bool
	// keyless: new boots fail, since they get no keys.
	keyless bool
	// leader is the workload's leader, leaderless the start of a time without one, epoch its term.
	leader     string
	leaderless time.Time
	epoch      uint64
	transfers  int
	// voters are the voters in the workload's own configuration; nofailover members cannot lead.
	voters     []string
	nofailover map[string]bool
	learners   map[string]bool
	set        set
	places

	bootTakes time.Duration
	drain     map[string]drainWay
	faults    map[string]*fault
	// early names, by Slot, the call right before which the host starts the CVM.
	early map[string]operation.Part
	// unseen: the host does so after the coordinator's last look.
	unseen bool
	// blind: the platform's listing does not answer.
	blind bool
	// The env that each Slot's CVM received.
	told    map[string]map[string]string
	pending []pending
	// contents of Revisions.
	contents map[string]group.Template
	// checks holds the one health check of each Revision with a check.
	checks map[string]string
	// ownSize is the Slot's own size in the current call.
	ownSize string
	// policies are the Slots' policies, as the coordinators wrote them.
	policies map[string]policy.SlotPolicy
	// log records an event in the story.
	log func(format string, args ...any)
}

// cvm is one CVM with its disk, and its software.
type cvm struct {
	uuid, instance, slot string
	status               string
	inProgress           bool
	content              group.Template
	// ownSize is the size that the Slot has of its own; no Boot measures it.
	ownSize   string
	bootError string
	updatedAt time.Time
	// gone: the platform no longer lists the CVM.
	gone bool
	// half: an update that was answered with an error wrote a part of the files.
	half bool
	// node is the host of the CVM; "" is the only one.
	node string

	boots int
	boot  string
	upAt  time.Time
	// agentAt is when the agent last started. After an agent restart, its Boot is younger than the CVM's boot.
	agentAt time.Time
	silent  bool
	// unproven: the CVM's Boot runs, and cannot attest again.
	unproven bool
	// illAt is when the agent last saw the member unhealthy: the proven healthy time begins after it.
	illAt time.Time
	// hung: the guest does not report, and ignores a shutdown request.
	hung bool
	sick string
	// mute: the driver gets no answer, although the workload works.
	mute bool
	// failing is the check that fails although the member works, until a boot.
	failing string
	// deep: a restart of the service does not repair the fault.
	deep     bool
	lag      int64
	refuses  string // why it must not be disrupted
	busy     string
	refusal  *policy.Refusal
	steps    map[string]*drainStep
	admitted *policy.Admission
}

type drainStep struct {
	order operation.Order
	began time.Time
	ended bool
	state operation.StepState
	moved string
}

// drainWay is the answer of a Slot's agent to a drain.
type drainWay struct {
	takes time.Duration
	state operation.StepState
	text  string
}

func (w *world) up(c *cvm) bool {
	return !w.dead[c.node] && !c.gone && c.status == "running" && !w.now.Before(c.upAt)
}

// works: the member does its duty, known or unknown to the coordinators. Peers and secrets need an admission.
func (w *world) works(c *cvm) bool {
	return w.up(c) && !c.hung && c.admitted != nil && (c.boot == "" || c.admitted.BootID == c.boot) && c.sick == "" && !w.broken[w.runs(c)] && !w.stuck[w.runs(c)] && w.starts(c) && w.opens(c)
}

// serves: the member works, and has caught up.
func (w *world) serves(c *cvm) bool {
	return w.works(c) && (w.kind == group.WorkloadNone || c.lag == 0 && w.now.Sub(c.upAt) >= catchUpTakes)
}

// runs returns the Revision of c's content; empty if it is no Revision.
func (w *world) runs(c *cvm) string {
	// Several Revisions may measure the same: c is at the Revision that it is admitted at.
	if c.admitted != nil && w.measures(c, c.admitted.Revision) && w.allows(c.slot, c.admitted.Revision) {
		return c.admitted.Revision
	}
	if at := w.letsIn(c); at != "" {
		return at
	}
	for _, digest := range slices.Sorted(maps.Keys(w.contents)) {
		if w.measures(c, digest) {
			return digest
		}
	}
	return ""
}

// measures: c's content is that of a Revision.
func (w *world) measures(c *cvm, revision string) bool {
	for digest, t := range w.contents {
		if digest == revision && t.Compose == c.content.Compose && t.OSImage == c.content.OSImage && slices.Contains([]string{t.InstanceType, c.ownSize}, c.content.InstanceType) && t.DiskGB == c.content.DiskGB {
			return true
		}
	}
	return false
}

// of is the CVM that fills a Slot, or nil.
func (w *world) of(slot string) *cvm {
	var found *cvm
	for _, c := range w.cvms {
		if c.slot == slot && !c.gone && (found == nil || w.dead[found.node]) {
			found = c
		}
	}
	return found
}

// make adds a CVM that boots a Revision.
func (w *world) make(slot string, content group.Template) *cvm {
	w.made++
	c := &cvm{uuid: fmt.Sprintf("vm-%d", w.made), instance: fmt.Sprintf("i-%d", w.made), slot: slot, node: w.nodeFor(), content: content, steps: map[string]*drainStep{}}
	w.cvms = append(w.cvms, c)
	for n := range w.hosts { // the next host that answers
		if c.node = fmt.Sprintf("host-%d", (w.made-1+n)%w.hosts); !w.silent[c.node] {
			break
		}
	}
	if c.node != "" && w.hosts == 0 {
		w.log("%s is made on node %s", slot, c.node)
	}
	c.reboot(w)
	return c
}

// reboot starts a boot of c's present content.
func (c *cvm) reboot(w *world) {
	c.boots++
	c.status, c.inProgress, c.bootError = "running", true, ""
	c.updatedAt, c.upAt = w.now, w.now.Add(w.bootTakes)
	c.boot, c.sick, c.failing = "", "", "" // a boot repairs it
	clear(c.steps)
	if w.keyless {
		boot := c.boots
		w.pending = append(w.pending, pending{at: w.now.Add(w.bootTakes / 2), apply: func() {
			if c.boots == boot {
				c.inProgress, c.bootError = false, "no keys for "+c.uuid
			}
		}})
	}
	if w.keyless || w.stuck[w.runs(c)] {
		c.upAt = w.now.Add(1000 * time.Hour)
	}
}

// halt ends the CVM's process: the CVM stays down until it is started.
func (c *cvm) halt() {
	c.silent = c.silent && !c.hung
	c.status, c.inProgress, c.boot, c.hung = "stopped", false, "", false
}

// hostStarts starts a stopped CVM with the files that it has, without a call.
func (c *cvm) hostStarts(w *world) {
	if c.status == "stopped" {
		w.log("the host starts %s", c.slot)
		c.reboot(w)
	}
}

// born starts a Boot: a new key, which asks for admission.
func (c *cvm) born(w *world, at time.Time) {
	c.agentAt = at
	c.boot = fmt.Sprintf("boot-%s-%s-%d", c.slot, c.uuid, c.boots)
	c.inProgress, c.steps = false, map[string]*drainStep{}
	w.log("%s boots %s", c.slot, w.contentName(c))
	c.ask(w)
}

// ask admits the Boot when the Slot may run its Revision.
func (c *cvm) ask(w *world) {
	if c.admitted != nil && c.admitted.BootID == c.boot {
		return
	}
	revision := w.letsIn(c)
	if revision == "" {
		if c.refusal == nil || c.refusal.BootID != c.boot {
			w.log("%s is refused admission", c.slot)
		}
		c.refusal = &policy.Refusal{Slot: c.slot, BootID: c.boot, InstanceID: c.instance, Code: policy.CodeRevisionNotAllowed,
			Message: "the slot may not run " + w.contentName(c), Proven: true, At: w.now}
		return
	}
	c.admitted = &policy.Admission{Slot: c.slot, BootID: c.boot, InstanceID: c.instance, Revision: revision, AdmittedAt: w.now}
	if w.kind == group.WorkloadEtcd {
		w.enter(c)
	}
	if w.kind == group.WorkloadConsul && !slices.Contains(w.voters, c.slot) && !w.learners[c.slot] {
		w.voters = append(w.voters, c.slot)
		slices.Sort(w.voters)
	}
}

// contentName is the story's name for the content of c.
func (w *world) contentName(c *cvm) string { return storyName(c.content) }

// step applies the events that are due by now.
func (w *world) step() {
	due := slices.Clone(w.pending)
	w.pending = slices.DeleteFunc(w.pending, func(p pending) bool { return !w.now.Before(p.at) })
	for _, p := range due {
		if !w.now.Before(p.at) {
			p.apply()
		}
	}
	for _, c := range w.cvms {
		switch {
		case w.up(c) && c.boot == "":
			c.born(w, c.upAt)
		case w.up(c):
			c.ask(w)
		}
	}
	w.elect()
	w.changeSet()
	w.raise()
}

// next returns the time of the next timed event, or end if that is sooner.
func (w *world) next(end time.Time) time.Time {
	due := end
	at := func(when time.Time) {
		if when.After(w.now) && when.Before(due) {
			due = when
		}
	}
	for _, p := range w.pending {
		at(p.at)
	}
	for _, c := range w.cvms {
		at(c.upAt)
		at(c.upAt.Add(catchUpTakes))
		for _, s := range c.steps {
			if way, ok := w.drain[c.slot]; ok && !s.ended {
				at(s.began.Add(way.takes))
			}
			at(s.began.Add(drainTakes))
		}
	}
	at(w.leaderless.Add(electionTakes))
	return due
}

// elect makes the workload's members choose a leader when they can.
func (w *world) elect() {
	if w.kind == group.WorkloadNone {
		return
	}
	working, able := 0, ""
	for _, slot := range slices.Sorted(maps.Keys(w.slots())) {
		c := w.of(slot)
		if !w.works(c) {
			continue
		}
		if slices.Contains(w.voters, slot) {
			working++
		}
		if able == "" && c.lag == 0 && w.eligible(slot) {
			able = slot
		}
	}
	quorum := w.kind == group.WorkloadPatroni || working >= group.Quorum(len(w.voters))
	if c := w.of(w.leader); c != nil && w.works(c) && quorum {
		return
	}
	if w.leader != "" {
		w.log("%s leads no more", w.leader)
		w.leader, w.leaderless = "", w.now
	}
	if quorum && able != "" && w.now.Sub(w.leaderless) >= electionTakes {
		w.lead(able)
	}
}

func (w *world) eligible(slot string) bool {
	if w.kind == group.WorkloadPatroni {
		return !w.nofailover[slot]
	}
	return slices.Contains(w.voters, slot)
}

func (w *world) lead(slot string) {
	w.leader = slot
	w.epoch++
	w.log("%s leads", slot)
}

func (w *world) slots() map[string]bool {
	out := map[string]bool{}
	for _, c := range w.cvms {
		if !c.gone {
			out[c.slot] = true
		}
	}
	return out
}

// report is the current report of c's agent; nil while the agent does not report.
func (w *world) report(c *cvm) *rollout.Report {
	if !w.up(c) || c.silent || c.admitted == nil || c.admitted.BootID != c.boot {
		return nil
	}
	works, yes, no := w.works(c), true, false
	liveness := rollout.LivenessAlive
	if !works {
		liveness = rollout.LivenessRefused
	}
	if !works || w.fails(c) != "" {
		c.illAt = w.now
	}
	well := c.agentAt
	if c.illAt.After(well) {
		well = c.illAt
	}
	r := &rollout.Report{
		BootID: c.boot, ReceivedAt: w.now, Health: rollout.Healthy, BootAt: c.agentAt, HealthyFor: max(w.now.Sub(well), time.Millisecond),
		MemberView: rollout.MemberView{
			Role: rollout.RoleNone, MemberKnown: w.kind != group.WorkloadNone, Liveness: liveness, MemberReady: works, CaughtUp: &yes,
			MayDisrupt: c.refuses == "", MayDisruptReason: c.refuses,
		},
	}
	w.reportVersion(c, r, works)
	if c.busy != "" {
		r.Busy = []string{c.busy}
	}
	if w.kind != group.WorkloadNone {
		w.roles(c, r, works)
	}
	if lag := c.lag; lag > 0 || w.kind != group.WorkloadNone && w.now.Sub(c.upAt) < catchUpTakes {
		r.CaughtUp, r.LagBytes = &no, &lag
	}
	if !works {
		r.Health, r.HealthReason, r.HealthyFor, r.CaughtUp = rollout.Unhealthy, cmp.Or(c.sick, w.says[w.runs(c)], "does not answer"), 0, &no
		r.Message = w.says[w.runs(c)]
		r.Role, r.Leader, r.Voters, r.QuorumMember, r.Epoch = rollout.RoleUnknown, "", nil, false, 0
	}
	if c.mute {
		r.Health, r.HealthReason, r.HealthyFor, r.CaughtUp, r.Liveness, r.MemberReady = rollout.Unknown, "no answer within 900ms", 0, nil, rollout.LivenessUnknown, false
		r.Role, r.Leader, r.Voters, r.QuorumMember, r.Epoch, r.Followers = rollout.RoleUnknown, "", nil, false, 0, nil
		r.Message, r.MayDisrupt, r.MayDisruptReason = r.HealthReason, false, r.HealthReason
	}
	if check := w.fails(c); check != "" {
		r.Health, r.HealthReason, r.HealthyFor, r.Failing = rollout.Unhealthy, "check "+check+" fails", 0, []string{check}
	}
	for _, id := range slices.Sorted(maps.Keys(c.steps)) {
		s := c.steps[id]
		r.Steps = append(r.Steps, operation.StepReport{Operation: s.order.Operation, Verb: s.order.Verb, Attempt: s.order.Attempt,
			State: s.state, Message: w.drain[c.slot].text, Transferred: s.moved != "", NewLeader: s.moved})
	}
	return r
}

// roles adds the driver's report for a workload with leaders.
func (w *world) roles(c *cvm, r *rollout.Report, works bool) {
	votes := slices.Contains(w.voters, c.slot)
	r.Role, r.Leader, r.Epoch = rollout.RoleFollower, w.leader, w.epoch
	switch {
	case w.leader == c.slot:
		r.Role, r.Followers = rollout.RoleLeader, w.followers(c)
	case w.nofailover[c.slot], w.kind != group.WorkloadPatroni && !votes:
		r.Role = rollout.RoleLearner
	}
	if w.kind != group.WorkloadPatroni {
		r.Voters, r.Learners, r.QuorumMember = slices.Clone(w.voters), w.listing(), votes
		r.MemberIDs = maps.Clone(w.set.disks)
		if w.leader == "" {
			r.MemberReady, r.CaughtUp, r.Epoch = false, nil, 0
		}
	}
	if w.leader == "" {
		r.MayDisrupt, r.MayDisruptReason = false, "the members have no leader"
	}
}

// followers are the working members that follow c, the leader, whether or not their agents report. etcd's leader
// reports no followers.
func (w *world) followers(c *cvm) (slots []string) {
	for _, other := range w.cvms {
		if other != c && w.kind != group.WorkloadEtcd && w.works(other) {
			slots = append(slots, other.slot)
		}
	}
	slices.Sort(slots)
	return slots
}

// agents carry out the orders that reach them.
func (w *world) agents(orders func(slot, boot string) (order operation.Order, asked bool, refresh string)) {
	for _, c := range w.cvms {
		if !w.up(c) || c.silent || c.admitted == nil {
			continue
		}
		order, asked, refresh := orders(c.slot, c.boot)
		if c.admitted.Revision != refresh && refresh != "" && !c.unproven && w.measures(c, refresh) {
			again := *c.admitted
			again.Revision = refresh
			c.admitted = &again
			w.log("%s attests again, at %s", c.slot, w.name(refresh))
		}
		if !asked || c.admitted.BootID != c.boot {
			continue
		}
		key := fmt.Sprintf("%s %s %d", order.Operation, order.Verb, order.Attempt)
		s := c.steps[key]
		if s == nil {
			s = &drainStep{order: order, began: w.now, state: operation.StepRunning}
			c.steps[key] = s
		}
		w.obey(c, s)
	}
}

func (w *world) obey(c *cvm, s *drainStep) {
	if s.ended {
		return
	}
	way := drainWay{takes: drainTakes, state: operation.StepDone}
	if given, ok := w.drain[c.slot]; ok && s.order.Verb == operation.VerbDrain && !s.order.WithoutHooks {
		way = given
	}
	if s.order.Verb == operation.VerbDrain && w.now.Sub(s.began) < way.takes {
		return
	}
	s.ended, s.state = way.state != operation.StepHeld, way.state
	if s.order.Verb == operation.VerbRestartService {
		w.log("service %s of %s starts anew", s.order.Service, c.slot)
		if !c.deep {
			c.sick = ""
		}
	}
	if s.order.Verb != operation.VerbDrain || way.state != operation.StepDone || w.leader != c.slot || s.order.ExpectedLeader != c.slot {
		return
	}
	for _, slot := range s.order.Candidates {
		if other := w.of(slot); other != nil && w.works(other) && w.eligible(slot) {
			w.transfers++
			s.moved = slot
			w.lead(slot)
			return
		}
	}
}

// name is a Revision's name in the story.
func (w *world) name(revision string) string {
	if t, ok := w.contents[revision]; ok && w.checks[revision] != "" {
		return storyName(t) + "." + w.checks[revision]
	} else if ok {
		return storyName(t)
	}
	return revision
}

// fails returns the failing check of c. A check is judged only while the Boot's Revision has it.
func (w *world) fails(c *cvm) string {
	if c.admitted != nil && w.checks[c.admitted.Revision] != "" && w.checks[c.admitted.Revision] != c.failing {
		return ""
	}
	return c.failing
}
