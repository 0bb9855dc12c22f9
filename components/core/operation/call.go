package operation

import (
	"slices"
	"time"
)

// Call is the last platform call of a step, recorded before it is made (R60), and the effects of the earlier calls.
type Call struct {
	// Part is the part that the call changes. Applied lists the parts whose effect is certain. Parts are applied one
	// after the other, one call each.
	Part    Part   `json:"part,omitempty"`
	Applied []Part `json:"applied,omitempty"`
	// Number counts the step's calls, including this call. Vain, of a create on a platform that stops first, counts the
	// earlier calls without an effect that certainly made no CVM.
	Number int `json:"number,omitempty"`
	Vain   int `json:"vain,omitempty"`
	// IssuedAt is set in the transaction that enters Acting, before the call.
	IssuedAt time.Time `json:"issued_at,omitzero"`
	Outcome  Outcome   `json:"outcome,omitempty"`
	// Correlation is the platform's handle for the call, if it gave one.
	Correlation string `json:"correlation,omitempty"`
	// HashWanted is the compose hash of To, HashBefore that of the CVM when the call was issued. If they differ, a
	// read-back by hash decides (R66).
	HashWanted string `json:"hash_wanted,omitempty"`
	HashBefore string `json:"hash_before,omitempty"`
	// UpdatedBefore is the platform's own update time of the CVM before the call.
	UpdatedBefore time.Time `json:"updated_before,omitzero"`
	// BootErrorBefore is a boot error from before the call: it proves nothing about the new boot.
	BootErrorBefore string `json:"boot_error_before,omitempty"`
	// Force, of PartStop: the guest is not asked.
	Force bool `json:"force,omitempty"`
	// Node is the place chosen for the CVM of a create; empty: the platform chooses.
	Node string `json:"node,omitempty"`
	// OwnEnv names the Slot's own env values that the call gives to the CVM.
	OwnEnv string `json:"own_env,omitempty"`
	// OwnInstanceType is the Slot's own size that the step's calls give to the CVM; "": To's. A newer size
	// after the first call that gives one is another step.
	OwnInstanceType string `json:"own_instance_type,omitempty"`
}

// issue makes c the next call, for part. The record keeps the platform's state before the call: each later leader
// judges the effect against it.
func (c *Call) issue(part Part, f Facts, now time.Time) {
	switch first := c.Part != PartCreate; {
	case part != PartCreate || !f.StopFirst:
	case first:
		c.Vain = c.Number - len(c.Applied) // repeated deletes
	case c.InVain():
		c.Vain++
	}
	c.Part, c.HashWanted, c.OwnEnv, c.OwnInstanceType = part, f.WantedHash, f.OwnEnv, f.OwnInstanceType
	if p := f.Platform; p != nil {
		c.HashBefore, c.UpdatedBefore, c.BootErrorBefore = p.ComposeHash, p.UpdatedAt, p.BootError
	}
	if c.IssuedAt, c.Outcome, c.Node = now, "", ""; part == PartCreate {
		c.Node = f.Node
	}
	c.Number++
}

// Shapes reports that a call of the step gave the CVM its content, or may have given it. A stop and a deletion give
// nothing.
func (c Call) Shapes() bool {
	gives := func(p Part) bool {
		return slices.Contains([]Part{PartCreate, PartResources, PartOSImage, PartCompose}, p)
	}
	return slices.ContainsFunc(c.Applied, gives) || gives(c.Part) && !c.InVain()
}

// Has reports that the effect of part is certain.
func (c Call) Has(part Part) bool { return slices.Contains(c.Applied, part) }

// stops reports that the platform accepted to stop the CVM. A guest may take its time, and a host may fall silent, until
// the stop shows.
func (c Call) stops() bool { return c.Has(PartStop) || c.Part == PartStop && c.Outcome == OutcomeDone }

// starts reports that the CVM is started again, by this call or an earlier one.
func (c Call) starts() bool { return c.Part == PartRestart || c.Has(PartRestart) }

// with returns c with part added to Applied.
func (c Call) with(part Part) Call {
	if part != "" && !c.Has(part) {
		c.Applied = append(slices.Clone(c.Applied), part)
	}
	return c
}

// changes reports that the content of a CVM, or its existence, changed for certain.
func (c Call) changes() bool {
	return slices.ContainsFunc(c.Applied, func(p Part) bool { return p != PartStop && p != PartRestart })
}

// Makes reports that this call or an earlier call makes the CVM.
func (c Call) Makes() bool { return c.Part == PartCreate || c.Has(PartCreate) }

// Undecided reports that the last call has no outcome yet, and may still get one.
func (c Call) Undecided() bool { return c.Outcome == "" || c.Outcome == OutcomeUnknown }

// InVain reports that the last call certainly had no effect: in ACTING the call is repeated.
func (c Call) InVain() bool {
	switch c.Outcome {
	case OutcomeBusy, OutcomeNotMade, OutcomeRefused:
		return true
	case OutcomeDone, OutcomeUnknown:
	}
	return false
}

// shownBy is the latest time at which the call's effect shows.
func (c Call) shownBy(l Limits) time.Time { return c.IssuedAt.Add(l.Settle) }

// settled: the listing was made after the time within which the platform shows an effect.
func (c Call) settled(f Facts, now time.Time) bool {
	at := c.shownBy(f.Limits)
	return !f.ObservedAt.Before(at) && !now.Before(at)
}

// outlived reports that boot still reports after the time within which the call would have ended it.
func (c Call) outlived(boot string, f Facts) bool {
	return boot != "" && f.LastReportOf == boot && !f.LastReportAt.Before(c.shownBy(f.Limits))
}

// overdue: the call is undecided for so long that it is reported as stuck (R66).
func (c Call) overdue(l Limits, now time.Time) bool { return now.Sub(c.IssuedAt) >= l.Unknown }

// updated: the platform reports a change of the CVM after the call was decided.
func (c Call) updated(p *PlatformView) bool {
	return !c.UpdatedBefore.IsZero() && p.UpdatedAt.After(c.UpdatedBefore)
}

// movesHash reports that the compose hash of the CVM changes with the call.
func (c Call) movesHash() bool {
	return c.HashWanted != "" && c.HashBefore != "" && c.HashWanted != c.HashBefore
}
