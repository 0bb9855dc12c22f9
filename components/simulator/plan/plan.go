// Package plan decides from a seed what happens in a run: the group, what its operator asks
// for, and what goes wrong, when and where. It is a pure function of the seed.
package plan

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Plan of a run.
type Plan struct {
	Seed uint64
	// Coordinators that there are; Replicas of the one group, which has Workload.
	Coordinators, Replicas int
	Workload               string
	// Healing is what heals by itself: Unhealed, or the group's replace.
	Healing string
	// Moves are what the operator does, in order of time. The first makes the group.
	Moves []Move
	// Faults that begin at a time, in order of time.
	Faults []Fault
	// Odds are of each call and write, until HealAt.
	Odds Odds
	// HealAt is when all goes right again; Rest is how long it then has to come to rest. What
	// gives the same reason for Still waits for a person.
	HealAt, Rest, Still time.Duration
}

// Move is an edit of the spec.
type Move struct {
	At time.Duration
	// Release names the content; Replicas are as many as then.
	Release  string
	Replicas int
}

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
	// Reboot restarts a CVM behind everybody's back, Halt stops it, Lose destroys it.
	Reboot FaultKind = "reboot"
	Halt   FaultKind = "halt"
	Lose   FaultKind = "lose"
	// Expire ends the leader's session, as when Consul loses it.
	Expire FaultKind = "expire"
	// Skew puts a coordinator's wall clock off by By.
	Skew FaultKind = "skew"
)

// Unhealed: the group's spec has no healing.
const Unhealed = "none"

// healings are the values of Plan.Healing.
var healings = []string{Unhealed, "ask", "auto"}

// Fault is one thing that goes wrong.
type Fault struct {
	Kind FaultKind
	At   time.Duration
	// For is how long it lasts, where it does.
	For time.Duration
	// Target is the ordinal of the coordinator or member that it happens to.
	Target int
	// By is how far a clock is off, of Skew.
	By time.Duration
}

// Odds are how often calls and writes go wrong, each 0 to 1.
type Odds struct {
	// LostAnswer of a platform call that is done; Never done, without an answer; Late: done up
	// to minutes after that its caller gave up; Refused: certainly not done; Slow answers.
	LostAnswer, Never, Late, Refused, Slow float64
	// BlindList fails a list of the platform, StaleList answers what was so before.
	BlindList, StaleList float64
	// LostWrite and LostAck of a transaction: not applied, and applied, without an answer.
	LostWrite, LostAck float64
}

// Horizon is how long things go wrong in a drawn plan.
const Horizon = 8 * time.Minute

// Draw makes the plan of a seed.
func Draw(seed uint64) Plan {
	r := Source(seed, "plan", 0)
	p := Plan{
		Seed: seed, Coordinators: 1 + 2*r.IntN(2), Replicas: 1 + r.IntN(5), Workload: "patroni",
		HealAt: Horizon, Rest: 90 * time.Minute, Still: 40 * time.Minute,
	}
	if r.IntN(3) == 0 {
		p.Workload = "none"
	}
	p.Healing = healings[r.IntN(len(healings))]
	p.Moves = []Move{{0, "one", p.Replicas}}
	for n, at := 0, 90*time.Second; n < 1+r.IntN(3); n++ {
		at += upTo(r, 2*time.Minute)
		m := Move{at, []string{"two", "three", "one"}[r.IntN(3)], p.Replicas}
		if r.IntN(4) == 0 {
			m.Replicas = 1 + r.IntN(5)
		}
		p.Moves = append(p.Moves, m)
	}
	p.Faults, p.Odds = faults(r, p), odds(r)
	return p
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// kinds are those of faults. A crash between two effects is what is drawn most.
var kinds = []FaultKind{Crash, CrashAt, CrashAt, CutStore, CutPlatform, CutMembers, Mute, Sicken, Reboot, Halt, Lose, Expire, Skew}

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
		if f.Target = r.IntN(p.Coordinators); f.ofMember() {
			f.Target = r.IntN(p.Replicas)
		}
		if (f.Kind == Mute || f.Kind == Sicken) && r.IntN(3) == 0 {
			f.For = Horizon - at // for long enough to count as lost
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
		BlindList: draw(0.3), StaleList: draw(0.3), LostWrite: draw(0.1), LostAck: draw(0.1),
	}
}

// Source is the source of chance of the n-th decision of a kind: it does not depend on what
// else was decided before.
func Source(seed uint64, kind string, n uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind))                                       // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()^n*0x9e3779b97f4a7c15)) //nolint:gosec // it must repeat
}
