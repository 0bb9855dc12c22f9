package link

import "slices"

// A Link on demand has no Session while nobody wants one.
//
//	asleep ──► Wanted, or the Peer: Connected, Nudged, Offered ──► awake
//	  ▲                                                              │ Idle
//	  │       nothing held, or Rested{Agreed: true}                  ▼
//	  └────────────────────────────────────────────────────────── asking
//	  ▲                                                              │ Rested{Agreed: false}
//	  └── Asked: the Peer asks, and nobody here minds    awake ◄─────┘
//
// Who asks has taken the Sessions out of use before, and whoever agrees has too: each
// has looked whether it opened a stream that is still there, and opens none on them
// any more. So nothing is lost with them, whoever of the two wants a stream next: it opens
// a new Session.
//
// The question names the Sessions that may end, and only who holds just those agrees: one
// that either side has and the other has not heard of yet may be in use over there.
//
// Either side may want one. The side that dials does so at once; the other asks for it
// with a nudge where it can, and else, or when nothing comes of that, goes through the
// gateway itself. Both may do so at the same moment: of two Sessions of a class the one
// that the dialing side made is used by both, and the stray one is retired, for the
// Peer may have opened streams on it.

type (
	// Wanted tells that somebody here waits for a Session.
	Wanted struct{}
	// Idle tells that nobody here has used the Link for long and no new stream gets a
	// Session any more until the next Use.
	Idle struct{}
	// Rested brings the Peer's answer to the Rest of that number; to an older one it comes
	// too late and is ignored.
	Rested struct {
		Question uint64
		Agreed   bool
	}
	// Unheard tells that there will be no answer to the Rest of that number: the Session
	// that it would have come over has ended, or is as good as ended. The Peer may have
	// agreed or not.
	Unheard struct{ Question uint64 }
	// Asked tells that the Peer asks for the end of all Sessions, and that this side has
	// agreed: no new stream gets one until the next Use.
	Asked struct{}
	// Making tells that so many more Sessions are being made over paths that were found, or
	// fewer.
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

func (Wanted) event()  {}
func (Idle) event()    {}
func (Rested) event()  {}
func (Asked) event()   {}
func (Unheard) event() {}
func (Making) event()  {}

func (Rest) effect()   {}
func (Yield) effect()  {}
func (Forget) effect() {}

// Awake tells whether there should be a Session.
func (s State) Awake() bool { return !s.facts.OnDemand || s.wanted }

// Asking tells whether the Peer has not answered a Rest yet.
func (s State) Asking() bool {
	for _, h := range s.held {
		if h.leaving {
			return true
		}
	}
	return false
}

// Leaving tells whether the Peer is asked for the end of a Session.
func (s State) Leaving(session uint64) bool {
	return slices.ContainsFunc(s.held, func(h held) bool { return h.session == session && h.leaving })
}

// Dialing tells whether a Session is being made, through the gateway or over a path that was
// found. The Peer may use it already, so this side neither proposes nor agrees to rest
// meanwhile: it would be cut.
func (s State) Dialing() bool { return s.gate.dialing || s.making > 0 }

// reachable tells whether dialing the gateway makes sense.
func (s State) reachable() bool {
	f := s.facts
	return f.Instance != "" && f.named() && (f.Dials && s.Awake() || s.calling && s.use == 0)
}

// findable tells whether looking for paths makes sense.
func (s State) findable() bool { return s.facts.findable() && s.Awake() }

// called answers the wish of somebody here.
func (s State) called() (State, []Effect) {
	callable := s.facts.OnDemand || s.facts.Calls && !s.facts.Dials
	if !callable || s.use != 0 || s.Asking() || s.calling && !s.callsAgain() {
		return s, nil
	}
	s.wanted, s.calling = true, true
	var effects []Effect
	switch {
	case s.gate.dialing:
	case !s.facts.Dials && s.facts.findable():
		// The Peer is asked first, and dials sooner than that.
		s.gate = s.gate.stopped()
		s.gate.waiting, s.gate.backOff = true, 0
		effects = []Effect{Cancel{}, Arm{Try: s.gate.try, After: callAfter}}
	default:
		s, effects = s.openGate(true)
	}
	if s.find.running {
		return s, effects
	}
	s, more := s.wishFind(false)
	return s, append(effects, more...)
}

// callsAgain tells whether a nudge has come to nothing, and there is no other way: the Peer
// was away, or has given up looking, while somebody here still waits.
func (s State) callsAgain() bool {
	return !s.facts.Dials && s.facts.findable() && !s.gate.dialing && !s.gate.waiting && !s.find.running
}

// idle asks for rest, or rests where there is nobody to ask.
func (s State) idle() (State, []Effect) {
	if !s.facts.OnDemand || !s.wanted || s.Asking() {
		return s, nil
	}
	over := s.use
	if over == 0 {
		return s.sleep()
	}
	s.held, s.recalled = slices.Clone(s.held), false
	for i := range s.held {
		s.held[i].leaving = true
	}
	s, effects := s.choose()
	s, rest := s.ask(over)
	return s, append(effects, rest)
}

// ask asks the Peer over a Session whether all that are leaving may end.
func (s State) ask(over uint64) (State, Effect) {
	s.question++
	s.askedOver = over
	return s, Rest{Question: s.question, Session: over}
}

// unheard lets go of the Session that no answer came over, and asks over another: the Peer
// may use that, or have agreed to use none. Ended unasked, or used again, a stream could be
// lost with it.
func (s State) unheard(ev Unheard) (State, []Effect) {
	if !s.Asking() || ev.Question != s.question {
		return s, nil
	}
	var effects []Effect
	if s.Class(s.askedOver) != NoClass {
		effects = append(effects, Close{Session: s.askedOver, Reason: ErrIdle})
		s = s.without(s.askedOver)
	}
	for _, h := range s.held {
		if h.leaving {
			s, rest := s.ask(h.session)
			return s, append(effects, rest)
		}
	}
	s, more := s.unheld()
	return s, append(effects, more...)
}

// unheld sleeps when no Session is left. Where the Peer has asked for one meanwhile there is
// to be one; and what is being made goes on, for the Peer may use it already.
func (s State) unheld() (State, []Effect) {
	switch {
	case len(s.held) > 0:
		return s.choose()
	case s.recalled, s.Dialing() && !s.facts.OnDemand:
		s.recalled = false
		return s.openGate(false)
	case s.Dialing():
		return s, nil
	}
	return s.sleep()
}

// rested ends what was to end, or takes it back.
func (s State) rested(ev Rested) (State, []Effect) {
	if !s.Asking() || ev.Question != s.question {
		return s, nil
	}
	var (
		stay    []held
		effects []Effect
	)
	for _, h := range s.held {
		if h.leaving && ev.Agreed {
			effects = append(effects, Close{Session: h.session, Reason: ErrIdle})
			continue
		}
		h.leaving = false
		stay = append(stay, h)
	}
	s.held = stay
	s, more := s.unheld()
	return s, append(effects, more...)
}

// asked yields all Sessions to the Peer.
func (s State) asked() (State, []Effect) {
	var effects []Effect
	for _, h := range s.held {
		if h.leaving { // both sides ask
			effects = append(effects, Close{Session: h.session, Reason: ErrIdle})
			continue
		}
		effects = append(effects, Yield{Session: h.session})
	}
	s.held = nil
	s, more := s.choose()
	effects = append(effects, more...)
	s, more = s.sleep()
	return s, append(effects, more...)
}

// sleep stops everything that would make a Session. A Link that is not on demand (any
// more) begins anew.
func (s State) sleep() (State, []Effect) {
	s.wanted, s.calling = false, false
	s.gate = s.gate.stopped()
	s.gate.backOff = 0
	effects := []Effect{Cancel{}}
	if s.find.running || s.find.armed {
		effects = append(effects, StopFind{})
	}
	s.find = find{epoch: s.find.epoch, boot: s.find.boot, number: s.find.number}
	effects = append(effects, Forget{})
	if s.facts.OnDemand {
		return s, effects
	}
	s, more := s.openGate(true)
	effects = append(effects, more...)
	s, more = s.restartFind()
	return s, append(effects, more...)
}
