package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/operation"
)

// The planner evaluates a disruptive step by the state after the step. The step may begin where the group tolerates
// that state, and also where the step takes away no serving member. The same functions evaluate a step before it
// begins and again right before its platform call (R50). Each accepted step counts in the evaluation of the next
// step (R23).

// taken is the set of steps that this pass has decided to begin. Each counts as begun (R23, R25).
type taken struct {
	slots map[string]bool
	// order starts with the member of the lowest ordinal.
	order   []*member
	creates []string
	// replacing are the members that get another CVM, joining the members that are created and join the set.
	replacing, joining []*member
	voters             []*member
	// healing counts the steps that heal.
	healing int
	// added are the members that were not in U before.
	added []*member
	// unsure counts the unavailable members that may still serve.
	unsure int
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
	if !c.m.terminating && !c.m.extra && !c.m.unavailable() {
		t.added = append(t.added, c.m)
	}
	if c.m.unsure {
		t.unsure++
	}
	if c.actor == operation.ActorHealing {
		t.healing++
	}
	if w.joins(c) || w.returns(c) {
		t.joining = append(t.joining, c.m)
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

// away is the set of members that the group lacks: their number, and up to named of their Slots for messages.
type away struct {
	n    int
	some []string
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

func btoi(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// named is the maximum number of Slots in a message. The message counts the other Slots.
const named = 5

// Few joins the first entries of list and adds the number of the other entries. No record therefore grows with the
// size of the group. The plan has all of them.
func Few(list []string, between string) string {
	if more := len(list) - named; more > 0 {
		return fmt.Sprintf("%s%sand %d more", strings.Join(list[:named], between), between, more)
	}
	return strings.Join(list, between)
}

// holdsOfBudget is R21: |U ∪ {c}| <= max_unavailable, or c's member serves nothing already, so that the step takes
// no further member away. An unhealthy member that runs costs as much as a healthy one.
func (w *world) holdsOfBudget(c candidate, l look) []Hold {
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

// servesNothing reports that c's member is certainly down, or votes in a set without a majority.
func (w *world) servesNothing(c candidate) bool {
	certain := c.condition.certain() || w.view.voting && w.outsideQuorum(c)
	return certain && c.m.down()
}

// are returns the names with their verb, for example "db-1, db-2 and 3 more are".
func (a away) are() string {
	switch more := a.n - len(a.some); {
	case more > 0:
		return fmt.Sprintf("%s and %d more are", strings.Join(a.some, ", "), more)
	case a.n == 1:
		return a.some[0] + " is"
	}
	return strings.Join(a.some, ", ") + " are"
}
