package reconcile

import (
	"context"
	"slices"
	"time"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// HoldUnconfirmed keeps all steps back while a leader that began a moment ago does not know yet whether the
// records went back.
const HoldUnconfirmed = "records_unconfirmed"

// patience is how long after its start a coordinator waits at most for agents to confirm the records,
// where CVMs run whose agents are not heard, or an agent saw more than the records say: an agent finds the coordinators
// again within a minute.
const patience = time.Minute

// heard is what a coordinator that began a moment ago heard of the agents.
type heard struct {
	age time.Duration // since the first read of the records
	// most of the Boots that the records name were heard, and all of them; true where there are none.
	most, all bool
	// contradicted: an agent saw more than the records say.
	contradicted bool
}

// heard says so for records that stand at a Term and a state, and name at least so many Boots.
func (r *Reconciler) heard(agents reports.HighWater, term, state uint64, admitted int) heard {
	h := heard{contradicted: agents.Any.Term > term || agents.Any.State > state}
	if since := r.cfg.Views.Since(); !since.IsZero() {
		all, _ := r.cfg.Views.Latest() // there is one since then
		h.age, admitted = time.Since(since), max(admitted, len(all.Admissions))
	}
	h.most, h.all = admitted == 0 || 2*agents.Agents > admitted, agents.Agents >= admitted
	return h
}

func (p *pass) heard(agents reports.HighWater) heard {
	return p.Reconciler.heard(agents, p.lease.Term(), max(p.view.State, p.view.Recovery.State), len(p.view.Admissions))
}

// deaf reports that this coordinator began a moment ago and most of the Boots that the
// records name have not been heard: they may know that the records went back.
func (r *Reconciler) deaf(h heard) bool { return h.age < r.cfg.Warmup && !h.most }

// unconfirmed reports that the same may still be so: most are not heard though CVMs of this group run in
// which they should be, or an agent saw more than these records say and not all were heard yet. The
// word of most agents halts the leader; that of a single one, which may lie, delays it.
func (p *pass) unconfirmed(h heard) bool {
	if p.cfg.Warmup == 0 || h.age >= patience || h.most && (h.all || !h.contradicted) {
		return false
	}
	return h.most || slices.ContainsFunc(p.seen.Now.Slots, func(s rollout.SlotObservation) bool {
		return s.Admission != nil && s.Report == nil && (!p.seen.Now.Platform.Known || s.Instance != nil && s.Instance.Running())
	})
}

// untilConfirmed waits for as long as agents may still say that the records went back: a state that grows
// meanwhile would reach what they saw, and hide it.
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

// reportUnconfirmed writes what would be done and why it waits. No Operation is begun or carried on.
func (p *pass) reportUnconfirmed(ctx context.Context) error {
	p.decide()
	for i := range p.plan.Actions {
		a := &p.plan.Actions[i]
		a.Execute = false
		a.Holds = append(a.Holds, rollout.Hold{Predicate: HoldUnconfirmed, Message: "this coordinator began a moment ago, and not enough agents have " +
			"confirmed yet that the records are current; it goes on when they do, and otherwise a minute after its start"})
	}
	for i := range p.plan.Status.Instances {
		// The time that this pass gave to a change stands in no record yet: the next pass would give another
		// one, write it, and be woken by its own write, without end.
		if s := &p.plan.Status.Instances[i]; s.Since != nil && s.Since.Equal(p.now) {
			s.Since = nil
		}
	}
	return p.report(ctx)
}
