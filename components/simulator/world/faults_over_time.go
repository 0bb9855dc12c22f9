package world

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/platform"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// faultsOverTime injects the plan's faults, each at its time.
func (w *World) faultsOverTime(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, f := range w.plan.Faults {
		if !pause(ctx, f.At-time.Since(w.began)) {
			return
		}
		w.count()
		text := fmt.Sprintf("%s %s for %s", f.Kind, f.Target, f.For.Round(time.Millisecond))
		if f.Kind == plan.Skew {
			text = fmt.Sprintf("%s %s by %s", f.Kind, f.Target, f.By)
		}
		w.say("fault", text)
		all.Go(func() { w.happen(ctx, f) })
	}
	if pause(ctx, w.plan.HealAt-time.Since(w.began)) {
		w.heal()
	}
}

// heal ends all faults.
func (w *World) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.healed = true
	for _, p := range w.coordinators {
		p.armed = false
	}
	clear(w.clocks)
	for _, one := range w.cloud.AllLocked() {
		one.Guest.armed = 0
	}
	w.noteLocked(trace.Event{Kind: trace.Healed, By: "fault"})
}

func (w *World) happen(ctx context.Context, f plan.Fault) {
	coordinator := f.Target
	switch f.Kind {
	case plan.Crash:
		if p := w.process(coordinator, func(p *process) { p.down = f.For }); p != nil {
			p.die("as planned")
		}
	case plan.CrashAt:
		w.process(coordinator, func(p *process) { p.armed, p.down = true, f.For })
	case plan.CutStore:
		w.cutStore(ctx, f)
	case plan.Hide:
		w.hide(ctx, f.For)
	case plan.Refuse:
		w.refuse(ctx, f.For)
	case plan.CutPlatform:
		w.sever(ctx, cut{coordinator, toPlatform}, f.For)
	case plan.CutMembers:
		w.sever(ctx, cut{coordinator, toMembers}, f.For)
	case plan.Skew:
		w.mu.Lock()
		w.clocks[coordinator] = f.By
		w.mu.Unlock()
	case plan.Expire:
		w.store.ExpireSession()
	case plan.Mute, plan.Sicken:
		w.ail(ctx, f, f.Target)
	case plan.Hang:
		w.hang(ctx, f)
	case plan.AgentCrash:
		w.crashAgent(ctx, f)
	case plan.AgentCrashAt:
		w.armAgent(f)
	case plan.Split:
		w.ail(ctx, f, w.third()...)
	case plan.Freeze:
		w.sets(ctx, f.For, store.OverrideKey(store.OverrideFreeze, store.Everywhere), store.Override{})
	case plan.FreezeGroup:
		w.sets(ctx, f.For, store.OverrideKey(store.OverrideFreeze, f.Target), store.Override{})
	case plan.Pause:
		w.sets(ctx, f.For, store.OverrideKey(store.OverridePause, f.Target), store.Override{})
	case plan.Drain:
		w.sets(ctx, f.For, store.OverrideKey(store.OverrideDrain, f.Target), store.Override{})
	case plan.Protect:
		w.sets(ctx, f.For, store.OverrideKey(store.OverrideProtect, f.Target), store.Override{})
	case plan.Exclude:
		w.sets(ctx, f.For, store.OverrideKey(store.OverrideExclude, f.Target), store.Override{})
	case plan.ExcludeRollout:
		w.sets(ctx, f.For, store.OverrideKey(store.OverrideExclude, f.Target), store.Override{From: []string{group.FromRollout}})
	case plan.ExcludeHealing:
		w.sets(ctx, f.For, store.OverrideKey(store.OverrideExclude, f.Target), store.Override{From: []string{group.FromHealing}})
	case plan.AskRestart:
		w.ask(ctx, f.Target, store.QueueRequest{Kind: store.RequestRestart})
	case plan.AskReplace:
		w.ask(ctx, f.Target, store.QueueRequest{Kind: store.RequestReplace, DeleteDisk: true})
	case plan.Delete, plan.Remake, plan.Spare:
		w.deletes(ctx, f)
	case plan.Retry:
		w.retries(ctx, f)
	case plan.Undo:
		w.undoes(ctx, f.Target)
	case plan.OverrideWindow, plan.OverrideAfter, plan.OverrideBake:
		w.passesHold(ctx, f)
	case plan.Shut:
		w.shuts(ctx, f)
	case plan.Floor:
		w.raisesFloor(ctx, f.Target)
	case plan.Revoke:
		w.revokes(ctx, f)
	case plan.Withdraw:
		w.withdraws(ctx, f)
	case plan.Resolve:
		w.resolves(ctx, f.For)
	case plan.Reboot, plan.Halt, plan.Lose:
		w.strike(f.Target, f.Kind)
	}
}

// cutStore disconnects one coordinator from the store, or all at once.
func (w *World) cutStore(ctx context.Context, f plan.Fault) {
	if f.Target != plan.All {
		w.sever(ctx, cut{f.Target, toStore}, f.For)
		return
	}
	var all sync.WaitGroup
	for n := range w.plan.Coordinators {
		all.Go(func() { w.sever(ctx, cut{plan.Coordinator(n), toStore}, f.For) })
	}
	all.Wait()
}

// refuse makes the platform refuse each call for d, like an exhausted quota.
func (w *World) refuse(ctx context.Context, d time.Duration) {
	by := func(n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refusing += n
	}
	by(1)
	w.wait(ctx, d)
	by(-1)
}

// hide makes the platform show the present state for d.
func (w *World) hide(ctx context.Context, d time.Duration) {
	w.mu.Lock()
	hides := w.shown == nil // else another fault does already
	if hides {
		w.shown = []platform.Instance{}
		for _, one := range w.cloud.AllLocked() {
			w.shown = append(w.shown, one.Instance)
		}
	}
	w.mu.Unlock()
	if !hides {
		return
	}
	w.wait(ctx, min(d, settle-callLimit)) // an effect shows within settle
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown = nil
}

// ask sends an operator's request about the present CVM of a Slot, where it has one.
func (w *World) ask(ctx context.Context, slot string, q store.QueueRequest) {
	w.mu.Lock()
	c := w.cvmLocked(slot)
	w.mu.Unlock()
	if c == nil {
		return
	}
	q.Group, q.Slot, q.VMUUID, q.InstanceID = c.group(), slot, c.VMUUID, c.InstanceID
	w.request(ctx, q)
}

// put writes as an operator, whose connection to the store is never cut.
func (w *World) put(ctx context.Context, key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("%T has no text: %v", value, err)) // the values are the simulator's own
	}
	_ = w.store.Commit(ctx, store.Op{Kind: store.OpPut, Key: key, Value: text})
}

// sets makes the operator set a switch for d.
func (w *World) sets(ctx context.Context, d time.Duration, key string, value any) {
	w.put(ctx, key, value)
	w.wait(ctx, d)
	_ = w.store.Commit(ctx, store.Op{Kind: store.OpDelete, Key: key})
}

// process changes a coordinator's process and returns it; nil: it has not started yet.
func (w *World) process(slot string, change func(*process)) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.coordinators[slot]
	if p != nil {
		change(p)
	}
	return p
}
