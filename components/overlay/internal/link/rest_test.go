package link

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// demanded is facts of a Link on demand.
func demanded(dials bool, instance string) Facts {
	return Facts{Dials: dials, Boot: "b1", Instance: instance, OnDemand: true, Calls: true}
}

func TestRestScripts(t *testing.T) {
	long := 2 * steady
	finding := demanded(true, "i1")
	finding.Finds = true
	following := demanded(false, "i1")
	following.Finds = true
	hidden := demanded(false, "")
	hidden.Finds = true
	kept := demanded(true, "i1")
	kept.OnDemand = false
	for name, script := range map[string][]scriptStep{
		"sleeps until somebody wants it": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Quiet{}, Asleep, nil},
			{Hoped{}, Asleep, nil},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}}},
			{Wanted{}, Dialing, nil},
			{Connected{Session: 1, Boot: "b1", Class: Gateway, Try: 2}, Up, []Effect{Use{1}}},
			{Wanted{}, Up, nil},
		},
		"rests when the peer agrees": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Idle{}, Up, nil},
			{Wanted{}, Up, nil}, // the answer decides
			{Rested{1, true}, Asleep, []Effect{Close{1, ErrIdle}, Cancel{}, Forget{}}},
			{Lost{Session: 1, Lived: long}, Asleep, nil},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{4, "i1", "b1"}}},
		},
		"goes on when the peer minds": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Rested{1, false}, Up, []Effect{Use{1}}},
			{Rested{1, true}, Up, nil}, // of no question
		},
		"yields to the peer who asks": {
			{Changed{demanded(false, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Connected{Session: 2, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{2}}},
			{Asked{}, Asleep, []Effect{Yield{1}, Yield{2}, Use{}, Cancel{}, Forget{}}},
			{Lost{Session: 2, Lived: long}, Asleep, nil},
			{Lost{Session: 1, Lived: long}, Asleep, nil},
		},
		"both ask at once": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Asked{}, Asleep, []Effect{Close{1, ErrIdle}, Cancel{}, Forget{}}},
			{Rested{1, true}, Asleep, nil},
		},
		"the peer comes anew before its answer": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway, Stray: true}, Up, []Effect{Use{2}}},
			{Rested{1, true}, Up, []Effect{Close{1, ErrIdle}}},
		},
		"a session that dies while the peer is asked is not missed": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Lost{Session: 1, Lived: long}, Asleep, []Effect{Cancel{}, Forget{}}},
			{Rested{1, true}, Asleep, nil},
		},
		"an answer to an older question ends nothing": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Idle{}, Up, []Effect{Use{}, Rest{1, 1}}},
			{Lost{Session: 1, Lived: long}, Asleep, []Effect{Cancel{}, Forget{}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{2}}},
			{Idle{}, Up, []Effect{Use{}, Rest{2, 2}}},
			{Rested{1, true}, Up, nil},
			{Rested{2, false}, Up, []Effect{Use{2}}},
		},
		"a session that dies in use is made again": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Cancel{}, Use{1}}},
			{Lost{Session: 1, Lived: long}, Dialing, []Effect{Use{}, Cancel{}, Dial{3, "i1", "b1"}}},
			{Idle{}, Asleep, []Effect{Cancel{}, Forget{}}},
			{Failed{Try: 3}, Asleep, nil},
		},
		"the side that dials begins a search too": {
			{Changed{finding}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}, Find{Epoch: 1, Controlling: true, Boot: "b1"}}},
			{Idle{}, Asleep, []Effect{Cancel{}, StopFind{}, Forget{}}},
			{Nudged{Boot: "b1"}, Dialing, []Effect{Cancel{}, Dial{4, "i1", "b1"}, Find{Epoch: 2, Controlling: true, Boot: "b1"}}},
		},
		"the other side nudges, and goes itself when nobody comes": {
			{Changed{following}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, BackOff, []Effect{Cancel{}, Arm{2, callAfter}, Nudge{}}},
			{Wanted{}, BackOff, nil},
			{Timer{2}, Dialing, []Effect{Cancel{}, Dial{3, "i1", "b1"}}},
			{Offered{Epoch: 5, Boot: "b1"}, Dialing, []Effect{Find{Epoch: 5, Boot: "b1"}}},
			// Its own dial may be in use over there already: it is not cut.
			{Connected{Session: 1, Boot: "b1", Class: Gateway}, Up, []Effect{Use{1}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway, Stray: true, Try: 3}, Up, []Effect{Retire{2}}},
		},
		"the other side nudges again where it cannot go itself": {
			{Changed{hidden}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, BackOff, []Effect{Cancel{}, Arm{2, callAfter}, Nudge{}}},
			{Wanted{}, BackOff, nil},
			{Timer{2}, Awaited, []Effect{Cancel{}}},
			{Wanted{}, BackOff, []Effect{Cancel{}, Arm{4, callAfter}, Nudge{}}},
			{Offered{Epoch: 5, Boot: "b1"}, Dialing, []Effect{Find{Epoch: 5, Boot: "b1"}}},
			{Timer{4}, Dialing, []Effect{Cancel{}}},
			{Wanted{}, Dialing, nil},
		},
		"without a rendezvous the other side goes itself at once": {
			{Changed{demanded(false, "i1")}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway, Stray: true, Try: 2}, Up, []Effect{Use{1}}},
			{Lost{Session: 1, Lived: long}, Awaited, []Effect{Use{}}},
		},
		"a stray session makes way at the side that dials": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Wanted{}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}}},
			{Connected{Session: 1, Boot: "b1", Class: Gateway, Stray: true}, Up, []Effect{Use{1}}},
			{Connected{Session: 2, Boot: "b1", Class: Gateway, Try: 2}, Up, []Effect{Use{2}, Retire{1}}},
			{Lost{Session: 2, Lived: long}, Up, []Effect{Use{1}}},
		},
		"who is kept after all is looked for": {
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
			{Changed{kept}, Dialing, []Effect{Cancel{}, Dial{2, "i1", "b1"}}},
			{Idle{}, Dialing, nil},
			{Changed{demanded(true, "i1")}, Asleep, []Effect{Cancel{}}},
		},
	} {
		t.Run(name, func(t *testing.T) { play(t, script) })
	}
}

// Two ends of a Link on demand, under virtual time, whose Sessions, messages and apps
// come in any order that a network allows: no stream is lost at the idle close, every wish
// ends in a stream, and in the end both rest.
func TestTwoEndsOnDemand(t *testing.T) {
	for seed := range uint64(2000) {
		n := newNet(seed)
		for side := range n.ends {
			for range 6 {
				side := side
				n.after(time.Duration(n.r.Int64N(int64(4*netIdle))), func() { n.ends[side].call() })
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

const (
	netIdle  = time.Minute     // how long an end is unused before it asks
	netDelay = 2 * time.Second // the most that a message or a dial takes
)

// net is the network between two ends, and the clock.
type net struct {
	r      *rand.Rand
	now    time.Duration
	order  uint64
	queue  events
	ends   [2]*end
	next   uint64
	log    []string
	fault  string
	closed map[uint64]bool
}

// end is one end as the shell runs it: what it counts, and what it does for the machine.
type end struct {
	n        *net
	side     int
	state    State
	inUse    uint64
	live     map[uint64]bool
	waiting  int
	streams  int // open, either way
	served   int // of this end's calls
	used     time.Duration
	retired  map[uint64]bool
	carries  map[uint64]int
	checking bool
}

func newNet(seed uint64) *net {
	n := &net{r: rand.New(rand.NewPCG(seed, 11)), closed: map[uint64]bool{}}
	finds := n.r.IntN(2) == 0
	for side := range n.ends {
		e := &end{n: n, side: side, live: map[uint64]bool{}, retired: map[uint64]bool{}, carries: map[uint64]int{}}
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
	if e.state.Awake() && !e.state.Asking() && !e.checking {
		e.checking = true
		e.n.after(netIdle, e.check)
	}
}

// check lets the end rest, as the shell's idle timer does.
func (e *end) check() {
	e.checking = false
	if !e.state.Awake() || e.state.Asking() {
		return
	}
	if e.streams == 0 && e.waiting == 0 && e.n.now-e.used >= netIdle {
		e.inUse = 0
		e.step(Idle{})
	} else {
		e.checking = true
		e.n.after(netIdle/4, e.check)
	}
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
		n.after(n.delay(), func() { e.step(FindEnded{Epoch: eff.Epoch}) })
	case ArmFind:
		n.after(eff.After, func() { e.step(FindTimer{Number: eff.Number}) })
	case Use:
		e.inUse = eff.Session
		if eff.Session != 0 {
			e.used = n.now
			e.flush()
		}
	case Close:
		n.end(eff.Session)
	case Retire:
		e.retired[eff.Session] = true
		e.retire(eff.Session)
	case Rest:
		n.after(n.delay(), func() { e.other().asked(e, eff.Session, eff.Question) })
	case Yield:
		n.after(4*netDelay, func() { n.end(eff.Session) })
	}
}

// dialed ends a dial: the other end hears of the Session first, this one later.
func (e *end) dialed(d Dial) {
	n := e.n
	n.next++
	id := n.next
	stray := e.side != 0
	o := e.other()
	o.live[id] = true
	o.step(Connected{Session: id, Boot: "b1", Class: Gateway, Stray: stray})
	n.after(n.delay(), func() {
		if n.closed[id] {
			e.step(Failed{Try: d.Try})
			return
		}
		e.live[id] = true
		e.step(Connected{Session: id, Boot: "b1", Class: Gateway, Stray: stray, Try: d.Try})
	})
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
				e.step(Lost{Session: id, Lived: netIdle})
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
func (e *end) asked(from *end, id, question uint64) {
	n := e.n
	if n.closed[id] {
		n.after(n.delay(), func() { from.answered(question, true) })
		return
	}
	agreed := e.streams == 0 && e.waiting == 0 && n.now-e.used >= netIdle/2
	if agreed {
		e.inUse = 0
		e.step(Asked{})
	}
	n.after(n.delay(), func() { from.answered(question, agreed) })
}

func (e *end) answered(question uint64, agreed bool) {
	e.step(Rested{question, agreed})
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
		e.n.after(time.Duration(e.n.r.Int64N(int64(netIdle/2)))+netDelay, func() {
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

// No answer is no agreement: the Peer may use another Session, and is asked over that.
func TestAnUnheardAnswerIsAskedForAgain(t *testing.T) {
	s, _ := State{}.Step(Changed{Facts: Facts{Boot: "b", Calls: true, OnDemand: true, Instance: "i"}})
	s, _ = s.Step(Connected{Session: 1, Boot: "b", Class: Gateway, Stray: true})
	s, _ = s.Step(Connected{Session: 2, Boot: "b", Class: Gateway})
	if used, _ := s.InUse(); used != 2 {
		t.Fatalf("session %d is used, want 2", used)
	}
	s, _ = s.Step(Idle{})
	s, effects := s.Step(Unheard{Question: 1})
	want := []Effect{Close{Session: 2, Reason: ErrIdle}, Rest{Question: 2, Session: 1}}
	if !reflect.DeepEqual(effects, want) || !s.Asking() {
		t.Fatalf("without an answer: %v, asking %v, want %v", effects, s.Asking(), want)
	}
	refused, effects := s.Step(Rested{Question: 2})
	if used, _ := refused.InUse(); used != 1 || refused.Phase() != Up {
		t.Errorf("refused over the other: %v, session %d is used, want 1", effects, used)
	}
	if unheard, effects := s.Step(Unheard{Question: 2}); unheard.Phase() != Asleep {
		t.Errorf("never answered: %v in %s, want %s", effects, unheard.Phase(), Asleep)
	}
}
