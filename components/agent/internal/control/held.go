package control

import (
	"errors"
	"maps"
	"slices"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Held is the outcome of a hold among the callers of this Slot's group.
type Held struct {
	// Holding are the Slots whose agents have paused all their routes to it.
	Holding []string
	// NotHolding are the Slots whose agents have not, with the reason.
	NotHolding map[string]string
}

// unheardBy is the reason of those whom no coordinator that answered hears.
const unheardBy = "no coordinator that answered hears its agent"

// answered is the answer of one coordinator.
type answered struct {
	out *controlv1.BeginHandoverResponse
	err error
}

// callersHeld combines the answers of several coordinators. A caller counts as held if any
// coordinator reports it held. The zero value has no answer yet.
type callersHeld struct {
	holding, unheard map[string]bool
	not              map[string]string
	did              bool
	errs             []error
}

func (c *callersHeld) add(a answered) {
	if a.err != nil {
		c.errs = append(c.errs, a.err)
		return
	}
	if !c.did {
		c.did, c.holding, c.unheard, c.not = true, map[string]bool{}, map[string]bool{}, map[string]string{}
	}
	for _, slot := range a.out.GetHolding() {
		c.holding[slot] = true
	}
	maps.Copy(c.not, a.out.GetNotHolding())
	for _, slot := range a.out.GetUnheard() {
		c.unheard[slot] = true
	}
}

// whole reports whether the answers speak of every caller, so that those to come say nothing new.
func (c *callersHeld) whole() bool {
	for slot := range c.unheard {
		if _, spoken := c.not[slot]; !spoken && !c.holding[slot] {
			return false
		}
	}
	return c.did
}

// held is the sum; an error when there is no answer.
func (c *callersHeld) held() (Held, error) {
	if !c.did {
		return Held{}, errors.Join(c.errs...)
	}
	out := Held{NotHolding: map[string]string{}}
	for slot := range c.unheard {
		out.NotHolding[slot] = unheardBy
	}
	maps.Copy(out.NotHolding, c.not)
	for slot := range c.holding {
		delete(out.NotHolding, slot)
		out.Holding = append(out.Holding, slot)
	}
	slices.Sort(out.Holding)
	return out, nil
}
