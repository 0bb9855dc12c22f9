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
	// Hook is what comes of a hook of its drains that fails or takes too long: Unhooked, where it
	// has none, or one of the results that hooks have, in small letters.
	Hook string
	// Surge is how many extra members a rollout may have, with which none of the others may be
	// missed; 0: there are none, and one may be away.
	Surge int
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
	// Release names the content; Replicas are as many as then.
	Release  string
	Replicas int
	// GiveUp says that the disks of those may go which the group is not to have any more.
	GiveUp bool
	// Without are Slots that it is not to have, from then on until the next Move.
	Without []string
	// Checks are those of its members, from then on until the next Move: OneCheck, or one of the
	// others.
	Checks string
}

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
	// Split parts every third member of all groups from all coordinators.
	Split FaultKind = "split"
	// These are no fault of anybody: an operator stops everything or one group, takes a member
	// out of service, or keeps one from all that would disrupt it, for For.
	Freeze      FaultKind = "freeze"
	FreezeGroup FaultKind = "freeze-group"
	Drain       FaultKind = "drain"
	Protect     FaultKind = "protect"
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
	// BlindList fails a list of the platform, StaleList answers what was so before.
	BlindList, StaleList float64
	// LostWrite and LostAck of a transaction: not applied, and applied, without an answer.
	LostWrite, LostAck float64
	// Hook of a drain is slow, fails or hangs. Handover of leadership, and each change of a
	// workload's set: slow, refused for now, or done or not done without an answer.
	Hook, Handover float64
}

// Horizon is how long things go wrong in a drawn plan.
const Horizon = 8 * time.Minute

// Draw makes the plan of a seed.
func Draw(seed uint64) Plan {
	r := Source(seed, "plan", 0)
	p := Plan{
		Seed: seed, Coordinators: 1 + 2*r.IntN(2), HealAt: Horizon, Rest: 90 * time.Minute, Still: 40 * time.Minute,
	}
	conduct := Source(seed, "conduct", 0)
	for _, name := range []string{"pg", "app", "kv"}[:1+max(r.IntN(5)-2, 0)] {
		g := Group{
			Name: name, Replicas: 1 + r.IntN(5), Workload: workloads[r.IntN(len(workloads))],
			Healing: healings[r.IntN(len(healings))], Surge: max(r.IntN(5)-2, 0),
		}
		g.Service = g.Healing != Unhealed && conduct.IntN(2) == 0
		if conduct.IntN(3) == 0 {
			g.Hook = hooks[conduct.IntN(len(hooks))]
		}
		p.Groups = append(p.Groups, g)
		p.Moves = append(p.Moves, moves(r, g)...)
	}
	drawChecks(Source(seed, "checks", 0), p.Moves)
	slices.SortStableFunc(p.Moves, func(a, b Move) int { return int(a.At - b.At) })
	p.Faults, p.Odds = faults(r, p), odds(r)
	drawAsks(Source(seed, "asks", 0), &p)
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

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// kinds are those of faults. A crash between two effects is what is drawn most.
var kinds = []FaultKind{Crash, CrashAt, CrashAt, CutStore, CutPlatform, CutMembers, Mute, Sicken, Hang, AgentCrash, AgentCrash, Reboot, Halt, Lose, Expire, Skew, Split, Freeze, FreezeGroup, Drain, Protect}

// asks are what an operator may ask for.
var asks = []FaultKind{AskRestart, AskRestart, AskReplace}

// drawAsks has an operator of every third seed ask for one thing or two.
func drawAsks(r *rand.Rand, p *Plan) {
	if r.IntN(3) > 0 {
		return
	}
	for range 1 + r.IntN(2) {
		g := p.Groups[r.IntN(len(p.Groups))]
		p.Faults = append(p.Faults, Fault{Kind: asks[r.IntN(len(asks))], At: time.Minute + upTo(r, Horizon-time.Minute), Target: Member(g.Name, r.IntN(g.Replicas))})
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// faults are up to six, each of any kind.
func faults(r *rand.Rand, p Plan) []Fault {
	var out []Fault
	at := time.Duration(0)
	for range r.IntN(7) {
		at += upTo(r, Horizon/4)
		if at >= Horizon {
			break
		}
		f := Fault{Kind: kinds[r.IntN(len(kinds))], At: at, For: min(time.Second+upTo(r, 90*time.Second), Horizon-at)}
		switch f.Target = Coordinator(r.IntN(p.Coordinators)); {
		case f.ofAll():
			f.Target = All
		case f.ofMember():
			g := p.Groups[r.IntN(len(p.Groups))]
			f.Target = Member(g.Name, r.IntN(g.Replicas))
		case f.Kind == FreezeGroup:
			f.Target = p.Groups[r.IntN(len(p.Groups))].Name
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
	draw := func(most float64) float64 {
		return []float64{0, 0, most / 5, most}[r.IntN(4)]
	}
	return Odds{
		LostAnswer: draw(0.3), Never: draw(0.3), Late: draw(0.2), Refused: draw(0.2), Slow: draw(0.3),
		BlindList: draw(0.3), StaleList: draw(0.3), LostWrite: draw(0.1), LostAck: draw(0.1), Hook: draw(0.6), Handover: draw(0.4),
	}
}

// Source is the source of chance of the n-th decision of a kind: it does not depend on what
// else was decided before.
func Source(seed uint64, kind string, n uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind))                                       // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()^n*0x9e3779b97f4a7c15)) //nolint:gosec // it must repeat
}
