package link

import "slices"

// State is one Link. Its zero value has no facts.
type State struct {
	known    bool // Changed has come
	over     bool // Ended has come
	facts    Facts
	sessions []liveSession // live Sessions, never changed in place
	use      uint64
	gateway  gatewayDialer
	find     find

	// For a Link on demand. wanted: there should be a Session; calling: a local connection
	// waits for a Session that does not exist yet.
	wanted, calling bool
	// question numbers the Rests; askedOver is the Session of the last. recalled: the Peer
	// has asked for a Session since.
	question, askedOver uint64
	recalled            bool
	// making is how many Sessions are being made over paths that were found.
	making int
}

// liveSession is one live Session.
type liveSession struct {
	session uint64
	boot    string
	class   Class
	retired bool
	// stray: the side that does not dial has made it. leaving: the Peer is asked whether
	// it may end.
	stray, leaving bool
	// suspect: nothing comes over it although something should.
	suspect bool
}

// rank orders Sessions for use; one under suspicion is better than none only.
func (h liveSession) rank() int {
	if h.suspect {
		return -int(DirectTCP) - 1 + int(h.class)
	}
	return int(h.class)
}

// Facts returns the latest facts about the Peer.
func (s State) Facts() Facts { return s.facts }

// InUse is the Session that streams are opened on, 0 for none, and its class.
func (s State) InUse() (uint64, Class) { return s.use, s.Class(s.use) }

// Finding reports whether a search runs, and the last epoch.
func (s State) Finding() (bool, uint64) { return s.find.running, s.find.epoch }

// Phase returns the state of the Link.
func (s State) Phase() Phase {
	switch {
	case s.over:
		return Over
	case s.use != 0 || s.Asking():
		return Up
	case !s.facts.named():
		return Absent
	case !s.Awake():
		return Asleep
	case s.gateway.dialing || s.find.running:
		return Dialing
	case s.gateway.waiting || s.find.waiting:
		return BackOff
	case !s.facts.Dials:
		return Awaited
	}
	return Absent
}

// Step is the whole machine.
func (s State) Step(ev Event) (State, []Effect) {
	if s.over {
		return s, nil
	}
	switch ev := ev.(type) {
	case Ended:
		return s.ended(ev.Reason)
	case Changed:
		return s.changed(ev.Facts)
	case Connected:
		return s.connected(ev)
	case Moved:
		return s.moved(ev)
	case Suspected:
		return s.suspected(ev)
	case Failed:
		return s.failed(ev)
	case Lost:
		return s.lost(ev)
	case Timer:
		return s.timer(ev)
	case Offered:
		return s.offered(ev)
	case Nudged:
		return s.nudged(ev)
	case Wanted:
		return s.called()
	case Idle:
		return s.idle()
	case Rested:
		return s.rested(ev)
	case Unanswered:
		return s.unanswered(ev)
	case Asked:
		return s.asked()
	case Making:
		s.making += ev.More
		return s, nil
	case Quiet:
		return s.wishFind(true)
	case RendezvousUp:
		if _, best := s.InUse(); best.Direct() {
			return s, nil
		}
		// At once only without a recent try: a server that comes and goes must not set the
		// pace.
		if s.find.backOff > findHope {
			s.find.backOff = findHope / 2 // doubled below
			return s.waitFind(ev.Jitter)
		}
		return s.wishFind(true)
	case FindEnded:
		return s.findEnded(ev)
	case FindTimer:
		return s.findTimer(ev)
	}
	return s, nil
}

// ended lets go of everything.
func (s State) ended(reason error) (State, []Effect) {
	effects := []Effect{Cancel{}, StopFind{}}
	for _, h := range s.sessions {
		effects = append(effects, Close{Session: h.session, Reason: reason})
	}
	return State{over: true, known: true, facts: s.facts, find: find{epoch: s.find.epoch}}, effects
}

// changed handles new facts. Dials and searches that began under other facts are dropped.
func (s State) changed(f Facts) (State, []Effect) {
	old, first := s.facts, !s.known
	s.facts, s.known = f, true
	if !first && f == old {
		return s, nil
	}
	var effects []Effect
	for _, h := range s.sessions {
		switch {
		case !f.Admits(h.boot):
			effects = append(effects, Close{Session: h.session, Reason: ErrRevoked})
		case f.Dials && f.Instance != old.Instance && h.class == Gateway:
			effects = append(effects, Close{Session: h.session, Reason: ErrMoved})
		default:
			continue
		}
		s = s.without(h.session)
	}
	s, more := s.choose()
	effects = append(effects, more...)
	s, more = s.dialGateway(first || f.Dials != old.Dials || f.Boot != old.Boot || f.Instance != old.Instance || f.AnyBoot != old.AnyBoot || f.OnDemand != old.OnDemand)
	effects = append(effects, more...)
	if first || f.Dials != old.Dials || f.Boot != old.Boot || f.AnyBoot != old.AnyBoot || f.Finds != old.Finds || f.OnDemand != old.OnDemand {
		s, more = s.restartFind()
		effects = append(effects, more...)
	}
	return s, effects
}

// connected takes a new Session, or refuses it.
func (s State) connected(ev Connected) (State, []Effect) {
	switch {
	case ev.Try != 0 && (!s.gateway.dialing || ev.Try != s.gateway.try):
		return s, []Effect{Close{Session: ev.Session, Reason: ErrReplaced}}
	case !s.facts.Admits(ev.Boot):
		return s, []Effect{Close{Session: ev.Session, Reason: ErrRevoked}}
	}
	s.wanted = true
	var effects []Effect
	for _, h := range s.sessions {
		// Two of a class are one too many; another Boot's are of the past. A stray one is
		// retired: see idle.go.
		if h.class == ev.Class && h.stray == ev.Stray || h.boot != ev.Boot {
			effects = append(effects, Close{Session: h.session, Reason: ErrReplaced})
			s = s.without(h.session)
		}
	}
	s.sessions = append(slices.Clip(s.sessions), liveSession{session: ev.Session, boot: ev.Boot, class: ev.Class, stray: ev.Stray})
	switch {
	case ev.Class != Gateway:
	case ev.Try != 0:
		s.gateway = s.gateway.stopped()
	case ev.Stray || !s.facts.Dials && s.gateway.dialing:
		// Both dial at once. The Peer may already use the Session that is under way.
	default:
		s.gateway = s.gateway.stopped()
		effects = append(effects, Cancel{})
	}
	s, more := s.choose()
	return s, append(effects, more...)
}

// moved updates the rank of a Session.
func (s State) moved(ev Moved) (State, []Effect) {
	at := slices.IndexFunc(s.sessions, func(h liveSession) bool { return h.session == ev.Session })
	if at < 0 || s.sessions[at].class == ev.Class {
		return s, nil
	}
	s.sessions = slices.Clone(s.sessions)
	s.sessions[at].class = ev.Class
	return s.choose()
}

// suspected believes less, or again, in a Session.
func (s State) suspected(ev Suspected) (State, []Effect) {
	at := slices.IndexFunc(s.sessions, func(h liveSession) bool { return h.session == ev.Session })
	if at < 0 || s.sessions[at].suspect == ev.Suspect {
		return s, nil
	}
	s.sessions = slices.Clone(s.sessions)
	s.sessions[at].suspect = ev.Suspect
	return s.choose()
}

// lost lets go of a Session that has ended.
func (s State) lost(ev Lost) (State, []Effect) {
	class := s.Class(ev.Session)
	if class == NoClass {
		return s, nil
	}
	leaving := slices.ContainsFunc(s.sessions, func(h liveSession) bool { return h.session == ev.Session && h.leaving })
	s = s.without(ev.Session)
	s, effects := s.choose()
	if leaving {
		s, more := s.withoutSessions()
		return s, append(effects, more...)
	}
	var more []Effect
	if class == Gateway {
		s, more = s.redialGateway(ev.Lived < steady, ev.Jitter)
	} else {
		s, more = s.lostPath(ev)
	}
	return s, append(effects, more...)
}

// choose uses the best Session, keeps one standby and retires the rest.
func (s State) choose() (State, []Effect) {
	best, standby := liveSession{}, liveSession{}
	for _, h := range s.sessions {
		if !h.leaving && (best.session == 0 || h.rank() > best.rank() || h.rank() == best.rank() && !h.stray) {
			best = h
		}
	}
	for _, h := range s.sessions {
		if h.session != best.session && !h.leaving && !s.doubled(h) && (standby.session == 0 || h.class == Gateway) {
			standby = h
		}
	}
	var effects []Effect
	s.calling = s.calling && best.session == 0
	if best.session != s.use {
		s.use = best.session
		effects = append(effects, Use{Session: best.session})
	}
	for i, h := range s.sessions {
		if h.leaving {
			continue
		}
		keep := h.session == best.session || h.session == standby.session
		if keep == !h.retired {
			continue
		}
		s.sessions = slices.Clone(s.sessions)
		s.sessions[i].retired = !keep
		if !keep {
			effects = append(effects, Retire{Session: h.session})
		}
	}
	return s, effects
}

// doubled reports whether a stray Session has a proper Session of the same class.
func (s State) doubled(stray liveSession) bool {
	return stray.stray && slices.ContainsFunc(s.sessions, func(h liveSession) bool { return h.class == stray.class && !h.stray })
}

// Retired reports whether a Session ends as soon as nothing uses it.
func (s State) Retired(session uint64) bool {
	return slices.ContainsFunc(s.sessions, func(h liveSession) bool { return h.session == session && h.retired })
}

// Suspect reports whether a Session is suspected.
func (s State) Suspect(session uint64) bool {
	return slices.ContainsFunc(s.sessions, func(h liveSession) bool { return h.session == session && h.suspect })
}

// Class returns the rank of a Session, and NoClass for an unknown Session.
func (s State) Class(session uint64) Class {
	for _, h := range s.sessions {
		if h.session == session {
			return h.class
		}
	}
	return NoClass
}

func (s State) without(session uint64) State {
	s.sessions = slices.DeleteFunc(slices.Clone(s.sessions), func(h liveSession) bool { return h.session == session })
	return s
}
