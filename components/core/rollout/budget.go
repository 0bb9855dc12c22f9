package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/operation"
)

// A step that takes a member away is judged by the state that it leads to: it may begin where the group bears that
// state, and also where the step takes away nothing that serves. The same functions judge a step before it begins
// and right before its platform call (R50). Each accepted step counts before the next one is judged (R23).

// taken is what this pass already decided to begin: it counts as if it had begun
// (R23, R25).
type taken struct {
	slots map[string]bool
	// order is that of their ordinals: the first one is the least.
	order   []*member
	creates []string
	// replacing are those that are to get another CVM, joining those that are made and come into the set.
	replacing, joining []*member
	voters             []*member
	// healing counts those that are to be healed.
	healing int
	// added are those that were not in U before.
	added []*member
	// unsure counts those that are unavailable and may serve all the same.
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
	if !c.m.condemned && !c.m.extra && !c.m.unavailable() {
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

// away are members that the group does without: how many, and some of them by name for people.
type away struct {
	n    int
	some []string
}

// others is U without c's member: desired Slots that are not available for whatever reason, those in a step, and
// those taken in this pass (R20, R23). There is one set for every actor (R24). A repair does not wait for other
// members that are unavailable and may serve, which wait for a repair as well; nor does one that lets newcomers
// into the set wait for those.
func (w *world) others(c candidate, t *taken) (out away) {
	repair, lets := c.condition.mayServe(), w.letsIn(c)
	counts := func(m *member) bool {
		return m != c.m && (!repair || !m.unsure || t.has(m)) && (!lets || !w.waitsForSet(m))
	}
	lists := [][]*member{w.tally.unavailable, t.added}
	out.n = len(lists[0]) + len(lists[1])
	switch own := !c.m.condemned && !c.m.extra && (c.m.unavailable() || t.has(c.m)); {
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
	if c.kind == operation.Delete || w.servesNothing(c) {
		return nil // a removal goes only while all others are available
	}
	others := w.others(c, l.taken)
	limit, text := w.budget(c, l.taken)
	switch {
	case others.n+1 <= limit:
		return nil
	case others.n > 0:
		return []Hold{hold(HoldMaxUnavailable, "%s and %s not available", text, others.are())}
	case limit == 0:
		return []Hold{hold(HoldMaxUnavailable, "%s and nothing may be unavailable before an extra slot is available; to go without one: max_unavailable_fixed = 1", text)}
	}
	return []Hold{hold(HoldMaxUnavailable, "%s and nothing may be unavailable", text)}
}

// servesNothing: c's member is certainly down, or it votes in a set that has no majority to vote in.
func (w *world) servesNothing(c candidate) bool {
	certain := c.condition.certain() || w.view.voting && w.outsideQuorum(c)
	return certain && c.m.down()
}

// are names them with their verb, as in "db-1, db-2 and 3 more are".
func (a away) are() string {
	switch more := a.n - len(a.some); {
	case more > 0:
		return fmt.Sprintf("%s and %d more are", strings.Join(a.some, ", "), more)
	case a.n == 1:
		return a.some[0] + " is"
	}
	return strings.Join(a.some, ", ") + " are"
}
