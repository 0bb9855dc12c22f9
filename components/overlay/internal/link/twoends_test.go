package link

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"
)

// The test runs two ends of a Link on demand in virtual time. Their Sessions, messages and
// apps come in any order that a network allows. No stream is lost at the idle close, every
// request ends in a stream, and at the end both sides rest.
func TestTwoEndsOnDemand(t *testing.T) {
	for name, idle := range map[string]time.Duration{
		"the network is quick":                30 * netDelay,
		"a Link rests sooner than it answers": netDelay / 2,
		"a Link rests while it is made":       netDelay / 8,
	} {
		t.Run(name, func(t *testing.T) { twoEndsOnDemand(t, idle) })
	}
}

func twoEndsOnDemand(t *testing.T, idle time.Duration) {
	for seed := range uint64(2000) {
		n := newNet(seed, idle)
		for side := range n.ends {
			for range 6 {
				n.after(time.Duration(n.r.Int64N(int64(max(4*idle, 20*netDelay)))), func() { n.ends[side].call() })
			}
		}
		n.run(t, seed)
		for side, e := range n.ends {
			if e.waiting != 0 || e.streams != 0 || e.served != 6 || e.state.Phase() != Asleep || len(e.live) != 0 {
				t.Fatalf("seed %d, side %d: %d wait, %d streams, %d served, %s, %d sessions\n%v",
					seed, side, e.waiting, e.streams, e.served, e.state.Phase(), len(e.live), n.log)
			}
		}
	}
}

// netDelay is the most that a message or a dial takes.
const netDelay = 2 * time.Second

// net is the network between two ends, and the clock.
type net struct {
	r      *rand.Rand
	idle   time.Duration // how long an end is unused before it asks
	now    time.Duration
	order  uint64
	queue  events
	ends   [2]*end
	next   uint64
	log    []string
	fault  string
	closed map[uint64]bool
}

// end is one end as the shell runs it: its counters, and its work for the state machine.
type end struct {
	n        *net
	side     int
	state    State
	inUse    uint64
	last     uint64 // in use now, or before
	live     map[uint64]bool
	yielded  map[uint64]bool
	waiting  int
	streams  int // open, either way
	served   int // of this end's calls
	used     time.Duration
	retired  map[uint64]bool
	carries  map[uint64]int
	checking bool
	due      bool // check at the end of a dial
	search   int  // numbers the searches; the results of an older search are cut
}

func newNet(seed uint64, idle time.Duration) *net {
	n := &net{r: rand.New(rand.NewPCG(seed, 11)), idle: idle, closed: map[uint64]bool{}}
	finds := n.r.IntN(2) == 0
	for side := range n.ends {
		e := &end{n: n, side: side, live: map[uint64]bool{}, yielded: map[uint64]bool{}, retired: map[uint64]bool{}, carries: map[uint64]int{}}
		n.ends[side] = e
		f := demanded(side == 0, "i1")
		f.Finds = finds
		e.step(Changed{f})
	}
	return n
}

func (n *net) after(d time.Duration, f func()) {
	n.order++
	heap.Push(&n.queue, event{n.now + d, n.order, f})
}

func (n *net) delay() time.Duration { return time.Duration(1 + n.r.Int64N(int64(netDelay))) }

func (n *net) run(t *testing.T, seed uint64) {
	t.Helper()
	for steps := 0; n.queue.Len() > 0; steps++ {
		ev := heap.Pop(&n.queue).(event)
		n.now = ev.at
		ev.do()
		if n.fault != "" || steps > 10_000 {
			t.Fatalf("seed %d at %v: %s (after %d steps)\n%v", seed, n.now, n.fault, steps, n.log)
		}
	}
}

func (e *end) other() *end { return e.n.ends[1-e.side] }

func (e *end) step(ev Event) {
	var effects []Effect
	e.state, effects = e.state.Step(ev)
	e.n.log = append(e.n.log, fmt.Sprintf("%v %d: %#v -> %s %v\n", e.n.now, e.side, ev, e.state.Phase(), effects))
	for _, eff := range effects {
		e.do(eff)
	}
	if e.due && !e.state.Dialing() {
		e.due = false
		n := e.n
		n.after(0, e.check)
	}
	if e.state.Awake() && !e.state.Asking() {
		e.checkAfter(e.n.idle)
	}
}

func (e *end) checkAfter(d time.Duration) {
	if !e.checking {
		e.checking = true
		e.n.after(d, func() {
			e.checking = false
			e.check()
		})
	}
}

// check lets the end rest, as the shell's idle timer does.
func (e *end) check() {
	if !e.state.Awake() || e.state.Asking() {
		return
	}
	if used, _ := e.state.InUse(); e.state.Dialing() && (used != 0 || !e.unused(giveUp)) {
		e.due = true
		if used == 0 {
			e.checkAfter(giveUp)
		}
		return
	}
	if !e.unused(e.n.idle) {
		e.checkAfter(max(e.n.idle/4, time.Millisecond))
		return
	}
	e.inUse = 0
	e.step(Idle{})
}

// giveUp is the limit of a dial without a waiting connection.
const giveUp = 15 * netDelay

// unused reports whether the end has carried nothing for at least that long.
func (e *end) unused(idle time.Duration) bool {
	return e.streams == 0 && e.waiting == 0 && e.n.now-e.used >= idle
}

func (e *end) do(eff Effect) {
	n := e.n
	switch eff := eff.(type) {
	case Dial:
		n.after(n.delay(), func() { e.dialed(eff) })
	case Arm:
		n.after(eff.After, func() { e.step(Timer{Try: eff.Try}) })
	case Nudge:
		n.after(n.delay(), func() { e.other().step(Nudged{Boot: "b1"}) })
	case Find:
		e.search++
		search := e.search
		n.after(n.delay(), func() { e.found(eff, search) })
	case StopFind:
		e.search++
	case ArmFind:
		n.after(eff.After, func() { e.step(FindTimer{Number: eff.Number}) })
	case Use:
		e.inUse = eff.Session
		if eff.Session != 0 {
			if eff.Session != e.last {
				e.last, e.used = eff.Session, n.now
			}
			e.flush()
		}
	case Close:
		n.end(eff.Session)
	case Retire:
		e.retired[eff.Session] = true
		e.retire(eff.Session)
	case Rest:
		ending := e.ending()
		n.after(n.delay(), func() { e.other().asked(e, eff.Session, eff.Question, ending) })
	case Yield:
		e.yielded[eff.Session] = true
		n.after(4*netDelay, func() { n.end(eff.Session) })
	}
}

// dialed ends a dial, some without a Session: either end may hear of it first.
func (e *end) dialed(d Dial) {
	if e.n.r.IntN(4) == 0 {
		e.step(Failed{Try: d.Try})
		return
	}
	ev := Connected{Boot: "b1", Class: Gateway, Stray: e.side != 0}
	e.n.made(e, ev, func(id uint64) {
		if e.n.closed[id] {
			e.step(Failed{Try: d.Try})
			return
		}
		ev.Session, ev.Try = id, d.Try
		e.connected(ev)
	})
}

// found ends a search, or makes a Session of the search's first result.
func (e *end) found(f Find, search int) {
	class := []Class{NoClass, DirectUDP, DirectTCP}[e.n.r.IntN(3)]
	switch {
	case search != e.search:
	case !f.Controlling || class == NoClass || e.has(class):
		e.step(FindEnded{Epoch: f.Epoch})
	default:
		e.step(Making{1})
		ev := Connected{Boot: "b1", Class: class}
		e.n.made(e, ev, func(id uint64) {
			ev.Session = id
			if search == e.search {
				e.connected(ev)
			} else {
				e.n.end(id)
			}
			e.step(Making{-1})
			if search == e.search {
				e.step(FindEnded{Epoch: f.Epoch})
			}
		})
	}
}

func (e *end) has(class Class) bool {
	for id := range e.live {
		if e.state.Class(id) == class {
			return true
		}
	}
	return false
}

// made is a new Session, of which both ends hear in their time.
func (n *net) made(maker *end, ev Connected, done func(session uint64)) {
	n.next++
	id := n.next
	ev.Session = id
	delays := [2]time.Duration{0, n.delay()}
	first := n.r.IntN(2)
	n.after(delays[first], func() { maker.other().connected(ev) })
	n.after(delays[1-first], func() { done(id) })
}

func (e *end) connected(ev Connected) {
	if e.n.closed[ev.Session] {
		return
	}
	e.live[ev.Session] = true
	e.step(ev)
}

// end ends a Session: each end hears of it in its time. Streams on it are lost.
func (n *net) end(id uint64) {
	if n.closed[id] {
		return
	}
	n.closed[id] = true
	for _, e := range n.ends {
		if e.carries[id] > 0 {
			n.fault = fmt.Sprintf("session %d ended under %d streams of side %d", id, e.carries[id], e.side)
		}
		n.after(n.delay(), func() {
			if e.live[id] {
				delete(e.live, id)
				e.step(Lost{Session: id, Lived: time.Minute})
			}
		})
	}
}

// retire ends a Session that is retired when nothing has used it for a while.
func (e *end) retire(id uint64) {
	e.n.after(3*netDelay, func() {
		switch {
		case e.n.closed[id] || !e.state.Retired(id):
		case e.carries[id] > 0 || e.other().carries[id] > 0:
			e.retire(id)
		default:
			e.n.end(id)
		}
	})
}

// asked answers the other end's Rest.
func (e *end) asked(from *end, id, question uint64, ending map[uint64]bool) {
	n := e.n
	if n.closed[id] {
		n.after(n.delay(), func() { from.answered(Unanswered{question}) })
		return
	}
	agreed := e.yielded[id] || !e.state.Dialing() && e.holdsJust(ending) && e.unused(n.idle/2)
	if agreed && !e.yielded[id] {
		e.inUse = 0
		e.step(Asked{})
	}
	n.after(n.delay(), func() {
		if n.closed[id] {
			from.answered(Unanswered{question})
		} else {
			from.answered(Rested{question, agreed})
		}
	})
}

// holdsJust reports whether this end holds exactly these Sessions.
func (e *end) holdsJust(ending map[uint64]bool) bool {
	held := map[uint64]bool{}
	for id := range e.live {
		if e.state.Class(id) != NoClass {
			held[id] = true
		}
	}
	return maps.Equal(held, ending)
}

// ending are the Sessions that the other end is asked to let go of.
func (e *end) ending() map[uint64]bool {
	ending := map[uint64]bool{}
	for id := range e.live {
		if e.state.Leaving(id) {
			ending[id] = true
		}
	}
	return ending
}

func (e *end) answered(ev Event) {
	e.step(ev)
	if e.waiting > 0 {
		e.step(Wanted{})
	}
}

// call is an app that wants a stream.
func (e *end) call() {
	e.waiting++
	e.flush()
	if e.waiting > 0 {
		e.step(Wanted{})
	}
}

// flush opens a stream for each who waits. It lasts for a while, at both ends.
func (e *end) flush() {
	for ; e.inUse != 0 && e.waiting > 0; e.waiting-- {
		id := e.inUse
		if e.n.closed[id] {
			e.n.fault = fmt.Sprintf("a stream of side %d on session %d, which is over", e.side, id)
			return
		}
		e.streams++
		e.carries[id]++
		e.served++
		e.n.after(time.Duration(e.n.r.Int64N(int64(e.n.idle/2)))+netDelay, func() {
			e.streams--
			e.carries[id]--
			e.used = e.n.now
		})
	}
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
