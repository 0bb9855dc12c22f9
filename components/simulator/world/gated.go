package world

import (
	"context"
	"regexp"
	"strings"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/simulator/plan"
	"cadre.dev/store"
)

// gate is the name of each group's gate.
const gate = "gate"

// gates are the gates of the group's spec.
func gates(g plan.Group) []group.Gate {
	if g.Gate.On == "" {
		return nil
	}
	out := group.Gate{Name: gate, On: strings.Split(g.Gate.On, ",")}
	if g.Gate.PerSlot {
		out.Per = group.GatePerSlot
	}
	return []group.Gate{out}
}

// opening is the command that a hold names as its way out, with the scope of the gate, the Slot and the ticket.
var opening = regexp.MustCompile(`cadre gate open (\S+)(?: --slot (\S+) --ticket (\S+))?`)

// opens makes an operator open the group's gate, some time after work waits for it. The operator follows the command that
// the hold names.
func (w *World) opens(ctx context.Context, g plan.Group) {
	since, done := map[string]time.Time{}, map[string]time.Time{}
	for pause(ctx, looks) {
		if !w.waitsForOperator(g.Name) {
			clear(since)
			continue
		}
		st, err := simulated.Status(ctx, w.store, g.Name)
		w.mu.Lock()
		shut := w.operators.shut[g.Name] > 0
		w.mu.Unlock()
		if err != nil || shut {
			continue
		}
		waits := map[string][]string{}
		for _, i := range st.Instances {
			for _, h := range i.Holds {
				if h.Predicate == rollout.HoldGateClosed || h.Predicate == rollout.HoldStage {
					if found := opening.FindStringSubmatch(h.Message); found != nil {
						waits[found[0]] = found
					}
				}
			}
		}
		for command, found := range waits {
			if _, seen := since[command]; !seen {
				since[command] = time.Now()
			}
			over := time.Since(w.began) >= w.plan.HealAt
			if time.Since(done[command]) < time.Minute || !over && time.Since(since[command]) < g.Gate.Opens {
				continue
			}
			done[command] = time.Now()
			scope := found[1]
			if found[2] != "" {
				scope += "/" + found[2]
			}
			w.put(ctx, store.OverrideKey(store.OverrideGate, scope), store.Override{
				State: group.GateOpen, Ticket: found[3], Reason: "it may begin", By: "operator", At: time.Now(),
			})
		}
		for command := range since {
			if waits[command] == nil {
				delete(since, command)
			}
		}
	}
}

// shuts makes an operator close the group's gate for a while.
func (w *World) shuts(ctx context.Context, f plan.Fault) {
	by := func(n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.operators.shut[f.Target] += n
	}
	by(1)
	defer by(-1)
	w.sets(ctx, f.For, store.OverrideKey(store.OverrideGate, f.Target+"/"+gate), store.Override{
		State: group.GateClosed, Reason: "not now", By: "operator", At: time.Now(),
	})
}
