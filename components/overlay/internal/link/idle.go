package link

import "slices"

// A Link on demand has a Session only while a connection needs one.
//
//	asleep ──► Wanted, or the Peer: Connected, Nudged, Offered ──► awake
//	  ▲                                                              │ Idle
//	  │       no Session, or Rested{Agreed: true}                  ▼
//	  └────────────────────────────────────────────────────────── asking
//	  ▲                                                              │ Rested{Agreed: false}
//	  └── Asked: the Peer asks, and this side agrees     awake ◄─────┘
//
// The side that asks has taken the Sessions out of use before, and so has the side that
// agrees. Each side has checked for open streams, and opens no further stream on these
// Sessions. Closing them therefore loses nothing. When either side needs a stream next, it
// opens a new Session.
//
// The question names the Sessions that may end. A side agrees only if it holds exactly these
// Sessions: a Session that one side has not heard of yet may be in use at the other side.
//
// Either side may need a Session. The dialing side dials at once. The other side asks with a
// nudge where it can. Without a nudge, or without a result, it dials through the gateway
// itself. Both sides may dial at the same moment. Then both use the dialing side's Session,
// and the stray Session of that class is retired, because the Peer may have opened streams on
// it.

type (
	// Wanted reports that a connection on this side waits for a Session.
	Wanted struct{}
	// Idle reports that the Link has been unused for long on this side. No new stream gets a
	// Session until the next Use.
	Idle struct{}
	// Rested has the Peer's answer to the Rest of that number; an answer to an older Rest is
	// ignored.
	Rested struct {
		Question uint64
		Agreed   bool
	}
	// Unanswered reports that the Rest of that number will get no answer: the Session for the
	// answer has ended or is about to end. The Peer may or may not have agreed.
	Unanswered struct{ Question uint64 }
	// Asked reports that the Peer asks for the end of all Sessions and that this side has
	// agreed: no new stream gets a Session until the next Use.
	Asked struct{}
	// Making changes the number of Sessions that are being made over found paths, by More.
	Making struct{ More int }
)

type (
	// Rest asks the Peer, over a Session, whether all that are Leaving may end.
	Rest struct{ Question, Session uint64 }
	// Yield ends a Session when the Peer does not: it is to hear first that this side agrees.
	Yield struct{ Session uint64 }
	// Forget lets go of paths and relays when the Sessions are over.
	Forget struct{}
)

func (Wanted) event()     {}
func (Idle) event()       {}
func (Rested) event()     {}
func (Asked) event()      {}
func (Unanswered) event() {}
func (Making) event()     {}

func (Rest) effect()   {}
func (Yield) effect()  {}
func (Forget) effect() {}

// Awake reports whether the Link should have a Session.
func (s State) Awake() bool { return !s.facts.OnDemand || s.wanted }

// Asking reports whether a Rest waits for the Peer's answer.
func (s State) Asking() bool {
	for _, h := range s.sessions {
		if h.leaving {
			return true
		}
	}
	return false
}

// Leaving reports whether the Peer is asked for the end of a Session.
func (s State) Leaving(session uint64) bool {
	return slices.ContainsFunc(s.sessions, func(h liveSession) bool { return h.session == session && h.leaving })
}

// Dialing reports whether a Session is being made, through the gateway or over a found path.
// The Peer may use that Session already. So this side neither proposes nor accepts a rest
// meanwhile, which would cut the Session.
func (s State) Dialing() bool { return s.gateway.dialing || s.making > 0 }

// reachable reports whether dialing the gateway makes sense.
func (s State) reachable() bool {
	f := s.facts
	return f.Instance != "" && f.named() && (f.Dials && s.Awake() || s.calling && s.use == 0)
}

// findable reports whether searching for paths makes sense.
func (s State) findable() bool { return s.facts.findable() && s.Awake() }

// called handles a local request for a Session.
func (s State) called() (State, []Effect) {
	callable := s.facts.OnDemand || s.facts.Calls && !s.facts.Dials
	if !callable || s.use != 0 || s.Asking() || s.calling && !s.callsAgain() {
		return s, nil
	}
	s.wanted, s.calling = true, true
	var effects []Effect
	switch {
	case s.gateway.dialing:
	case !s.facts.Dials && s.facts.findable():
		// The Peer is asked first, and dials sooner than that.
		s.gateway = s.gateway.stopped()
		s.gateway.waiting, s.gateway.backOff = true, 0
		effects = []Effect{Cancel{}, Arm{Try: s.gateway.try, After: callAfter}}
	default:
		s, effects = s.dialGateway(true)
	}
	if s.find.running {
		return s, effects
	}
	s, more := s.wishFind(false)
	return s, append(effects, more...)
}

// callsAgain reports whether this side has to nudge again: its connections still wait, the
// last nudge had no result, and there is no other way. The Peer was away, or has given up its
// search.
func (s State) callsAgain() bool {
	return !s.facts.Dials && s.facts.findable() && !s.gateway.dialing && !s.gateway.waiting && !s.find.running
}

// idle asks the Peer for rest, or rests at once if there is no Session to ask over.
func (s State) idle() (State, []Effect) {
	if !s.facts.OnDemand || !s.wanted || s.Asking() {
		return s, nil
	}
	over := s.use
	if over == 0 {
		return s.sleep()
	}
	s.sessions, s.recalled = slices.Clone(s.sessions), false
	for i := range s.sessions {
		s.sessions[i].leaving = true
	}
	s, effects := s.choose()
	s, rest := s.ask(over)
	return s, append(effects, rest)
}

// ask asks the Peer over a Session whether all leaving Sessions may end.
func (s State) ask(over uint64) (State, Effect) {
	s.question++
	s.askedOver = over
	return s, Rest{Question: s.question, Session: over}
}

// unanswered drops the Session that brought no answer, and asks over another: the Peer may use
// the other Session, or may have agreed to use none. Ending it without a question, or using
// it again, could lose a stream.
func (s State) unanswered(ev Unanswered) (State, []Effect) {
	if !s.Asking() || ev.Question != s.question {
		return s, nil
	}
	var effects []Effect
	if s.Class(s.askedOver) != NoClass {
		effects = append(effects, Close{Session: s.askedOver, Reason: ErrIdle})
		s = s.without(s.askedOver)
	}
	for _, h := range s.sessions {
		if h.leaving {
			s, rest := s.ask(h.session)
			return s, append(effects, rest)
		}
	}
	s, more := s.withoutSessions()
	return s, append(effects, more...)
}

// withoutSessions sleeps when no Session is left. If the Peer has asked for a Session meanwhile, the
// Link makes one. A Session that is being made continues, for the Peer may use it already.
func (s State) withoutSessions() (State, []Effect) {
	switch {
	case len(s.sessions) > 0:
		return s.choose()
	case s.recalled, s.Dialing() && !s.facts.OnDemand:
		s.recalled = false
		return s.dialGateway(false)
	case s.Dialing():
		return s, nil
	}
	return s.sleep()
}

// rested ends the Sessions of the question if the Peer agreed, and takes the question back
// otherwise.
func (s State) rested(ev Rested) (State, []Effect) {
	if !s.Asking() || ev.Question != s.question {
		return s, nil
	}
	var (
		stay    []liveSession
		effects []Effect
	)
	for _, h := range s.sessions {
		if h.leaving && ev.Agreed {
			effects = append(effects, Close{Session: h.session, Reason: ErrIdle})
			continue
		}
		h.leaving = false
		stay = append(stay, h)
	}
	s.sessions = stay
	s, more := s.withoutSessions()
	return s, append(effects, more...)
}

// asked yields all Sessions to the Peer.
func (s State) asked() (State, []Effect) {
	var effects []Effect
	for _, h := range s.sessions {
		effects = append(effects, Yield{Session: h.session})
		if h.leaving { // Both sides ask. A Peer that misses the answer asks again over a Session that still ends, and must hear it there.
			effects = append(effects, Close{Session: h.session, Reason: ErrIdle})
		}
	}
	s.sessions = nil
	s, more := s.choose()
	effects = append(effects, more...)
	s, more = s.sleep()
	return s, append(effects, more...)
}

// sleep stops every process that would make a Session. A Link that is no longer on demand
// starts from the beginning.
func (s State) sleep() (State, []Effect) {
	s.wanted, s.calling = false, false
	s.gateway = s.gateway.stopped()
	s.gateway.backOff = 0
	effects := []Effect{Cancel{}}
	if s.find.running || s.find.armed {
		effects = append(effects, StopFind{})
	}
	s.find = find{epoch: s.find.epoch, boot: s.find.boot, number: s.find.number}
	effects = append(effects, Forget{})
	if s.facts.OnDemand {
		return s, effects
	}
	s, more := s.dialGateway(true)
	effects = append(effects, more...)
	s, more = s.restartFind()
	return s, append(effects, more...)
}
