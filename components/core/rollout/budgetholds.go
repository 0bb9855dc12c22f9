package rollout

import (
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
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

// budget returns how many of the Slots may be away with c, and its text. An extra member that is away is outside the
// budget, but the others lose it as a spare. A group that may spare no member still repairs one member at a time, and
// refreshes one: the refreshed member keeps serving.
func (w *world) budget(c candidate, t *taken) (limit int, text string) {
	limit = group.MaxUnavailable(w.spec)
	text = fmt.Sprintf("max_unavailable is %d", limit)
	if spare := w.spare(c.m, t); spare > 0 {
		limit += spare
		text += fmt.Sprintf(", %d extra %s available", spare, pick(spare == 1, "slot is", "slots are"))
	}
	if c.m.extra {
		limit++
	}
	if c.condition != well || c.refresh {
		limit = max(limit, 1)
	}
	return limit, text
}

// spare counts the available extra members other than except. As many more of the other members may be away.
func (w *world) spare(except *member, t *taken) int {
	return len(where(w.tally.extras, func(m *member) bool { return m != except && !t.has(m) }))
}
