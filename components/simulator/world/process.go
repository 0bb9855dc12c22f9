package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// operationRecord is decoded together with the keys.
type operationRecord = operation.Operation

func segments(key string) []string { return strings.Split(key, "/") }

// process is one life of a coordinator.
type process struct {
	w           *World
	slot        string
	coordinator *simulated.Coordinator
	end         context.CancelFunc
	died        atomic.Bool
	// All below are guarded by World.mu.
	lease store.Lease
	// armed: it dies at the next failpoint.
	armed bool
	// down is the pause before the next life.
	down time.Duration
}

func (p *process) dead() bool { return p.died.Load() }

// die ends the process at once: its later actions have no effect.
func (p *process) die(how string) {
	if !p.died.CompareAndSwap(false, true) {
		return
	}
	p.w.mu.Lock()
	lease := p.lease
	p.w.noteLocked(trace.Event{Kind: trace.Crashed, By: p.slot, Text: how})
	p.w.relinkLocked()
	p.w.mu.Unlock()
	p.w.store.PauseRenewalsOf(p.slot, true)
	if lease != nil {
		loseLease(lease)
	}
	p.end()
}

// failpoint is where the process may die: its goroutine goes no further then.
func (p *process) failpoint(name string) {
	p.w.mu.Lock()
	hit := p.armed
	p.armed = false
	p.w.mu.Unlock()
	if hit {
		p.die("at " + name)
	}
}

// stepped counts a step of the process, and ends the process where the plan requires it.
func (p *process) stepped(what string) {
	p.w.mu.Lock()
	p.w.steps++
	n := p.w.steps
	p.w.mu.Unlock()
	if slices.Contains(p.w.plan.CrashPoints, n) {
		p.w.count()
		p.die(fmt.Sprintf("after step %d: %s", n, what))
	}
}

// now is the wall clock of the process's machine.
func (p *process) now() time.Time {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return time.Now().Add(p.w.clocks[p.slot])
}

// keep runs lives of a coordinator until ctx ends.
func (w *World) keep(ctx context.Context, slot string) {
	down := time.Duration(0)
	for pause(ctx, down) {
		life, end := context.WithCancel(ctx)
		p := &process{w: w, slot: slot, end: end}
		p.coordinator = simulated.New(simulated.Config{
			Cluster: Cluster, Slot: slot, OwnApp: ownApp, Store: storeLink{w.store, w, p}, Platform: w.linkOf(p),
			Images: policy.ImagePolicy{}, Now: p.now, Failpoint: p.failpoint, Passed: w.passed,
			Wake: p.wake, Log: w.log.With("self", slot),
		})
		w.mu.Lock()
		w.coordinators[slot] = p
		w.noteLocked(trace.Event{Kind: trace.Started, By: slot})
		w.relinkLocked()
		w.mu.Unlock()
		p.coordinator.Run(life)
		end()
		altered := p.coordinator.Altered()
		w.mu.Lock()
		w.altered = append(w.altered, altered...)
		// An armed process may reach its failpoint long after. It restarts all the same when all
		// faults end: a group cannot settle without a leader.
		down = max(min(p.down, time.Until(w.began.Add(w.plan.HealAt))), time.Second)
		w.mu.Unlock()
	}
}
