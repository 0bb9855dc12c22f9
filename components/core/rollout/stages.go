package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/names"
)

// Stages are a moving partition (R94): while a stage is open, a part of the Slots may be at the target. The Slots that
// are there already count first, then the Slots that the rollout would update next. So no stage waits for a leader or a
// failure domain that the order of the rollout puts last. A stage with all its Slots available bakes, and is promoted.

func (s stage) name() string { return fmt.Sprintf("stage %d of %d", s.number, len(s.all)) }

// next names the Slots that move after the stage.
func (s stage) next() string {
	n := s.slots
	if s.number < len(s.all) {
		n = s.all[s.number].Of(n)
	}
	if n >= s.slots {
		return "all slots"
	}
	return fmt.Sprintf("%d of %d slots", n, s.slots)
}

// lets: m may move. Extra members are updated before all others.
func (s stage) lets(m *member) bool { return s.number == 0 || m.extra || s.members[m] }

func (s stage) has(m *member) bool { return s.members[m] }

func (w *world) openStage() stage {
	return w.tally.stage.of(func() stage {
		n := w.stageNumber()
		if n == 0 {
			return stage{}
		}
		all := w.spec.UpdatePolicy.Stages
		s := stage{Stage: all[n-1], number: n, all: all, slots: w.spec.Replicas, members: map[*member]bool{}}
		var others []*member
		for _, m := range w.members {
			switch {
			case m.extra || !m.inScope() || m.want.revision != w.target:
			case w.moved(m):
				s.members[m] = true
			default:
				others = append(others, m)
			}
		}
		slices.SortStableFunc(others, w.nextInStage)
		for _, m := range others[:max(0, min(len(others), s.Of(s.slots)-len(s.members)))] {
			s.members[m] = true
		}
		return s
	})
}

// moved: m runs the target, was given it, or is on its way there.
func (w *world) moved(m *member) bool {
	return m.observed == w.target || m.record.Assigned == w.target || m.open != nil && m.open.To == w.target
}

// nextInStage orders Slots that have not moved as the rollout does: the leader last, a broken Slot first, then the
// failure domain whose turn it is, then from the highest ordinal. A broken Slot outside of the stage would keep the
// budget from the Slots of the stage, and the update that could repair it would wait for them.
func (w *world) nextInStage(a, b *member) int {
	rank := func(m *member) int {
		later := w.spec.UpdatePolicy.Order == group.OrderByDomain && w.domainsTurn().domain != w.domainOf(m)
		broken := m.condition < lost && !m.keptByHand()
		return 4*btoi(m.leads() || m.named) + 2*btoi(!broken) + btoi(later)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), -cmp.Compare(a.ordinal, b.ordinal))
}

// holdsOfStage holds the rollout's step of a Slot outside of the open stage. A member that never was available at the
// Revision that it runs passes: only the update repairs it, and the Slots of the stage would wait for its place in the
// budget.
func (w *world) holdsOfStage(c candidate, _ evaluation) []Hold {
	if c.to != w.target || w.openStage().lets(c.m) || c.condition != well && c.condition != lost && !c.m.provenAt(c.m.runs()) {
		return nil
	}
	return w.holdsPromotion()
}

// holdsPromotion returns why the next stage is not open; empty: it opens now.
func (w *world) holdsPromotion() []Hold {
	s, r := w.openStage(), w.rollout
	until := r.BakeSince.Add(s.Bake.D())
	switch waits := w.awaited(s.has); {
	case r.BakeSince.IsZero():
		return []Hold{hold(HoldStage, "%s is open: %s first", s.name(), cmp.Or(waits, "its slots"))}
	case waits != "" && !w.now.Before(until):
		return []Hold{hold(HoldStage, "%s bakes until %s is available again", s.name(), waits)}
	}
	// An override of the bake opens the next stage. If it passed the hold of each Slot instead, all Slots would pass the
	// promotion and the size of each later stage as well.
	if w.now.Before(until) && w.overrideOf(HoldStageBaking) == nil {
		return []Hold{holdUntil(until, HoldStageBaking, "%s bakes until %s; next: %s", s.name(), w.clockText(until), s.next())}
	}
	var holds []Hold
	if s.Asks() && r.Promoted < s.number {
		holds = append(holds, hold(HoldStagePromotion, "%s has baked; next: %s; to go on: cadre rollout promote %s", s.name(), s.next(), w.spec.Name))
	}
	for _, gate := range w.spec.Gates {
		if slices.Contains(gate.On, group.GateOnPromote) {
			if h, closed := w.heldByGate(gate, "", ""); closed {
				holds = append(holds, holdUntil(h.Until, HoldStage, "%s has baked; next: %s; %s", s.name(), s.next(), h.Message))
			}
		}
	}
	return holds
}

// StageToPromote returns the number of the stage that waits for an operator's promotion, by the spec of the plan; ok is
// false if none waits.
func (p Plan) StageToPromote(spec group.Spec) (number int, ok bool) {
	if p.Rollout == nil || p.Rollout.StagesPassed >= len(spec.UpdatePolicy.Stages) {
		return 0, false
	}
	return p.Rollout.StagesPassed + 1, slices.ContainsFunc(p.Actions, func(a Action) bool { return a.HeldBy(HoldStagePromotion) })
}

// clockText is a time of today, or with its date.
func (w *world) clockText(at time.Time) string {
	if at.Sub(w.now) < 12*time.Hour {
		return at.UTC().Format(time.TimeOnly + " MST")
	}
	return at.UTC().Format(time.RFC3339)
}

// stageText describes the open stage for the rollout's record; "": none is open.
func (w *world) stageText() string {
	s := w.openStage()
	if s.number == 0 {
		return ""
	}
	var texts []string
	for _, h := range w.holdsPromotion() {
		texts = append(texts, h.Message)
	}
	return strings.Join(texts, "; ")
}

// awaited names the Slots among these that are not available at the target, in order; "": all are.
func (w *world) awaited(among func(*member) bool) string {
	var slots []string
	for _, m := range w.members {
		if among(m) && !w.tolerates(m) && (!m.available || w.outdated(m)) {
			slots = append(slots, m.slot)
		}
	}
	return names.Few(slots, ", ")
}

// keepStages starts the bake of the open stage, and opens the next stage when nothing holds it.
func (w *world) keepStages() {
	r := w.rollout
	for s := w.openStage(); s.number > 0 && len(s.members) > 0; s = w.openStage() {
		if p := w.promote; p != nil && p.Rollout == r.ID && p.Stage == s.number {
			r.Promoted, r.PromotedBy, r.PromoteRequest = s.number, p.By, p.ID
		}
		w.keepBake(w.awaited(s.has) == "", w.unproven(s))
		if r.BakeSince.IsZero() || len(w.holdsPromotion()) > 0 {
			return
		}
		r.StagesPassed, r.BakeSince, r.ProgressAt = s.number, time.Time{}, w.now
		w.decideWanted()
		w.retally()
	}
	r.BakeSince = time.Time{} // a newer spec may leave out a stage that bakes
}

// unproven: a Slot of the stage has yet to arrive, or has to arrive again. A Slot that was there and is away is no such Slot.
func (w *world) unproven(s stage) bool {
	for m := range s.members {
		if !w.tolerates(m) && (w.outdated(m) || m.missing() || !m.provenAt(w.target)) {
			return true
		}
	}
	return false
}

// keepBake starts the clock of the present bake at the arrival of its Slots. It goes on while one of them is away, and a
// new leader goes on with the recorded time. A leader whose clock was ahead wrote a time in the future.
func (w *world) keepBake(arrived, unproven bool) {
	r := w.rollout
	switch {
	case unproven:
		r.BakeSince = time.Time{}
	case r.BakeSince.IsZero() && arrived, r.BakeSince.After(w.now):
		r.BakeSince = w.now
	}
}
