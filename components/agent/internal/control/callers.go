package control

import (
	"errors"
	"maps"
	"slices"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// PausedCallers is the outcome of a hold among the callers of this Slot's group.
type PausedCallers struct {
	// Paused are the Slots whose agents have paused all their routes to it.
	Paused []string
	// NotPaused are the Slots whose agents have not, with the reason.
	NotPaused map[string]string
}

// notConnectedText is the reason for a caller without a session to any answering coordinator.
const notConnectedText = "no coordinator that answered hears its agent"

// answered is the answer of one coordinator.
type answered struct {
	out *controlv1.BeginHandoverResponse
	err error
}

// callerAnswers combines the answers of several coordinators. A caller counts as paused if any
// coordinator reports it paused. The zero value has no answer yet.
type callerAnswers struct {
	paused, notConnected map[string]bool
	not                  map[string]string
	did                  bool
	errs                 []error
}

func (c *callerAnswers) add(a answered) {
	if a.err != nil {
		c.errs = append(c.errs, a.err)
		return
	}
	if !c.did {
		c.did, c.paused, c.notConnected, c.not = true, map[string]bool{}, map[string]bool{}, map[string]string{}
	}
	for _, slot := range a.out.GetPaused() {
		c.paused[slot] = true
	}
	maps.Copy(c.not, a.out.GetNotPaused())
	for _, slot := range a.out.GetNotConnected() {
		c.notConnected[slot] = true
	}
}

// whole reports whether the answers cover every caller, so that further answers change nothing.
func (c *callerAnswers) whole() bool {
	for slot := range c.notConnected {
		if _, spoken := c.not[slot]; !spoken && !c.paused[slot] {
			return false
		}
	}
	return c.did
}

// sum combines the answers; it returns an error when there is no answer.
func (c *callerAnswers) sum() (PausedCallers, error) {
	if !c.did {
		return PausedCallers{}, errors.Join(c.errs...)
	}
	out := PausedCallers{NotPaused: map[string]string{}}
	for slot := range c.notConnected {
		out.NotPaused[slot] = notConnectedText
	}
	maps.Copy(out.NotPaused, c.not)
	for slot := range c.paused {
		delete(out.NotPaused, slot)
		out.Paused = append(out.Paused, slot)
	}
	slices.Sort(out.Paused)
	return out, nil
}
