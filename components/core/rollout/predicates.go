package rollout

import (
	"slices"

	"cadre.dev/core/operation"
)

// look is the input of one evaluation of the predicates.
type evaluation struct {
	// taken holds the steps that this pass already decided to begin.
	taken *taken
	// op is the Operation at the precommit check, right before its call (R50); nil at the preflight check. Its own Slot
	// counts as gone. The effect of its own drain on the member does not count against it.
	op *operation.Operation
}

// harm is the possible cost of an Action.
type harm int

const (
	// constructive adds a CVM or a member, or is a loss that the spec wants.
	constructive harm = iota
	// disruptive takes an available member away for a while.
	disruptive
	// destructive can also lose the data of a member.
	destructive
)

func harmOf(k operation.Kind) harm {
	switch k {
	case operation.Create, operation.Stop: // the spec wants the loss that a Stop is for
		return constructive
	case operation.Update, operation.Restart, operation.Drain:
		return disruptive
	case operation.Delete, operation.Replace:
	}
	return destructive
}

// check returns why c must wait, or no Hold if c may run now.
type check func(w *world, c candidate, l evaluation) []Hold

// predicate is one rule that can hold an Action.
type predicate struct {
	// names are the names of its Holds (R140).
	names []string
	// from is the least harm that the rule applies to. No Kind can be forgotten, since every Kind has a harm. only
	// narrows the rule to some Kinds.
	from harm
	only []operation.Kind
	// voluntary: the rule does not hold the repair of a member that is known to be down. A member that only does not
	// report may be healthy, so the rule applies.
	voluntary bool
	// stops: the rule concerns taking a member away, so a refresh skips it.
	stops bool
	// actor: the rule concerns steps of that Actor; "": of any Actor.
	actor operation.Actor
	// check runs before the step begins, and again right before its platform call (R50), as the same function. If the
	// first run is enough, once says why.
	check check
	once  string
}

var notDrain = []operation.Kind{operation.Create, operation.Update, operation.Restart, operation.Delete, operation.Replace}

var notDelete = []operation.Kind{operation.Create, operation.Update, operation.Restart, operation.Replace}

// appliesTo: the rule concerns such an Action. Each pass asks this for every rule and member, so nothing is copied.
func (p *predicate) appliesTo(w *world, c *candidate) bool {
	switch {
	case p.actor != "" && c.actor != p.actor, p.stops && c.refresh, harmOf(c.kind) < p.from:
		return false
	case p.only != nil && !slices.Contains(p.only, c.kind) && (!c.rolls() || !slices.Contains(p.only, operation.Update)):
		return false // a rule about updates is about a rollout's replacements too
	case p.from > constructive && (c.left || w.ending()):
		return false // the member or the whole group already goes: nothing is left to protect
	}
	return !p.voluntary || c.condition == well || c.condition == lost
}

// ending: the whole group is being deleted.
func (w *world) ending() bool { return w.obs.Deletion != nil }
