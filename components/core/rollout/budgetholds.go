package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/operation"
)

// holdsOfBudget is R21: |U ∪ {c}| <= max_unavailable, or c's member serves nothing already, so that the step takes
// no further member away. An unhealthy member that runs costs as much as a healthy one.
func (w *world) holdsOfBudget(c candidate, l evaluation) []Hold {
	if c.kind == operation.Delete || w.servesNothing(c) {
		return nil // a removal begins only while all others are available
	}
	others := w.others(c, l.taken)
	limit, text := w.budget(c, l.taken)
	switch {
	case others.n+1 <= limit:
		return nil
	case others.n > 0:
		return []Hold{hold(HoldMaxUnavailable, "%s and %s not available", text, others.are())}
	}
	return []Hold{hold(HoldMaxUnavailable, "%s and nothing may be unavailable before an extra slot is available; to go without one: max_unavailable_fixed = 1", text)}
}

// others is U without c's member (R20, R23): the desired Slots that are unavailable for any reason, in a step, or
// taken in this pass. U is the same for every actor (R24). A repair does not count other unavailable members that
// may still serve, since these wait for a repair as well. A step that lets newcomers into the set does not count
// those newcomers.
func (w *world) others(c candidate, t *taken) (out away) {
	repair, lets := c.condition.mayServe(), w.letsIn(c)
	counts := func(m *member) bool {
		return m != c.m && (!repair || !m.unsure || t.has(m)) && (!lets || !w.waitsForSet(m))
	}
	lists := [][]*member{w.tally.unavailable, t.added}
	out.n = len(lists[0]) + len(lists[1])
	switch own := !c.m.terminating && !c.m.extra && (c.m.unavailable() || t.has(c.m)); {
	case lets:
		out.n = 0
		for _, m := range slices.Concat(lists...) {
			out.n += btoi(counts(m))
		}
	case repair:
		out.n -= w.tally.unsure - t.unsure + btoi(own && (!c.m.unsure || t.has(c.m)))
	default:
		out.n -= btoi(own)
	}
	out.some = make([]string, 0, named)
	for _, list := range lists {
		for i := 0; i < len(list) && len(out.some) < min(out.n, named); i++ {
			m := list[i]
			switch {
			case !counts(m):
			case m.flaps:
				out.some = append(out.some, m.slot+" (flapping until "+w.flapsUntil(m).UTC().Format(time.RFC3339)+")")
			default:
				out.some = append(out.some, m.slot)
			}
		}
	}
	return out
}
