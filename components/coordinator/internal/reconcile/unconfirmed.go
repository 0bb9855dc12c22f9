package reconcile

import (
	"context"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// HoldUnconfirmed blocks all steps while a leader that began a moment ago does not know yet whether
// the records went back.
const HoldUnconfirmed = "records_unconfirmed"

// patience is the longest wait of a coordinator, after its start, for agents to confirm the
// records. It waits where running CVMs have unheard agents, or where an agent saw more than the
// records contain. An agent finds the coordinators again within a minute.
const patience = time.Minute

// heard is the set of agent reports that a coordinator has soon after its start.
type heard struct {
	age time.Duration // since the first read of the records
	// most and all: so many of the Boots in the records reported; true without any Boot
	most, all bool
	// contradicted: an agent saw more than the records contain.
	contradicted bool
}

// heard compares the agents' reports with records at a Term and a state that name at least admitted
// Boots.
func (r *Reconciler) heard(agents reports.HighWater, term, state uint64, admitted int) heard {
	h := heard{contradicted: agents.Any.Term > term || agents.Any.State > state}
	if since := r.cfg.Views.Since(); !since.IsZero() {
		all, _ := r.cfg.Views.Latest() // Latest is not nil once Since is set
		h.age, admitted = time.Since(since), max(admitted, len(all.Admissions))
	}
	h.most, h.all = admitted == 0 || 2*agents.Agents > admitted, agents.Agents >= admitted
	return h
}

func (p *pass) heard(agents reports.HighWater) heard {
	return p.Reconciler.heard(agents, p.lease.Term(), max(p.view.State, p.view.Recovery.State), len(p.view.Admissions))
}

// tooFewReports reports that this coordinator began a moment ago, and that most Boots in the records have
// not reported. They may know that the records went back.
func (r *Reconciler) tooFewReports(h heard) bool { return h.age < r.cfg.Warmup && !h.most }

// unconfirmed reports that the records may still have gone back. Either most agents are unheard
// although running CVMs of this group should report. Or one agent saw more than the records
// contain, and not all agents reported yet. The word of most agents halts the leader. The word of a
// single agent, which may lie, delays the leader.
func (p *pass) unconfirmed(h heard) bool {
	if p.cfg.Warmup == 0 || h.age >= patience || h.most && (h.all || !h.contradicted) {
		return false
	}
	return h.most || slices.ContainsFunc(p.seen.Now.Slots, func(s rollout.SlotObservation) bool {
		return s.Admission != nil && s.Report == nil && (!p.seen.Now.Platform.Known || s.Instance != nil && s.Instance.Running())
	})
}

// untilConfirmed waits while agents may still report that the records went back. A state that grows
// meanwhile would reach the state that they saw, and hide the loss.
func (r *Reconciler) untilConfirmed(ctx context.Context, lease store.Lease) {
	for ctx.Err() == nil {
		agents := r.cfg.Reports.HighWater()
		v, _ := r.cfg.Views.Latest()
		if r.cfg.Warmup == 0 {
			return
		}
		if v != nil {
			h := r.heard(agents, lease.Term(), max(v.State, v.Recovery.State), 0)
			if h.age >= patience || h.most && (h.all || !h.contradicted) {
				return
			}
		}
		wait(ctx, time.Second)
	}
}

// reportUnconfirmed writes the planned steps and why they wait. No Operation begins or continues.
func (p *pass) reportUnconfirmed(ctx context.Context) error {
	p.decide()
	for i := range p.plan.Actions {
		a := &p.plan.Actions[i]
		a.Execute = false
		a.Holds = append(a.Holds, rollout.Hold{Predicate: HoldUnconfirmed, Message: "this coordinator began a moment ago, and not enough agents have " +
			"confirmed yet that the records are current; it goes on when they do, and otherwise a minute after its start"})
	}
	for i := range p.plan.Status.Instances {
		// This pass dated the change, and no record has that date yet. The next pass would date it
		// again, write it, and be woken by its own write, without end.
		if s := &p.plan.Status.Instances[i]; s.Since != nil && s.Since.Equal(p.now) {
			s.Since = nil
		}
	}
	return p.report(ctx)
}
