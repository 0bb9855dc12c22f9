package rollout

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// taken is what this pass already decided to begin: it counts as if it had begun
// (R23, R25).
type taken struct {
	slots   map[string]bool
	creates []string
	voters  []string
}

func (t *taken) has(m *member) bool { return t.slots[m.slot] }

func (t *taken) add(w *world, c candidate) {
	if t.slots == nil {
		t.slots = make(map[string]bool)
	}
	t.slots[c.m.slot] = true
	if c.kind == operation.Create {
		t.creates = append(t.creates, c.m.slot)
	}
	if w.voter(c.m) {
		t.voters = append(t.voters, c.m.slot)
	}
}

// unavailableSet is U: desired Slots that are not available for whatever reason,
// those in a step, and those taken in this pass (R20, R23). There is one set for
// every actor (R24).
func (w *world) unavailableSet(taken *taken) []string {
	var u []string
	for _, m := range w.members {
		if m.unavailable() || taken.has(m) {
			u = append(u, m.slot)
		}
	}
	return u
}

// holdsOfBudget is R21: |U ∪ {c}| <= max_unavailable, or c is down already, so that
// nothing more goes away.
func (w *world) holdsOfBudget(c candidate, taken *taken) []Hold {
	u, limit := w.unavailableSet(taken), group.MaxUnavailable(w.spec)
	u = slices.DeleteFunc(u, func(slot string) bool { return slot == c.m.slot })
	if len(u)+1 <= limit || c.m.down() {
		return nil
	}
	return []Hold{hold(HoldMaxUnavailable, "max_unavailable is %d and %s", limit, notAvailable(u))}
}

func notAvailable(u []string) string {
	switch len(u) {
	case 0:
		return "nothing may be unavailable"
	case 1:
		return u[0] + " is not available"
	}
	return fmt.Sprintf("%s are not available", strings.Join(u, ", "))
}
