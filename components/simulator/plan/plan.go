// Package plan decides from a seed what happens in a run: the groups, what their operator asks
// for, and what goes wrong, when and where. It is a pure function of the seed.
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
	// Coordinators that there are.
	Coordinators int
	Groups       []Group
	// Moves are what the operator does, in order of time. The first of a group makes it.
	Moves []Move
	// Faults that begin at a time, in order of time.
	Faults []Fault
	// CrashPoints end the coordinator that makes the n-th step of the run, counted from 1, right
	// after it: a step is a transaction that is applied or a call that is sent, whoever makes it.
	CrashPoints []int
	// Odds are of each call and write, until HealAt.
	Odds Odds
	// Takes is how long things take that go well.
	Takes Takes
	// HealAt is when all goes right again; Rest is how long it then has to come to rest. What
	// gives the same reason for Still waits for a person.
	HealAt, Rest, Still time.Duration
}

// Group is what its spec says from its first Move to its last.
type Group struct {
	Name string
	// Replicas at first.
	Replicas int
	// Workload is its kind: NoWorkload, or one with a leader or with voters.
	Workload string
	// Healing is what heals by itself: Unhealed, or the group's replace.
	Healing string
	// Service: healing restarts the workload's service before its CVM.
	Service bool
	// Checked: healing goes by the first health check. No seed draws it.
	Checked bool
	// Hook is what comes of a hook of its drains that fails or takes too long: Unhooked, where it
	// has none, or one of the results that hooks have, in small letters.
	Hook string
	// Surge is how many extra members a rollout may have, with which none of the others may be
	// missed; 0: there are none, and one may be away.
	Surge int
	// Percent is how many of its members, of a hundred, may be away; 0: one may.
	Percent int
	// MinReady is how long a member is well before it counts; 0: 2 s.
	MinReady time.Duration
	// Launch is what comes of a hook after a launch that fails or takes too long: Unhooked, or as Hook.
	Launch string
	// Approval is how long a person takes to approve what its spec asks for; 0: it needs none.
	Approval time.Duration
	// Deadline is how long a step has until its member is available; 0: as long as specs give it that
	// say nothing.
	Deadline time.Duration
}

// Unhooked: its drains have no hook.
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
	// Release names the content, of which two are bad; Replicas are as many as then.
	Release  string
	Replicas int
	// GiveUp says that the disks of those may go which the group is not to have any more.
	GiveUp bool
	// Without are Slots that it is not to have, from then on until the next Move.
	Without []string
	// Checks are those of its members, from then on until the next Move: OneCheck, or one of the
	// others.
	Checks string
	// Size and Image are what they run on, from then on until the next Move; empty: what they began
	// with.
	Size, Image string
	// Partition, Exclude and Pin keep members back until the next Move: those below an ordinal, one
	// by its name, and one at what the group ran first.
	Partition    int
	Exclude, Pin string
	// Preserve has the spec preserve the disk of a Slot, or of Everybody, until the next Move.
	Preserve string
	// Opportunistic: until the next Move members take what it asks for when something else touches them.
	Opportunistic bool
}

// Values of Move.Release that no member is well with.
const (
	// IllRelease never is, DeadRelease's agent does not come up.
	IllRelease  = "ill"
	DeadRelease = "dead"
)

// Values of Move.Checks. Each changes what the agent looks at, and nothing that runs.
const (
	// OneCheck asks whether the workload is well.
	OneCheck = ""
	// SlowCheck asks the same less often, OtherCheck by another command.
	SlowCheck  = "slow"
	OtherCheck = "other"
	// TwoChecks have one beside it, NoCheck has none.
	TwoChecks = "two"
	NoCheck   = "none"
)

// checks are the other values of Move.Checks.
var checks = []string{SlowCheck, OtherCheck, TwoChecks, NoCheck}

// FaultKind is what goes wrong.
type FaultKind string

const (
	// Crash ends a coordinator's process; it starts again after For.
	Crash FaultKind = "crash"
	// CrashAt ends it at the failpoint that it reaches next, when it is the one that leads.
	CrashAt FaultKind = "crash-at"
	// CutStore, CutPlatform and CutMembers part a coordinator from others for a while.
	CutStore    FaultKind = "cut-store"
	CutPlatform FaultKind = "cut-platform"
	CutMembers  FaultKind = "cut-members"
	// Mute parts a member from all coordinators; Sicken has it answer that it is not well.
	Mute   FaultKind = "mute"
	Sicken FaultKind = "sicken"
	// Hang has a member's workload hang until it, or its CVM, is restarted; where nothing heals, a
	// person starts it anew after For.
	Hang FaultKind = "hang"
	// AgentCrash ends a member's agent; the workload goes on, and it starts again after For.
	AgentCrash FaultKind = "agent-crash"
	// Reboot restarts a CVM behind everybody's back, Halt stops it, Lose destroys it.
	Reboot FaultKind = "reboot"
	Halt   FaultKind = "halt"
	Lose   FaultKind = "lose"
	// Expire ends the leader's session, as when Consul loses it.
	Expire FaultKind = "expire"
	// Skew puts a coordinator's wall clock off by By.
	Skew FaultKind = "skew"
	// Refuse has the platform refuse each call for a while, as where a quota is used up.
	Refuse FaultKind = "refuse"
	// Hide has the platform show for a while what was so when that began, to whoever asks.
	Hide FaultKind = "hide"
	// Split parts every third member of all groups from all coordinators.
	Split FaultKind = "split"
	// These are no fault of anybody: an operator stops everything or one group, takes a member
	// out of service, or keeps one from all that would disrupt it, for For.
	Freeze      FaultKind = "freeze"
	FreezeGroup FaultKind = "freeze-group"
	Drain       FaultKind = "drain"
	Protect     FaultKind = "protect"
	// They leave a member out of rollouts and healing, or of one of the two.
	Exclude        FaultKind = "exclude"
	ExcludeRollout FaultKind = "exclude-rollout"
	ExcludeHealing FaultKind = "exclude-healing"
	// Pause is like FreezeGroup, of its rollout alone.
	Pause FaultKind = "pause"
	// An operator asks once for a restart of a member, or for another CVM in its place.
	AskRestart FaultKind = "ask-restart"
	AskReplace FaultKind = "ask-replace"
)

// Unhealed: the group's spec has no healing.
const Unhealed = "none"

// healings are the values of Group.Healing.
var healings = []string{Unhealed, "ask", "auto"}

// Fault is one thing that goes wrong.
type Fault struct {
	Kind FaultKind
	At   time.Duration
	// For is how long it lasts, where it does.
	For time.Duration
	// Target is the Slot of the coordinator or member, or the group, that it happens to; All
	// where it happens to everybody.
	Target string
	// By is how far a clock is off, of Skew.
	By time.Duration
}

// All is the Target of what happens to no one in particular.
const All = "all"

// Coordinator is the Slot of the n-th one.
func Coordinator(n int) string { return fmt.Sprintf("coordinator-%d", n) }

// Member is the n-th Slot of a group.
func Member(group string, n int) string { return fmt.Sprintf("%s-%d", group, n) }

// GroupOf a Slot is all of its name but the ordinal.
func GroupOf(slot string) string { return slot[:max(strings.LastIndexByte(slot, '-'), 0)] }

// Odds are how often calls and writes go wrong, each 0 to 1.
type Odds struct {
	// LostAnswer of a platform call that is done; Never done, without an answer; Late: done up
	// to minutes after that its caller gave up; Refused: certainly not done; Slow answers.
	LostAnswer, Never, Late, Refused, Slow float64
	// Busy is a refusal that is of that moment: the CVM is busy, or the account asks too often.
	Busy float64
	// BlindList fails a list of the platform, StaleList answers what was so before; BlindAsk fails
	// what else it is asked without an effect.
	BlindList, StaleList, BlindAsk float64
	// LostWrite and LostAck of a transaction: not applied, and applied, without an answer.
	LostWrite, LostAck float64
	// Hook of a drain is slow, fails or hangs. Handover of leadership, and each change of a
	// workload's set: slow, refused for now, or done or not done without an answer.
	Hook, Handover float64
}

// Takes are the most that things take, each time anew; 0: they take as long each time, or no time.
type Takes struct {
	// Boot of a CVM. Lag is from when a member of a workload that has a leader runs until it has what
	// the others have; Election is how long such a one has no leader after it lost one.
	Boot, Lag, Election time.Duration
}

// Horizon is how long things go wrong in a drawn plan.
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
	drawShapes(Source(seed, "shapes", 0), p.Moves)
	drawKept(Source(seed, "kept", 0), &p)
	drawSpecs(Source(seed, "specs", 0), &p)
	slices.SortStableFunc(p.Moves, func(a, b Move) int { return int(a.At - b.At) })
	p.Faults, p.Odds = faults(r, p), odds(r)
	drawAsks(Source(seed, "asks", 0), &p)
	drawPersons(Source(seed, "persons", 0), &p)
	drawExclusions(Source(seed, "exclusions", 0), &p)
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	later := Source(seed, "later", 0)
	p.Odds.Busy, p.Odds.BlindAsk, p.Takes = oddsOf(later, 0.3), oddsOf(later, 0.3), takes(later)
	if slices.ContainsFunc(p.Groups, func(g Group) bool { return g.Deadline > 0 }) {
		// A step that goes well is over before its deadline.
		p.Takes.Boot, p.Takes.Lag = min(p.Takes.Boot, shortDeadline/4), min(p.Takes.Lag, shortDeadline/6)
	}
	return p
}

// moves make a group, and change it once to three times.
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

// drawChecks has half of the changes change the checks, and half of these nothing else, so that the
// Boots that run are to prove them.
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

// shortDeadline is one that passes long before all goes right again.
const shortDeadline = 2 * time.Minute

// drawBad has a group of every fifth seed get a release with which no member is well. Its steps have
// little time, so that they fail while other things go wrong, and the next change is a good one: what
// is bad for good says nothing about how it ends.
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

// drawShapes has every sixth change ask for another size, and every tenth for another image.
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

// drawKept has the operator of every third seed keep members back with one change. The next one lets
// go of them, and where there is none they do that alone: what is kept for good says nothing about
// how it ends.
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

// kinds are those of faults. A crash between two effects is what is drawn most.
var kinds = []FaultKind{Crash, CrashAt, CrashAt, CutStore, CutPlatform, CutMembers, Mute, Sicken, Hang, AgentCrash, AgentCrash, Reboot, Halt, Lose, Expire, Skew, Refuse, Hide, Split, Freeze, FreezeGroup, Pause, Drain, Protect}

// asks are what an operator may ask for.
var asks = []FaultKind{AskRestart, AskRestart, AskReplace}

// drawAsks has an operator of every third seed ask for one thing or two.
func drawAsks(r *rand.Rand, p *Plan) {
	if r.IntN(3) > 0 {
		return
	}
	for range 1 + r.IntN(2) {
		p.Faults = append(p.Faults, Fault{Kind: asks[r.IntN(len(asks))], At: time.Minute + upTo(r, Horizon-time.Minute), Target: p.anyMember(r)})
	}
}

// exclusions are what an operator may leave a member out of.
var exclusions = []FaultKind{Exclude, ExcludeRollout, ExcludeHealing}

// drawExclusions has an operator of every fourth seed leave one member or two out for a while.
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

// anyMember is one of those that a group has at first, or of all that it ever has: also those that it
// grows by, and the extra ones.
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

// intoRecovery is how soon after a fault the next one may fall into what comes of it.
const intoRecovery = 20 * time.Second

// faults are up to six, each of any kind. Half of them begin soon after the one before.
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
			f.For = upTo(r, 2*time.Second) // it is back before anybody misses it
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

// Source is the source of chance of the n-th decision of a kind: it does not depend on what
// else was decided before.
func Source(seed uint64, kind string, n uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind))                                       // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()^n*0x9e3779b97f4a7c15)) //nolint:gosec // it must repeat
}
