package handover

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

const (
	// lookReleased, lookPaused and lookIdle pace the looks at a route's endpoints: while a
	// leader is waited for, while a release is, and, for a pooler, else.
	lookReleased = 10 * time.Millisecond
	lookPaused   = 50 * time.Millisecond
	lookIdle     = time.Second
	// remember is how long a request to pause after its release is recognized as late.
	remember = time.Minute
	// maxRemembered bounds the number of remembered operations; the oldest makes room.
	maxRemembered = 64
)

// State is the outcome of a Pause on one route.
type State string

const (
	// Waiting: new connections wait.
	Waiting State = "waiting"
	// Paused: queries wait, and no transaction is open.
	Paused State = "paused"
	// GaveUp: the pooler could not be paused in time, and all clients continue.
	GaveUp State = "gave_up"
	// Released: the pause was over before it began, or before it was reached.
	Released State = "released"
	// Spent: the Operation has paused the route for as long as it may.
	Spent State = "spent"
	// Unknown: the asker did not wait for the answer.
	Unknown State = "unknown"
)

// machine decides for one route. It has no clock and no effects of its own: step takes an event and
// returns the effects.
//
//	        pauseAsked             done
//	open ─────────────► reaching ────────► paused
//	 ▲                     │                │
//	 └─────────────────────┴────────────────┘
//	   limit, release and endpoints, endpoints alone, failure, change
type machine struct {
	// pooled: existing server connections are replaced when the endpoints change.
	pooled bool
	// others: the route is to followers, not to the leader.
	others bool
	// reached is the State after the pauser's success.
	reached State

	pause *pause // nil: open
	// over are operations that are released, by when that is forgotten.
	over map[string]time.Time
	// budget is the pause time of all tries of an Operation together.
	budget budget
	// last are the endpoints that servers of the pooler are connected to.
	last []netip.AddrPort
	// looked is when the last look began; zero: never.
	looked time.Time
}

// pause is the pause in progress.
type pause struct {
	operation    string
	since, until time.Time
	reached      bool
	release      *releaseAsked // nil: not asked yet
	// before are the endpoints of the first look, possibly empty.
	before []netip.AddrPort
	known  bool // before
	now    []netip.AddrPort
}

// event is something that happened.
type event interface{ event() }

type (
	// pauseAsked: an Operation is about to move the leadership.
	pauseAsked struct {
		operation string
		limit     time.Duration
	}
	// releaseAsked: it did, or did not.
	releaseAsked struct {
		operation string
		// moved: a leader is named. Its address may not be known here.
		moved  bool
		leader netip.Addr
	}
	// done reports that the pauser pauses the route, or err.
	done struct {
		operation string
		err       error
	}
	// seen: Envoy has these endpoints, in order, or did not answer.
	seen struct {
		endpoints []netip.AddrPort
		failed    bool
	}
	// changed: the route was changed or removed.
	changed struct{ why string }
	// tick: time has passed.
	tick struct{}
)

func (pauseAsked) event()   {}
func (releaseAsked) event() {}
func (done) event()         {}
func (seen) event()         {}
func (changed) event()      {}
func (tick) event()         {}

// effect is something to do.
type effect interface{ effect() }

type (
	// doPause starts a pause; the pauser answers with [done].
	doPause struct {
		operation string
		limit     time.Duration
	}
	// doOpen resumes the clients, whether the pause was reached or not.
	doOpen struct {
		operation string
		paused    time.Duration
		why       string
		expired   bool
	}
	// doAnswer returns the outcome of operation's pause to its caller.
	doAnswer struct {
		operation string
		state     State
		message   string
	}
	// doLook reads the endpoints, at most age old; the unit answers with [seen].
	doLook struct{ age time.Duration }
	// doReconnect has the servers of a pooler replaced.
	doReconnect struct{}
)

func (doPause) effect()     {}
func (doOpen) effect()      {}
func (doAnswer) effect()    {}
func (doLook) effect()      {}
func (doReconnect) effect() {}

// step returns the effects of e. It leaves all state unchanged that e does not name.
func (m *machine) step(now time.Time, e event) []effect {
	var out []effect
	switch e := e.(type) {
	case pauseAsked:
		out = m.onPause(now, e)
	case releaseAsked:
		m.forget(now, e.operation)
		if m.pause != nil && m.pause.operation == e.operation {
			m.pause.release = &e
			m.looked = time.Time{} // look at once
			out = m.judge(now)
		}
	case done:
		out = m.onDone(now, e)
	case seen:
		if !e.failed {
			out = m.onSeen(now, e.endpoints)
		}
	case changed:
		out = m.open(now, e.why, false)
	case tick:
		if m.pause != nil && !now.Before(m.pause.until) {
			out = m.open(now, "its limit ended", true)
		}
	}
	if every := m.lookEvery(); every > 0 && !now.Before(m.looked.Add(every)) {
		m.looked = now
		out = append(out, doLook{age: every / 2})
	}
	return out
}

func (m *machine) onPause(now time.Time, e pauseAsked) []effect {
	var out []effect
	if until, late := m.over[e.operation]; late && now.Before(until) {
		return []effect{doAnswer{e.operation, Released, "the operation was over before the pause was requested"}}
	}
	if h := m.pause; h != nil && h.operation == e.operation {
		if h.reached {
			return []effect{doAnswer{e.operation, m.reached, ""}}
		}
		return nil // its answer is on the way
	}
	left := m.left(now, e)
	if left <= 0 {
		return []effect{doAnswer{e.operation, Spent, fmt.Sprintf("the operation has paused the route for %v in all, and may no longer", tries*e.limit)}}
	}
	if h := m.pause; h != nil {
		// The pause continues for the new operation.
		m.forget(now, h.operation)
		m.budget.spend(now, h.operation, now.Sub(h.since))
		if !h.reached {
			out = append(out, doAnswer{h.operation, Released, "another operation pauses the route"})
		}
	}
	limit := min(e.limit, left)
	m.pause = &pause{operation: e.operation, since: now, until: now.Add(limit)}
	m.looked = time.Time{}
	return append(out, doPause{e.operation, limit})
}

// left is the pause time that the Operation of e has left, over all its tries.
func (m *machine) left(now time.Time, e pauseAsked) time.Duration {
	spent := m.budget.spent(e.operation)
	if h := m.pause; h != nil && operationOf(h.operation) == operationOf(e.operation) {
		spent += now.Sub(h.since)
	}
	return tries*e.limit - spent
}

func (m *machine) onDone(now time.Time, e done) []effect {
	h := m.pause
	if h == nil || h.operation != e.operation {
		return nil // it was released meanwhile
	}
	if e.err != nil {
		return m.openAs(now, "it could not be paused", false, GaveUp, e.err.Error())
	}
	h.reached = true
	return []effect{doAnswer{e.operation, m.reached, ""}}
}

func (m *machine) onSeen(now time.Time, endpoints []netip.AddrPort) []effect {
	h := m.pause
	if h == nil {
		return m.follow(endpoints)
	}
	if !h.known {
		h.before, h.known = endpoints, true
	}
	h.now = endpoints
	return m.judge(now)
}

// follow closes the pooler's server connections to addresses that are no longer endpoints: a
// previous leader may still answer there, as a follower.
func (m *machine) follow(endpoints []netip.AddrPort) []effect {
	if !m.pooled || len(endpoints) == 0 || slices.Equal(endpoints, m.last) {
		return nil
	}
	m.last = endpoints
	return []effect{doReconnect{}}
}

// judge releases the route when a leader is reachable.
func (m *machine) judge(now time.Time) []effect {
	h := m.pause
	if !h.known || len(h.now) == 0 {
		return nil
	}
	// A change among several is a change; of one leader, only another one is.
	other := !slices.Equal(h.now, h.before) && (len(h.before) > 1 || len(h.now) == 1)
	switch r := h.release; {
	case r != nil && !r.moved:
		return m.open(now, "the operation is over, and named no leader", false)
	case r != nil && r.leader.IsValid() && m.shows(h.now, r.leader):
		return m.open(now, "the route has the leader that was named", false)
	case r == nil && other:
		return m.open(now, "the route has another leader, and no release came", false)
	case other:
		return m.open(now, "the route has another leader than before", false)
	}
	return nil
}

// shows reports whether endpoints are the ones expected while leader leads.
func (m *machine) shows(endpoints []netip.AddrPort, leader netip.Addr) bool {
	is := func(e netip.AddrPort) bool { return e.Addr() == leader }
	if m.others {
		return !slices.ContainsFunc(endpoints, is)
	}
	return len(endpoints) == 1 && is(endpoints[0])
}

func (m *machine) open(now time.Time, why string, expired bool) []effect {
	return m.openAs(now, why, expired, Released, why)
}

// openAs ends the pause; a caller that still waits for an answer gets state and message.
func (m *machine) openAs(now time.Time, why string, expired bool, state State, message string) []effect {
	h := m.pause
	if h == nil {
		return nil
	}
	m.pause = nil
	m.forget(now, h.operation)
	m.budget.spend(now, h.operation, now.Sub(h.since))
	var out []effect
	if h.reached {
		// A pause has closed all server connections: new ones go to these endpoints.
		if len(h.now) > 0 {
			m.last = h.now
		}
	} else {
		out = append(out, doAnswer{h.operation, state, message})
	}
	return append(out, doOpen{operation: h.operation, paused: now.Sub(h.since), why: why, expired: expired})
}

// forget records that operation is over: a later request to pause for it is late.
func (m *machine) forget(now time.Time, operation string) {
	maps.DeleteFunc(m.over, func(_ string, until time.Time) bool { return !now.Before(until) })
	if m.over == nil {
		m.over = map[string]time.Time{}
	}
	m.over[operation] = now.Add(remember)
	dropOldest(m.over, func(until time.Time) time.Time { return until })
}

// dropOldest leaves maxRemembered in all, by when each is from.
func dropOldest[V any](all map[string]V, from func(V) time.Time) {
	for len(all) > maxRemembered {
		delete(all, slices.MinFunc(slices.Collect(maps.Keys(all)), func(a, b string) int {
			return cmp.Or(from(all[a]).Compare(from(all[b])), cmp.Compare(a, b))
		}))
	}
}

func (m *machine) lookEvery() time.Duration {
	switch {
	case m.pause != nil && m.pause.release != nil:
		return lookReleased
	case m.pause != nil:
		return lookPaused
	case m.pooled:
		return lookIdle
	}
	return 0
}

// next is when a tick is due; zero: not before something happens.
func (m *machine) next() time.Time {
	var at time.Time
	if every := m.lookEvery(); every > 0 {
		at = m.looked.Add(every)
	}
	if m.pause != nil && (at.IsZero() || m.pause.until.Before(at)) {
		at = m.pause.until
	}
	return at
}
