package world

import (
	"context"
	"slices"
	"time"

	"cadre.dev/coordinator/simulated"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/simulator/trace"
)

// latest holds the highest of numbers that only grow. Make it with a capacity of 1, for one writer
// at a time.
type latest chan uint64

func (l latest) set(n uint64) {
	select {
	case before := <-l:
		n = max(n, before)
	default:
	}
	l <- n
}

// renew makes the Boot attest again for each newer policy of its Slot, until the process ends.
func (w *World) renew(ctx context.Context, c *cvm, r *worker) {
	for proven := uint64(0); ; {
		var epoch uint64
		select {
		case <-ctx.Done():
			return
		case epoch = <-r.epoch:
		}
		for epoch > proven && !w.renewed(ctx, c, r, epoch) {
			if !pause(ctx, time.Second) {
				return
			}
		}
		proven = max(proven, epoch)
	}
}

// renewed asks each coordinator once; it reports whether one accepted the Boot's evidence.
func (w *World) renewed(ctx context.Context, c *cvm, r *worker, epoch uint64) bool {
	w.mu.Lock()
	e, processes := w.evidenceLocked(c), w.heardByLocked(c)
	is := !r.gone.Load() && e.Boot == r.boot
	w.mu.Unlock()
	e.Epoch = epoch
	return is && slices.ContainsFunc(processes, func(p *process) bool {
		in, err := p.coordinator.Admit(ctx, e)
		return err == nil && in
	})
}

// evidenceLocked is the evidence of a CVM's Boot, each time with a greater Serial.
func (w *World) evidenceLocked(c *cvm) simulated.Evidence {
	w.asked++
	return simulated.Evidence{Slot: c.slot, Boot: c.boot, Serial: w.asked, InstanceID: c.InstanceID, AppID: c.AppID, ComposeHash: c.ComposeHash, OSImage: c.OSImage}
}

// heard records the checks that a report's agent runs, and the result in discovery.
func (k *control) heard(r *controlv1.Report) {
	found, why, known := k.p.coordinator.Found(k.c.slot)
	w := k.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if k.r.gone.Load() || k.p.dead() || k.c.boot != k.r.boot {
		return
	}
	about := trace.Event{By: k.p.slot, Group: k.c.group(), Slot: k.c.slot, Boot: k.r.boot}
	if r != nil {
		goesBy := r.GetAgentSpec()
		for _, check := range r.GetChecks() {
			if check.GetPending() {
				goesBy = ""
			}
		}
		if goesBy != k.r.goesBy {
			k.r.goesBy, about.Kind, about.Text = goesBy, trace.Judged, goesBy
			w.noteLocked(about)
		}
	}
	if was := k.r.found[k.p]; known && was != found {
		k.r.found[k.p], about.Kind, about.Text = found, trace.Hidden, why
		if found {
			about.Kind = trace.Found
		}
		w.noteLocked(about)
	}
}
