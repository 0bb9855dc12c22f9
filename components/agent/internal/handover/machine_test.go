package handover

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// at is the endpoint of Slot n.
func at(n ...int) []netip.AddrPort {
	var out []netip.AddrPort
	for _, i := range n {
		out = append(out, netip.AddrPortFrom(vip(i), 20000))
	}
	return out
}

func vip(n int) netip.Addr { return netip.AddrFrom4([4]byte{127, 50, 0, byte(n)}) }

// step is one event and the effects that must follow; looks are left out.
type step struct {
	after time.Duration
	event event
	want  string
}

func text(effects []effect) string {
	var out []string
	for _, e := range effects {
		switch e := e.(type) {
		case doPause:
			out = append(out, fmt.Sprintf("pause %s %s", e.operation, e.limit))
		case doOpen:
			out = append(out, fmt.Sprintf("open %s after %s: %s", e.operation, e.paused, e.why))
		case doAnswer:
			out = append(out, fmt.Sprintf("answer %s %s", e.operation, e.state))
		case doReconnect:
			out = append(out, "reconnect")
		case doLook:
		}
	}
	return strings.Join(out, ", ")
}

func TestMachine(t *testing.T) {
	const (
		ms        = time.Millisecond
		namedBy   = "the route has the leader that was named"
		another   = "the route has another leader than before"
		noRelease = "the route has another leader, and no release came"
		notMoved  = "the operation is over, and named no leader"
		limit     = "its limit ended"
	)
	var (
		ask      = pauseAsked{"op", 5 * time.Second}
		reached  = done{operation: "op"}
		to       = func(n int) event { return releaseAsked{operation: "op", moved: true, leader: vip(n)} }
		noLeader = releaseAsked{operation: "op"}
		stranger = releaseAsked{operation: "op", moved: true}
		shows    = func(n ...int) event { return seen{endpoints: at(n...)} }
		begin    = []step{{0, ask, "pause op 5s"}, {ms, reached, "answer op waiting"}, {ms, shows(1), ""}}
	)
	for name, tc := range map[string]struct {
		machine machine
		steps   []step
	}{
		"released when the route has the new leader": {steps: append(slices.Clone(begin),
			step{100 * ms, to(2), ""}, step{ms, shows(1), ""}, step{ms, shows(), ""}, step{ms, shows(1, 2), ""},
			step{ms, shows(2), "open op after 106ms: " + namedBy}, step{ms, shows(2), ""}, step{5 * time.Second, tick{}, ""})},
		"at once if it has it already": {steps: append(slices.Clone(begin),
			step{ms, shows(), ""}, step{ms, done{operation: "other"}, ""}, step{ms, to(1), ""}, step{ms, shows(1), "open op after 6ms: " + namedBy})},
		"the release was late": {steps: append(slices.Clone(begin),
			step{ms, shows(2), "open op after 3ms: " + noRelease}, step{ms, to(2), ""})},
		"no release": {steps: append(slices.Clone(begin),
			step{ms, shows(), ""}, step{4996 * ms, tick{}, ""}, step{ms, tick{}, "open op after 5s: " + limit})},
		"the leader is not reached in time": {steps: append(slices.Clone(begin),
			step{ms, to(2), ""}, step{4996 * ms, tick{}, ""}, step{ms, tick{}, "open op after 5s: " + limit})},
		"the hand-over failed, the leader stays": {steps: append(slices.Clone(begin),
			step{ms, noLeader, "open op after 3ms: " + notMoved})},
		"it failed, and there is no leader for a while": {steps: append(slices.Clone(begin),
			step{ms, shows(), ""}, step{ms, noLeader, ""}, step{ms, shows(1), "open op after 5ms: " + notMoved})},
		"it failed, and names the leader that stays": {steps: append(slices.Clone(begin),
			step{ms, to(1), "open op after 3ms: " + namedBy})},
		"the leader is unknown here": {steps: append(slices.Clone(begin),
			step{ms, stranger, ""}, step{ms, shows(1), ""}, step{ms, shows(2), "open op after 5ms: " + another})},
		"the leader moved on": {steps: append(slices.Clone(begin),
			step{ms, to(2), ""}, step{ms, shows(3), "open op after 4ms: " + another})},
		"the state before is unknown": {steps: []step{
			{0, ask, "pause op 5s"}, {0, reached, "answer op waiting"}, {ms, seen{failed: true}, ""}, {ms, to(2), ""}, {ms, seen{failed: true}, ""},
			{ms, shows(1), ""}, {ms, shows(2), "open op after 5ms: " + namedBy}}},
		"it is not known, and the hand-over failed": {steps: []step{
			{0, ask, "pause op 5s"}, {0, reached, "answer op waiting"}, {ms, noLeader, ""}, {ms, seen{failed: true}, ""}, {ms, shows(1), "open op after 3ms: " + notMoved}}},
		"asked twice": {steps: []step{
			{0, ask, "pause op 5s"}, {ms, ask, ""}, {ms, reached, "answer op waiting"}, {ms, ask, "answer op waiting"},
			{4997 * ms, tick{}, "open op after 5s: " + limit}, {ms, ask, "answer op released"}}},
		"the release overtakes the pause": {steps: []step{
			{0, to(2), ""}, {ms, ask, "answer op released"}, {remember, ask, "pause op 5s"},
			{5 * time.Second, tick{}, "answer op released, open op after 5s: " + limit}}},
		"released before it is reached": {steps: []step{
			{0, ask, "pause op 5s"}, {ms, shows(1), ""}, {ms, to(2), ""}, {ms, shows(2), "answer op released, open op after 3ms: " + namedBy},
			{ms, done{"op", errors.New("released")}, ""}, {ms, reached, ""}}},
		"it cannot be paused": {steps: []step{
			{0, ask, "pause op 5s"}, {2 * time.Second, done{"op", errors.New("busy")}, "answer op gave_up, open op after 2s: it could not be paused"},
			{ms, ask, "answer op released"}, {ms, to(2), ""}, {ms, shows(2), ""}}},
		"the limit ends before it is reached": {steps: []step{
			{0, ask, "pause op 5s"}, {5 * time.Second, tick{}, "answer op released, open op after 5s: " + limit}}},
		"another operation takes the pause over": {steps: append(slices.Clone(begin),
			step{ms, pauseAsked{"op2", time.Second}, "pause op2 1s"}, step{ms, to(2), ""}, step{ms, shows(1), ""},
			step{ms, done{operation: "op2"}, "answer op2 waiting"}, step{ms, ask, "answer op released"},
			step{996 * ms, tick{}, "open op2 after 1s: " + limit})},
		"tries of one operation share twice the limit": {steps: []step{
			{0, pauseAsked{"op/1", time.Second}, "pause op/1 1s"}, {ms, done{operation: "op/1"}, "answer op/1 waiting"},
			{999 * ms, tick{}, "open op/1 after 1s: " + limit},
			{time.Minute, pauseAsked{"op/2", time.Second}, "pause op/2 1s"}, {0, done{operation: "op/2"}, "answer op/2 waiting"}, {0, shows(1), ""},
			{400 * ms, releaseAsked{operation: "op/2"}, "open op/2 after 400ms: " + notMoved},
			{time.Minute, pauseAsked{"op/3", time.Second}, "pause op/3 600ms"}, {0, done{operation: "op/3"}, "answer op/3 waiting"},
			{200 * ms, pauseAsked{"op/4", time.Second}, "pause op/4 400ms"}, {0, done{operation: "op/4"}, "answer op/4 waiting"},
			{400 * ms, tick{}, "open op/4 after 400ms: " + limit},
			{20 * time.Minute, pauseAsked{"op/5", time.Second}, "answer op/5 spent"}, {0, pauseAsked{"op/5", time.Second}, "answer op/5 spent"},
			// The pauses of other operations continue.
			{0, pauseAsked{"op2/1", time.Second}, "pause op2/1 1s"}, {0, done{operation: "op2/1"}, "answer op2/1 waiting"},
			{ms, pauseAsked{"op/6", time.Second}, "answer op/6 spent"}, {999 * ms, tick{}, "open op2/1 after 1s: " + limit},
			{rememberSpent, pauseAsked{"op3", time.Second}, "pause op3 1s"}, {time.Second, tick{}, "answer op3 released, open op3 after 1s: " + limit},
			{0, pauseAsked{"op/7", time.Second}, "pause op/7 1s"}, {time.Second, tick{}, "answer op/7 released, open op/7 after 1s: " + limit}}},
		"the route changes": {steps: append(slices.Clone(begin), step{ms, changed{"gone"}, "open op after 3ms: gone"}, step{ms, changed{"gone"}, ""})},
		"a route to followers": {machine: machine{others: true}, steps: []step{
			{0, ask, "pause op 5s"}, {0, reached, "answer op waiting"}, {ms, shows(2, 3), ""}, {ms, to(2), ""}, {ms, shows(2, 3), ""}, {ms, shows(3), "open op after 4ms: " + namedBy}}},
		"a route to followers, the leader stays": {machine: machine{others: true}, steps: []step{
			{0, ask, "pause op 5s"}, {0, reached, "answer op waiting"}, {ms, shows(2, 3), ""}, {ms, to(1), "open op after 2ms: " + namedBy}}},
		"a role of many": {steps: []step{
			{0, ask, "pause op 5s"}, {0, reached, "answer op waiting"}, {ms, shows(2, 3), ""}, {ms, shows(2, 3), ""}, {ms, shows(1, 3), "open op after 3ms: " + noRelease}}},
		"a pooler's servers follow the endpoints": {machine: machine{pooled: true, reached: Paused}, steps: []step{
			{0, shows(1), "reconnect"}, {ms, shows(1), ""}, {ms, shows(), ""}, {ms, shows(1), ""}, {ms, shows(2), "reconnect"}, {ms, shows(2), ""},
			// A pause has closed the old connections; the later ones match the endpoints at its
			// end.
			{ms, ask, "pause op 5s"}, {ms, reached, "answer op paused"}, {ms, shows(2), ""}, {ms, to(3), ""}, {ms, shows(3), "open op after 4ms: " + namedBy}, {ms, shows(3), ""},
			{ms, pauseAsked{"op2", time.Second}, "pause op2 1s"}, {ms, shows(3), ""}, {ms, done{operation: "op2"}, "answer op2 paused"}, {ms, shows(), ""},
			{time.Second, tick{}, "open op2 after 1.003s: " + limit}, {ms, shows(1), "reconnect"},
			// A pause that failed has closed no connection.
			{ms, pauseAsked{"op3", time.Second}, "pause op3 1s"}, {ms, shows(2), ""}, {ms, done{"op3", errors.New("busy")}, "answer op3 gave_up, open op3 after 2ms: it could not be paused"},
			{ms, shows(2), "reconnect"}}},
	} {
		m, now := tc.machine, time.Unix(1000, 0)
		if m.reached == "" {
			m.reached = Waiting
		}
		for i, s := range tc.steps {
			now = now.Add(s.after)
			if got := text(m.step(now, s.event)); got != s.want {
				t.Errorf("%s: step %d, %T %+v:\n got %s\nwant %s", name, i, s.event, s.event, got, s.want)
			}
		}
		if m.pause != nil {
			t.Errorf("%s: it is still paused at the end", name)
		}
	}
}

// TestTheOldestIsForgotten, and not the newest, when there is too much to remember.
func TestTheOldestIsForgotten(t *testing.T) {
	m, now := &machine{reached: Waiting}, time.Unix(1000, 0)
	name := func(i int) string { return fmt.Sprintf("op%d", i) }
	for i := range maxRemembered + 1 {
		now = now.Add(time.Millisecond)
		m.step(now, pauseAsked{name(i), time.Second})
		m.step(now, seen{endpoints: at(1)})
		m.step(now, releaseAsked{operation: name(i)})
	}
	for _, i := range []int{1, maxRemembered} {
		if got := text(m.step(now, pauseAsked{name(i), time.Second})); got != "answer "+name(i)+" released" {
			t.Errorf("%s came late: %q", name(i), got)
		}
	}
	if got := text(m.step(now, pauseAsked{name(0), time.Second})); got != "pause op0 1s" {
		t.Errorf("the oldest: %q", got)
	}
	if len(m.over) > maxRemembered || len(m.budget.by) > maxRemembered {
		t.Errorf("%d and %d are remembered", len(m.over), len(m.budget.by))
	}
}

func TestLooks(t *testing.T) {
	now := time.Unix(1000, 0)
	looks := func(m *machine, e event) bool {
		return slices.ContainsFunc(m.step(now, e), func(e effect) bool {
			look, is := e.(doLook)
			if is && look.age != m.lookEvery()/2 {
				t.Errorf("a look may be %v old, with one every %v", look.age, m.lookEvery())
			}
			return is
		})
	}
	m := &machine{}
	if looks(m, tick{}) || !m.next().IsZero() {
		t.Error("an open gate looks at endpoints")
	}
	if !looks(m, pauseAsked{"op", time.Second}) || m.next() != now.Add(lookPaused) {
		t.Errorf("a pause does not look at once, and then every %v: %v", lookPaused, m.next().Sub(now))
	}
	now = now.Add(time.Millisecond)
	if looks(m, tick{}) {
		t.Error("it looks too soon")
	}
	if !looks(m, releaseAsked{operation: "op", moved: true}) || m.next() != now.Add(lookReleased) {
		t.Errorf("a release does not look at once, and then every %v: %v", lookReleased, m.next().Sub(now))
	}
	now = now.Add(time.Second - 5*time.Millisecond)
	if !looks(m, tick{}) || !m.next().Equal(now.Add(4*time.Millisecond)) {
		t.Errorf("the limit is not looked after: %v", m.next().Sub(now))
	}
	p := &machine{pooled: true}
	if !looks(p, tick{}) || p.next() != now.Add(lookIdle) {
		t.Errorf("an open pooler looks in %v, want %v", p.next().Sub(now), lookIdle)
	}
}

// TestEveryPauseEnds checks random event orders: each pause ends by its limit at the latest, each
// caller gets an answer, only paused routes are opened, and no Operation exceeds its budget.
func TestEveryPauseEnds(t *testing.T) {
	const longest = 2 * time.Second
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &machine{pooled: r.IntN(2) == 0, others: r.IntN(4) == 0, reached: Waiting}
		now := time.Unix(1000, 0)
		paused, asked := "", map[string]bool{}
		since, sum := now, map[string]time.Duration{}
		account := func(next string) {
			if of := operationOf(paused); paused != "" {
				if sum[of] += now.Sub(since); sum[of] > tries*longest {
					t.Fatalf("seed %d: %s paused for %v in all", seed, of, sum[of])
				}
			}
			paused, since = next, now
		}
		var trace []string
		for range 60 {
			// As the loop does: no tick is later than it is due.
			to := now.Add(time.Duration(r.IntN(400)) * time.Millisecond)
			for at := m.next(); !at.IsZero() && at.Before(to); at = m.next() {
				if at.After(now) {
					now = at
				}
				if slices.ContainsFunc(m.step(now, tick{}), func(e effect) bool {
					a, is := e.(doAnswer)
					if is {
						asked[a.operation] = false
					}
					_, opened := e.(doOpen)
					return opened
				}) {
					account("")
				}
			}
			now = to
			op := fmt.Sprintf("op%d/%d", r.IntN(2), r.IntN(8))
			var e event
			switch r.IntN(7) {
			case 0, 1:
				e = pauseAsked{op, longest - time.Duration(r.IntN(2000))*time.Millisecond}
				asked[op] = true
			case 2:
				e = releaseAsked{operation: op, moved: r.IntN(2) == 0, leader: vip(r.IntN(3))}
			case 3:
				e = done{operation: op}
			case 4:
				e = done{op, errors.New("no")}
			case 5:
				e = seen{endpoints: [][]netip.AddrPort{nil, at(1), at(2), at(1, 2)}[r.IntN(4)]}
			default:
				e = tick{}
			}
			trace = append(trace, fmt.Sprintf("%s %T%+v", now.Format("05.000"), e, e))
			for _, f := range m.step(now, e) {
				switch f := f.(type) {
				case doPause:
					account(f.operation)
				case doOpen:
					if paused != f.operation {
						t.Fatalf("seed %d: %s is opened, %q is paused:\n%s", seed, f.operation, paused, strings.Join(trace, "\n"))
					}
					account("")
				case doAnswer:
					asked[f.operation] = false
				}
			}
			if m.pause != nil && m.next().After(m.pause.until) {
				t.Fatalf("seed %d: no tick is due at the limit:\n%s", seed, strings.Join(trace, "\n"))
			}
		}
		for range 2000 {
			if m.pause == nil {
				break
			}
			now = m.next()
			for _, f := range m.step(now, tick{}) {
				if a, is := f.(doAnswer); is {
					asked[a.operation] = false
				}
			}
		}
		if m.pause != nil {
			t.Fatalf("seed %d: paused without end:\n%s", seed, strings.Join(trace, "\n"))
		}
		for op, waits := range asked {
			if waits {
				t.Fatalf("seed %d: the caller of %s waits without end:\n%s", seed, op, strings.Join(trace, "\n"))
			}
		}
	}
}
