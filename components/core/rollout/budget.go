package rollout

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/core/operation"
)

// taken is what this pass already decided to begin: it counts as if it had begun
// (R23, R25).
type taken struct {
	slots map[string]bool
	// order is that of their ordinals: the first one is the least.
	order   []*member
	creates []string
	// replacing are those that are to get another CVM.
	replacing []*member
	voters    []*member
	// healing counts those that are to be healed.
	healing int
	// added are those that were not in U before.
	added []*member
	// ill counts those that waited for a repair of their own.
	ill int
}

func (t *taken) has(m *member) bool { return t.slots[m.slot] }

func (t *taken) add(w *world, c candidate) {
	if t.slots == nil {
		t.slots = make(map[string]bool)
	}
	t.slots[c.m.slot] = true
	if t.order = append(t.order, c.m); c.m.ordinal < t.order[0].ordinal {
		t.order[0], t.order[len(t.order)-1] = t.order[len(t.order)-1], t.order[0]
	}
	if !c.m.condemned && !c.m.extra && !c.m.unavailable() {
		t.added = append(t.added, c.m)
	}
	if c.m.ill {
		t.ill++
	}
	if c.actor == operation.ActorHealing {
		t.healing++
	}
	switch c.kind {
	case operation.Create:
		t.creates = append(t.creates, c.m.slot)
	case operation.Replace:
		t.replacing = append(t.replacing, c.m)
	case operation.Update, operation.Restart, operation.Delete, operation.Drain:
	}
	if w.voter(c.m) {
		t.voters = append(t.voters, c.m)
	}
}

// others is |U \ {m}|: desired Slots that are not available for whatever reason, those
// in a step, and those taken in this pass (R20, R23). There is one set for every actor
// (R24). Some of them are named, for people.
func (w *world) others(m *member, t *taken) (n int, some []string) {
	return w.othersThan(m, t, false)
}

// othersFor is others as it counts for c: the repair of an ill member does not wait for other ill ones, which wait
// for a repair as well. All would wait for each other.
func (w *world) othersFor(c candidate, t *taken) (n int, some []string) {
	return w.othersThan(c.m, t, mayServe(c.broken))
}

// othersThan counts U without m, and, on behalf of a repair, without the ill members that are not taken.
func (w *world) othersThan(m *member, t *taken, repair bool) (n int, some []string) {
	n = len(w.tally.unavailable) + len(t.added)
	if !m.condemned && !m.extra && (m.unavailable() || t.has(m)) {
		n--
	}
	if repair {
		n -= w.tally.ill - t.ill
		if m.ill && !t.has(m) {
			n++ // m itself was subtracted already
		}
	}
	if n > 0 {
		some = make([]string, 0, min(n, named)) // once: it is asked for each candidate
	}
	for _, list := range [][]*member{w.tally.unavailable, t.added} {
		for _, other := range list {
			if len(some) == named {
				return n, some
			}
			switch {
			case other == m, repair && other.ill && !t.has(other):
			case other.flaps:
				some = append(some, other.slot+" (flapping until "+w.flapsUntil(other).UTC().Format(time.RFC3339)+")")
			default:
				some = append(some, other.slot)
			}
		}
	}
	return n, some
}

// mayServe: a member so broken is silent or unhealthy, and may serve all the same: it runs as far as is known.
func mayServe(broken int) bool { return broken == sick || broken == lost }

// named is how many Slots a text names; with ten thousand of them it counts the rest.
const named = 5

// Few is list as a text about a group tells it: the first ones, and how many more there
// are, so that no record grows with the group. The plan has the rest.
func Few(list []string, between string) string {
	if more := len(list) - named; more > 0 {
		return fmt.Sprintf("%s%sand %d more", strings.Join(list[:named], between), between, more)
	}
	return strings.Join(list, between)
}

// holdsOfBudget is R21: |U ∪ {c}| <= max_unavailable, or c serves nothing already, so that
// nothing more goes away. An unhealthy member that runs costs what a healthy one costs.
func (w *world) holdsOfBudget(c candidate, l look) []Hold {
	if c.kind == operation.Delete {
		return nil // only while all others are available
	}
	n, some := w.othersFor(c, l.taken)
	limit, text := w.budget(c, l.taken)
	if n+1 <= limit || w.servesNothing(c) {
		return nil
	}
	from, passes := w.keepsOut(c, w.tally.unavailable, l.taken.added)
	if passes {
		return nil
	}
	if limit == 0 && n == 0 {
		return []Hold{hold(HoldMaxUnavailable, "%s and nothing may be unavailable before an extra slot is available; to go without one: max_unavailable_fixed = 1", text)}
	}
	return []Hold{holdUntil(from, HoldMaxUnavailable, "%s and %s", text, notAvailable(n, some))}
}

// servesNothing: c's member is certainly down, or it votes in a set that has no majority to vote in.
func (w *world) servesNothing(c candidate) bool {
	certain := c.broken == neverBooted || c.broken == processDown || w.view.voting && w.outsideQuorum(c)
	return certain && c.m.down()
}

func notAvailable(n int, some []string) string {
	switch {
	case n == 0:
		return "nothing may be unavailable"
	case n == 1 && len(some) == 1:
		return some[0] + " is not available"
	case n > len(some):
		return fmt.Sprintf("%s and %d more are not available", strings.Join(some, ", "), n-len(some))
	}
	return fmt.Sprintf("%s are not available", strings.Join(some, ", "))
}
