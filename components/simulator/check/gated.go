package check

import (
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// setting is a setting of a gate from a time on; nil: there is none.
type setting struct {
	from time.Duration
	to   *store.Override
}

// settings are the settings of all gates by their scopes, oldest first.
type settings map[string][]setting

// gated is R150. Work of a kind that a gate of the spec holds begins, and comes to its first call, only while the gate
// is open, by a setting that a leader may know. A gate per Slot is open for the one step whose ticket its setting names. A
// gate holds no healing that it does not name: the status of a member whose CVM stopped a minute ago, and that healing may start,
// never names a gate alone.
func gated(t trace.Trace) []Violation {
	var f findings
	all := settings{}
	held, halted := map[string]bool{}, map[string]time.Duration{}
	walk(t, func(s *state, i int, e trace.Event) {
		for slot := range held {
			if at, is := halted[slot]; is && e.At-at > time.Minute && s.heals(slot) {
				f.add(i, "%s is stopped since %s, and a gate alone holds its repair", slot, at)
				delete(held, slot)
			}
		}
		switch words := strings.Fields(e.Text); {
		case e.Kind == trace.Faulted && len(words) > 1 && words[0] == "halt" && s.member(words[1]).ever:
			halted[words[1]] = e.At
		case e.Kind == trace.Effected, e.Kind == trace.Served, e.Kind == trace.Lost:
			delete(halted, e.Slot)
		}
		if e.Kind != trace.Committed {
			return
		}
		if strings.HasPrefix(e.Key, "groups/"+e.Group+"/slots/") {
			delete(held, e.Slot)
			if e.Gated && !e.Deleted {
				held[e.Slot] = true
			}
		}
		if scope, is := strings.CutPrefix(e.Key, store.OverrideGate.Prefix()); is && e.Gate != nil {
			all[scope] = append(all[scope], setting{e.At, ifKept(e, e.Gate)})
		}
		if r := e.Rollout; r != nil && s.rollouts[r.ID] != nil && r.StagesPassed > s.rollouts[r.ID].StagesPassed {
			if name := s.closedFor(all, r.Group, group.GateOnPromote, "", ""); name != "" {
				f.add(i, "%s opens a stage behind the closed gate %s", r.ID, name)
			}
		}
		op := e.Operation
		if op == nil || e.Deleted || op.Phase.Ended() || s.operations[op.ID] != nil && (s.acts(e) == nil || len(op.Call.Applied) > 0 || op.Call.Number > 1) {
			return
		}
		work := workOf(op)
		if work == "" || s.ending(op.Group) {
			return
		}
		if name := s.closedFor(all, op.Group, work, op.Slot, op.Ticket); name != "" {
			f.add(i, "%s (%s of %s) is %s behind the closed gate %s", op.ID, work, op.Slot, op.Phase, name)
		}
	})
	return f
}

// heals reports that the specs let healing start the Slot's CVM, and no gate of theirs holds that. The Slot runs the
// Revision that it was given last: otherwise a step of its rollout failed, and the rollout's next step repairs it.
func (s *state) heals(slot string) bool {
	m := s.member(slot)
	for _, sp := range s.specsOf(m.group) {
		names := func(g group.Gate) bool { return slices.Contains(g.On, group.GateOnHeal) }
		if sp == nil || sp.AutoHealing == nil || !slices.Contains(sp.Members(), slot) || slices.ContainsFunc(sp.Gates, names) {
			return false
		}
	}
	name := excludedFrom(group.FromHealing, slot)
	cleared, was := s.cleared[name]
	excluded := s.switched(name) || was && s.now-cleared < time.Minute
	return !excluded && !s.ending(m.group) && len(m.open) == 0 && m.bound != nil && m.bound.Assigned == m.ran && !m.serves()
}

// workOf is the kind of work that an Operation is for a gate; "": no gate holds it.
func workOf(op *operation.Operation) string {
	switch {
	case op.Kind == operation.Drain, op.Kind == operation.Stop, op.Way.Refreshes():
		return ""
	case op.Actor == operation.ActorHealing:
		return group.GateOnHeal
	case op.Kind == operation.Create:
		return group.GateOnCreate
	case op.Kind == operation.Delete:
		return group.GateOnRemove
	}
	return group.GateOnStep
}

// closedFor names the gate that was closed for such work by each spec and each setting that a decision may rest on; "": none
// was.
func (s *state) closedFor(all settings, of, work, slot, ticket string) string {
	specs := s.specsOf(of)
	if len(specs) == 0 || specs[0] == nil {
		return ""
	}
	for _, gate := range specs[0].Gates {
		holds := !slices.ContainsFunc(specs, func(sp *group.Spec) bool {
			if sp == nil {
				return true
			}
			same, has := sp.Gate(gate.Name)
			return !has || !slices.Contains(same.On, work)
		})
		if holds && !s.mayBeOpenFor(all, of, gate, slot, ticket) {
			return of + "/" + gate.Name
		}
	}
	return ""
}

func (s *state) mayBeOpenFor(all settings, of string, gate group.Gate, slot, ticket string) bool {
	scope := of + "/" + gate.Name
	if gate.PerSlot() {
		scope += "/" + slot
	}
	list := append([]setting{{}}, all[scope]...)
	for _, one := range slices.Backward(list) {
		switch set := one.to; {
		case set == nil && gate.Default == group.GateOpen:
			return true
		case set != nil && set.State == group.GateOpen && (!gate.PerSlot() || set.Ticket == ticket):
			return true
		}
		if s.now-one.from > EvidenceAge {
			break
		}
	}
	return false
}
