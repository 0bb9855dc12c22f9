// Package plan derives the events of a run from a seed: the groups, their operator's requests, and
// the faults with their times and targets. It is a pure function of the seed.
package plan

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Plan of a run.
type Plan struct {
	Seed uint64
	// Coordinators is the number of coordinators.
	Coordinators int
	Groups       []Group
	// Moves are the operator's edits, in order of time. The first move of a group makes it.
	Moves []Move
	// Faults that begin at a time, in order of time.
	Faults []Fault
	// CrashPoints end the coordinator that makes the n-th step of the run, counted from 1, directly
	// after the step. A step is an applied transaction or a sent call, by any coordinator.
	CrashPoints []int
	// Odds of each call and write, until HealAt.
	Odds Odds
	// Takes are the durations of successful work.
	Takes Takes
	// Limits of the cluster, in order of time.
	Limits []Limits
	// StopFirst: the platform changes a stopped CVM only, and its hosts sometimes start one without a call.
	StopFirst bool
	// HealAt is when all faults end; Rest is the time that the run then has to settle. A group that
	// gives the same reason for Still waits for an operator.
	HealAt, Rest, Still time.Duration
}

// Group is the content of a group's spec from its first Move to its last.
type Group struct {
	Name string
	// Replicas at first.
	Replicas int
	// Workload is its kind: NoWorkload, or one with a leader or with voters.
	Workload string
	// Healing is the automatic healing: Unhealed, or the group's replace.
	Healing string
	// Service: healing restarts the workload's service before its CVM.
	Service bool
	// Checked: healing uses the first health check. No seed draws it.
	Checked bool
	// Hook is the result of a drain hook that fails or times out. Unhooked means that drains have
	// no hook; the other values are the hooks' results, in lower case.
	Hook string
	// Surge is the number of extra members of a rollout; max_unavailable is then 0. With 0 there is
	// no extra member, and one member may be away.
	Surge int
	// Percent is the share of members that may be away, in percent; 0: one may.
	Percent int
	// MinReady is how long a member is healthy before it counts; 0: 2 s.
	MinReady time.Duration
	// Launch is the result of a post-launch hook that fails or times out: Unhooked, or as Hook.
	Launch string
	// Approval is an operator's delay before an approval; 0: the group needs none.
	Approval time.Duration
	Stages
	Order
	Choices
	Gate Gate
	// Deadline is the time of a step until its member is available; 0: the default of specs.
	Deadline time.Duration
	// Rollback: a failed rollout of the group goes back to the stable Revision.
	Rollback bool
}

// Unhooked: drains have no hook.
const Unhooked = ""

// hooks are the other values of Group.Hook.
var hooks = []string{"continue", "abandon", "hold"}

// NoWorkload has neither a leader nor voters.
const NoWorkload = "none"

// workloads are the values of Group.Workload.
var workloads = []string{"patroni", "etcd", "consul", NoWorkload}

// Move is an edit of a group's spec.
type Move struct {
	At    time.Duration
	Group string
	// Release names the content; two releases are bad. Replicas is the number from then on.
	Release  string
	Replicas int
	// GiveUp permits the deletion of the disks of members that the group no longer wants.
	GiveUp bool
	// Without are unwanted Slots, until the next Move.
	Without []string
	// Checks are the members' checks until the next Move: OneCheck, or another value.
	Checks string
	// Size and Image are the members' instance type and OS image until the next Move; empty: the
	// first ones.
	Size, Image string
	// Own is a Slot with a size of its own until the next Move, OwnSize.
	Own string
	// Until the next Move these hold members back: Partition the members below an ordinal, Exclude
	// one by its name, and Pin one at the group's first Revision.
	Partition    int
	Exclude, Pin string
	// Preserve makes the spec preserve the disk of a Slot, or of Everybody, until the next Move.
	Preserve string
	// Opportunistic: until the next Move members are updated only together with other changes.
	Opportunistic bool
	// Window: until the next Move steps of a rollout begin in these minutes of the run only.
	Window Spans
}

// Values of Move.Release with which no member is healthy.
const (
	// With IllRelease members are never healthy; with DeadRelease the agent does not come up.
	IllRelease  = "ill"
	DeadRelease = "dead"
)

// ReleaseIs precedes the name of a release in the compose text of its members.
const ReleaseIs = "RELEASE: "

// ReleaseOf is the name of the release in a compose text; empty: the text has none.
func ReleaseOf(compose string) string {
	_, release, _ := strings.Cut(compose, ReleaseIs)
	release, _, _ = strings.Cut(release, "\n")
	return release
}

// OwnSize is the size of Move.Own.
const OwnSize = "tdx.xlarge"

// Values of Move.Checks. Each changes the agent's checks, and nothing that runs.
const (
	// OneCheck checks the health of the workload.
	OneCheck = ""
	// SlowCheck does so less often, OtherCheck with another command.
	SlowCheck  = "slow"
	OtherCheck = "other"
	// TwoChecks adds a second check; NoCheck has none.
	TwoChecks = "two"
	NoCheck   = "none"
)

// checks are the other values of Move.Checks.
var checks = []string{SlowCheck, OtherCheck, TwoChecks, NoCheck}

// FaultKind is the kind of a fault, or of another event of a plan.
type FaultKind string

const (
	// Crash ends a coordinator's process; it starts again after For.
	Crash FaultKind = "crash"
	// CrashAt ends it at the failpoint that it reaches next while it leads.
	CrashAt FaultKind = "crash-at"
	// CutStore, CutPlatform and CutMembers disconnect a coordinator from others for a while.
	CutStore    FaultKind = "cut-store"
	CutPlatform FaultKind = "cut-platform"
	CutMembers  FaultKind = "cut-members"
	// Mute disconnects a member from all coordinators; Sicken makes it report as unhealthy.
	Mute   FaultKind = "mute"
	Sicken FaultKind = "sicken"
	// Hang makes a member's workload hang until it or its CVM is restarted. Without healing, an
	// operator restarts it after For.
	Hang FaultKind = "hang"
	// AgentCrash ends a member's agent, which starts again after For; the workload goes on.
	AgentCrash FaultKind = "agent-crash"
	// Reboot restarts a CVM without an order, Halt stops it, Lose destroys it.
	Reboot FaultKind = "reboot"
	Halt   FaultKind = "halt"
	Lose   FaultKind = "lose"
	// Expire ends the leader's session, as when Consul loses it.
	Expire FaultKind = "expire"
	// Skew sets a coordinator's wall clock to By after the true time.
	Skew FaultKind = "skew"
	// Refuse makes the platform refuse each call for a while, like an exhausted quota.
	Refuse FaultKind = "refuse"
	// Hide makes the platform show an old state for a while, to every caller: the state at its start.
	Hide FaultKind = "hide"
	// Split disconnects every third member of all groups from all coordinators.
	Split FaultKind = "split"
	// These are no faults. For For, an operator freezes everything or one group, takes a member out
	// of service, or protects a member from all disruption.
	Freeze      FaultKind = "freeze"
	FreezeGroup FaultKind = "freeze-group"
	Drain       FaultKind = "drain"
	Protect     FaultKind = "protect"
	// These exclude a member from rollouts and healing, or from one of the two.
	Exclude        FaultKind = "exclude"
	ExcludeRollout FaultKind = "exclude-rollout"
	ExcludeHealing FaultKind = "exclude-healing"
	// Pause is like FreezeGroup, for the group's rollout only.
	Pause FaultKind = "pause"
	// An operator requests once a restart of a member, or its replacement.
	AskRestart FaultKind = "ask-restart"
	AskReplace FaultKind = "ask-replace"
)

// Unhealed: the group's spec has no healing.
const Unhealed = "none"

// healings are the values of Group.Healing.
var healings = []string{Unhealed, "ask", "auto"}

// Fault is one event of a plan.
type Fault struct {
	Kind FaultKind
	At   time.Duration
	// For is its duration, if it has one.
	For time.Duration
	// Target is the affected Slot of a coordinator or member, or the affected group; All means
	// everything.
	Target string
	// By is the offset of a clock, for Skew.
	By time.Duration
}

// All is the Target of a fault without a single target.
const All = "all"

// Coordinator is the Slot of the n-th coordinator.
func Coordinator(n int) string { return fmt.Sprintf("coordinator-%d", n) }

// Member is the n-th Slot of a group.
func Member(group string, n int) string { return fmt.Sprintf("%s-%d", group, n) }

// GroupOf a Slot is its name without the ordinal.
func GroupOf(slot string) string { return slot[:max(strings.LastIndexByte(slot, '-'), 0)] }

// Odds are the probabilities of failed calls and writes, each 0 to 1.
type Odds struct {
	// Of a platform call: LostAnswer is done without an answer. Never is not done, without an
	// answer. Late is done up to minutes after its caller gave up. Refused is certainly not done.
	// Slow answers late.
	LostAnswer, Never, Late, Refused, Slow float64
	// Busy is a temporary refusal: the CVM is busy, or the account asks too often.
	Busy float64
	// BlindList fails a list of the platform, StaleList answers with an older state. BlindAsk fails
	// the other requests without an effect.
	BlindList, StaleList, BlindAsk float64
	// LostWrite and LostAck of a transaction without an answer: not applied, and applied.
	LostWrite, LostAck float64
	// Hook of a drain is slow, fails or hangs. Handover is for leadership and for each change of a
	// workload's set: slow, refused for now, or done or not done without an answer.
	Hook, Handover float64
}

// Takes are the longest durations, drawn each time; 0: a fixed duration, or none.
type Takes struct {
	// Boot of a CVM. Lag is the time in which a new member of a workload with a leader catches up.
	// Election is how long such a workload has no leader after it lost one.
	Boot, Lag, Election time.Duration
}

// Horizon is how long faults happen in a drawn plan.
const Horizon = 8 * time.Minute

// Draw makes the plan of a seed.
func Draw(seed uint64) Plan {
	r := Source(seed, "plan", 0)
	p := Plan{
		Seed: seed, Coordinators: 1 + 2*r.IntN(2), HealAt: Horizon, Rest: 2 * time.Hour, Still: 40 * time.Minute,
	}
	agentSpec := Source(seed, "agent spec", 0)
	for _, name := range []string{"pg", "app", "kv"}[:1+max(r.IntN(5)-2, 0)] {
		g := Group{
			Name: name, Replicas: 1 + r.IntN(5), Workload: workloads[r.IntN(len(workloads))],
			Healing: healings[r.IntN(len(healings))], Surge: max(r.IntN(5)-2, 0),
		}
		g.Service = g.Healing != Unhealed && agentSpec.IntN(2) == 0
		if agentSpec.IntN(3) == 0 {
			g.Hook = hooks[agentSpec.IntN(len(hooks))]
		}
		if g.Surge == 0 && agentSpec.IntN(4) == 0 {
			g.Percent = 40
		}
		p.Groups = append(p.Groups, g)
		p.Moves = append(p.Moves, moves(r, g)...)
	}
	drawChecks(Source(seed, "checks", 0), p.Moves)
	drawBad(Source(seed, "bad", 0), &p)
	drawRollback(Source(seed, "rollback", 0), &p)
	drawShapes(Source(seed, "shapes", 0), p.Moves)
	drawKept(Source(seed, "kept", 0), &p)
	drawSpecs(Source(seed, "specs", 0), &p)
	slices.SortStableFunc(p.Moves, func(a, b Move) int { return int(a.At - b.At) })
	drawStages(Source(seed, "stages", 0), &p)
	drawOwn(Source(seed, "own", 0), p.Moves)
	p.Faults, p.Odds = faults(r, p), odds(r)
	drawAsks(Source(seed, "asks", 0), &p)
	drawOperators(Source(seed, "persons", 0), &p)
	drawExclusions(Source(seed, "exclusions", 0), &p)
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	drawOrder(Source(seed, "order", 0), &p)
	drawChoices(Source(seed, "choices", 0), &p)
	drawGates(Source(seed, "gates", 0), &p)
	p.StopFirst = Source(seed, "habits", 0).IntN(3) == 0
	later := Source(seed, "later", 0)
	p.Odds.Busy, p.Odds.BlindAsk, p.Takes = oddsOf(later, 0.3), oddsOf(later, 0.3), takes(later)
	if slices.ContainsFunc(p.Groups, func(g Group) bool { return g.Deadline > 0 }) {
		// A healthy step ends before its deadline.
		p.Takes.Boot, p.Takes.Lag = min(p.Takes.Boot, shortDeadline/4), min(p.Takes.Lag, shortDeadline/6)
	}
	return p
}

// moves make a group, and change it one to three times.
func moves(r *rand.Rand, g Group) []Move {
	out := []Move{{Group: g.Name, Release: "one", Replicas: g.Replicas}}
	for n, at := 0, 90*time.Second; n < 1+r.IntN(3); n++ {
		at += upTo(r, 2*time.Minute)
		m := Move{At: at, Group: g.Name, Release: []string{"two", "three", "one"}[r.IntN(3)], Replicas: g.Replicas}
		if r.IntN(3) == 0 {
			m.Replicas = 1 + r.IntN(5)
		}
		if r.IntN(6) == 0 {
			m.Without = []string{Member(g.Name, r.IntN(g.Replicas))}
		}
		m.GiveUp = r.IntN(4) > 0
		out = append(out, m)
	}
	return out
}

// drawChecks makes half of the changes change the checks, and half of these nothing else, so that
// the running Boots are to prove them.
func drawChecks(r *rand.Rand, all []Move) {
	last := map[string]Move{}
	for i, m := range all {
		if before, made := last[m.Group]; made {
			all[i].Checks = before.Checks
			if r.IntN(2) == 0 {
				all[i].Checks = append(checks, OneCheck)[r.IntN(len(checks)+1)]
				if r.IntN(2) == 0 {
					all[i].Release, all[i].Replicas, all[i].Without = before.Release, before.Replicas, before.Without
				}
			}
		}
		last[m.Group] = all[i]
	}
}

// shortDeadline passes long before all faults end.
const shortDeadline = 2 * time.Minute

// drawBad gives a group of every fifth seed a release with which no member is healthy. Its steps
// have little time, so that they fail while other faults happen, and the next change is good. A
// permanently bad release would say nothing about the end of the run.
func drawBad(r *rand.Rand, p *Plan) {
	if r.IntN(5) > 0 {
		return
	}
	at := r.IntN(len(p.Groups))
	g := &p.Groups[at]
	g.Deadline = shortDeadline
	p.Moves = slices.DeleteFunc(p.Moves, func(m Move) bool { return m.Group == g.Name && m.At > 0 })
	bad := Move{At: 90*time.Second + upTo(r, time.Minute), Group: g.Name, Release: []string{IllRelease, DeadRelease}[r.IntN(2)], Replicas: g.Replicas}
	good := bad
	good.At, good.Release = 6*time.Minute+upTo(r, 90*time.Second), []string{"one", "two"}[r.IntN(2)]
	p.Moves = append(p.Moves, bad, good)
}

// drawRollback lets the failed rollouts of every second group go back. Half of those with a bad release get no good one
// afterwards: they rest where they went back to.
func drawRollback(r *rand.Rand, p *Plan) {
	for i := range p.Groups {
		g := &p.Groups[i]
		g.Rollback = r.IntN(2) == 0
		if rests := r.IntN(2) == 0; g.Rollback && rests && g.Deadline > 0 {
			p.Moves = slices.DeleteFunc(p.Moves, func(m Move) bool { return m.Group == g.Name && m.At >= 6*time.Minute })
		}
	}
}

// drawShapes makes every sixth change set another size, and every tenth another image.
func drawShapes(r *rand.Rand, all []Move) {
	last := map[string]Move{}
	for i, m := range all {
		if before, made := last[m.Group]; made {
			all[i].Size, all[i].Image = before.Size, before.Image
			if r.IntN(6) == 0 {
				all[i].Size = []string{"tdx.medium", "tdx.large"}[r.IntN(2)]
			}
			if r.IntN(10) == 0 {
				all[i].Image = "dstack-0.5.8"
			}
		}
		last[m.Group] = all[i]
	}
}

// drawOwn gives a Slot a size of its own with every fourth change. The size stays with half of the changes after it.
func drawOwn(r *rand.Rand, all []Move) {
	last := map[string]string{}
	for i, m := range all {
		if all[i].Own = last[m.Group]; r.IntN(2) == 0 {
			all[i].Own = ""
		}
		if r.IntN(4) == 0 && m.Replicas > 0 {
			all[i].Own = Member(m.Group, r.IntN(m.Replicas))
		}
		last[m.Group] = all[i].Own
	}
}

// drawKept makes the operator of every third seed hold members back with one change. The next
// change, or an added one, releases them. Permanently held members would say nothing about the end
// of the run.
func drawKept(r *rand.Rand, p *Plan) {
	if r.IntN(3) > 0 {
		return
	}
	at := r.IntN(len(p.Moves))
	m := &p.Moves[at]
	if m.At == 0 {
		return // it makes a group
	}
	slot := Member(m.Group, r.IntN(m.Replicas))
	switch r.IntN(3) {
	case 0:
		m.Partition = 1 + r.IntN(m.Replicas)
	case 1:
		m.Exclude = slot
	default:
		m.Pin = slot
	}
	if !slices.ContainsFunc(p.Moves[at+1:], func(later Move) bool { return later.Group == m.Group }) {
		lets := *m
		lets.At, lets.Partition, lets.Exclude, lets.Pin = min(m.At+20*time.Second+upTo(r, 2*time.Minute), max(Horizon, m.At)), 0, "", ""
		p.Moves = append(p.Moves, lets)
	}
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// kinds are the drawn kinds of faults. A crash between two effects is the most frequent.
var kinds = []FaultKind{Crash, CrashAt, CrashAt, CutStore, CutPlatform, CutMembers, Mute, Sicken, Hang, AgentCrash, AgentCrash, Reboot, Halt, Lose, Expire, Skew, Refuse, Hide, Split, Freeze, FreezeGroup, Pause, Drain, Protect}

// asks are an operator's possible requests.
var asks = []FaultKind{AskRestart, AskRestart, AskReplace}

// drawAsks draws one or two requests of an operator in every third seed.
func drawAsks(r *rand.Rand, p *Plan) {
	if r.IntN(3) > 0 {
		return
	}
	for range 1 + r.IntN(2) {
		p.Faults = append(p.Faults, Fault{Kind: asks[r.IntN(len(asks))], At: time.Minute + upTo(r, Horizon-time.Minute), Target: p.anyMember(r)})
	}
}

// exclusions are the possible exclusions of a member.
var exclusions = []FaultKind{Exclude, ExcludeRollout, ExcludeHealing}

// drawExclusions excludes one or two members for a while in every fourth seed.
func drawExclusions(r *rand.Rand, p *Plan) {
	if r.IntN(4) > 0 {
		return
	}
	for range 1 + r.IntN(2) {
		at := upTo(r, Horizon)
		f := Fault{Kind: exclusions[r.IntN(len(exclusions))], At: at, For: min(time.Second+upTo(r, 4*time.Minute), Horizon-at), Target: p.anyMember(r)}
		p.Faults = append(p.Faults, f)
	}
}

// anyMember is a member that a group has at first, or that it ever has. The latter includes members
// that it grows by, and the extra ones.
func (p Plan) anyMember(r *rand.Rand) string {
	g := p.Groups[r.IntN(len(p.Groups))]
	most := g.Replicas
	if r.IntN(3) == 0 {
		for _, m := range p.Moves {
			if m.Group == g.Name {
				most = max(most, m.Replicas+len(m.Without))
			}
		}
		most += g.Surge
	}
	return Member(g.Name, r.IntN(most))
}

// intoRecovery is how soon after a fault the next fault may fall into its recovery.
const intoRecovery = 20 * time.Second

// faults are up to six, each of any kind. Half of them begin soon after the preceding fault.
func faults(r *rand.Rand, p Plan) []Fault {
	var out []Fault
	at := time.Duration(0)
	for n := range r.IntN(7) {
		if n > 0 && r.IntN(2) == 0 {
			at += upTo(r, intoRecovery)
		} else {
			at += upTo(r, Horizon/3)
		}
		if at >= Horizon {
			break
		}
		f := Fault{Kind: kinds[r.IntN(len(kinds))], At: at, For: min(time.Second+upTo(r, 90*time.Second), Horizon-at)}
		switch f.Target = Coordinator(r.IntN(p.Coordinators)); {
		case f.ofAll():
			f.Target = All
		case f.ofMember():
			f.Target = p.anyMember(r)
		case f.ofGroup():
			f.Target = p.Groups[r.IntN(len(p.Groups))].Name
		}
		if f.Kind == CutStore && r.IntN(3) == 0 {
			f.Target = All
		}
		if f.Kind == Refuse && r.IntN(2) == 0 {
			f.For = min(f.For+2*time.Minute, Horizon-at)
		}
		if slices.Contains([]FaultKind{Mute, Sicken, Split}, f.Kind) && r.IntN(3) == 0 {
			f.For = Horizon - at // for long enough to count as lost
		}
		if f.Kind == AgentCrash && r.IntN(2) == 0 {
			f.For = upTo(r, 2*time.Second) // it is back before its absence is noticed
		}
		if f.Kind == Skew {
			f.By = []time.Duration{-time.Hour, -time.Minute, -2 * time.Second, 2 * time.Second, time.Minute, time.Hour}[r.IntN(6)]
		}
		out = append(out, f)
	}
	return out
}

// odds are none, a few or many of each kind.
func odds(r *rand.Rand) Odds {
	draw := func(most float64) float64 { return oddsOf(r, most) }
	return Odds{
		LostAnswer: draw(0.3), Never: draw(0.3), Late: draw(0.2), Refused: draw(0.2), Slow: draw(0.3),
		BlindList: draw(0.3), StaleList: draw(0.3), LostWrite: draw(0.1), LostAck: draw(0.1), Hook: draw(0.6), Handover: draw(0.4),
	}
}

func oddsOf(r *rand.Rand, most float64) float64 {
	return []float64{0, 0, most / 5, most}[r.IntN(4)]
}

// takes are nothing, a little or much of each.
func takes(r *rand.Rand) Takes {
	draw := func(most time.Duration) time.Duration {
		return []time.Duration{0, most / 5, most}[r.IntN(3)]
	}
	return Takes{Boot: draw(90 * time.Second), Lag: draw(time.Minute), Election: draw(30 * time.Second)}
}

// Source is the random source of the n-th decision of a kind. It does not depend on other
// decisions.
func Source(seed uint64, kind string, n uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind))                                       // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()^n*0x9e3779b97f4a7c15)) //nolint:gosec // it must repeat
}
