package link

import "slices"

// State is one Link. Its zero value knows no facts.
type State struct {
	known bool // Changed has come
	facts Facts
	held  []held // live Sessions, never changed in place
	use   uint64
	gate  gate
	find  find
}

// held is one live Session.
type held struct {
	session uint64
	boot    string
	class   Class
	retired bool
	// suspect: nothing comes over it although something should.
	suspect bool
}

// rank orders Sessions for use; one under suspicion is better than none only.
func (h held) rank() int {
	if h.suspect {
		return -int(DirectTCP) - 1 + int(h.class)
	}
	return int(h.class)
}

// Facts gives what the Link last heard of its Peer.
func (s State) Facts() Facts { return s.facts }

// InUse is the Session that streams are opened on, 0 for none, and its class.
func (s State) InUse() (uint64, Class) { return s.use, s.Class(s.use) }

// Finding tells whether a search runs, and the last epoch.
func (s State) Finding() (bool, uint64) { return s.find.running, s.find.epoch }

// Phase tells where the Link stands.
func (s State) Phase() Phase {
	switch {
	case s.use != 0:
		return Up
	case !s.facts.named():
		return Absent
	case s.gate.dialing || s.find.running:
		return Dialing
	case s.gate.waiting || s.find.waiting:
		return BackOff
	case !s.facts.Dials:
		return Awaited
	}
	return Absent
}

// Step is the whole machine.
func (s State) Step(ev Event) (State, []Effect) {
	switch ev := ev.(type) {
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
	case Quiet:
		return s.wishFind(true)
	case Hoped:
		if _, best := s.InUse(); best.Direct() {
			return s, nil
		}
		// At once only where nothing was tried lately: a server that comes and goes must
		// not set the pace.
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

// changed answers new facts. What was begun under other facts is of no use.
func (s State) changed(f Facts) (State, []Effect) {
	old, first := s.facts, !s.known
	s.facts, s.known = f, true
	if !first && f == old {
		return s, nil
	}
	var effects []Effect
	for _, h := range s.held {
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
	s, more = s.openGate(first || f.Dials != old.Dials || f.Boot != old.Boot || f.Instance != old.Instance || f.AnyBoot != old.AnyBoot)
	effects = append(effects, more...)
	if first || f.Dials != old.Dials || f.Boot != old.Boot || f.AnyBoot != old.AnyBoot || f.Finds != old.Finds {
		s, more = s.restartFind()
		effects = append(effects, more...)
	}
	return s, effects
}

// connected takes a new Session, or refuses it.
func (s State) connected(ev Connected) (State, []Effect) {
	switch {
	case ev.Try != 0 && (!s.gate.dialing || ev.Try != s.gate.try):
		return s, []Effect{Close{Session: ev.Session, Reason: ErrReplaced}}
	case !s.facts.Admits(ev.Boot):
		return s, []Effect{Close{Session: ev.Session, Reason: ErrRevoked}}
	}
	var effects []Effect
	for _, h := range s.held {
		// Two of a class are one too many; another Boot's are of the past.
		if h.class == ev.Class || h.boot != ev.Boot {
			effects = append(effects, Close{Session: h.session, Reason: ErrReplaced})
			s = s.without(h.session)
		}
	}
	s.held = append(slices.Clip(s.held), held{session: ev.Session, boot: ev.Boot, class: ev.Class})
	if ev.Class == Gateway {
		s.gate = s.gate.stopped()
		if ev.Try == 0 {
			effects = append(effects, Cancel{})
		}
	}
	s, more := s.choose()
	return s, append(effects, more...)
}

// moved ranks a Session anew.
func (s State) moved(ev Moved) (State, []Effect) {
	at := slices.IndexFunc(s.held, func(h held) bool { return h.session == ev.Session })
	if at < 0 || s.held[at].class == ev.Class {
		return s, nil
	}
	s.held = slices.Clone(s.held)
	s.held[at].class = ev.Class
	return s.choose()
}

// suspected believes less, or again, in a Session.
func (s State) suspected(ev Suspected) (State, []Effect) {
	at := slices.IndexFunc(s.held, func(h held) bool { return h.session == ev.Session })
	if at < 0 || s.held[at].suspect == ev.Suspect {
		return s, nil
	}
	s.held = slices.Clone(s.held)
	s.held[at].suspect = ev.Suspect
	return s.choose()
}

// lost lets go of a Session that has ended.
func (s State) lost(ev Lost) (State, []Effect) {
	class := s.Class(ev.Session)
	if class == NoClass {
		return s, nil
	}
	s = s.without(ev.Session)
	s, effects := s.choose()
	var more []Effect
	if class == Gateway {
		s, more = s.reopenGate(ev.Lived < steady, ev.Jitter)
	} else {
		s, more = s.lostPath(ev)
	}
	return s, append(effects, more...)
}

// choose uses the best Session, keeps one standby and retires the rest.
func (s State) choose() (State, []Effect) {
	best, standby := held{}, held{}
	for _, h := range s.held {
		if best.session == 0 || h.rank() > best.rank() {
			best = h
		}
	}
	for _, h := range s.held {
		if h.session != best.session && (standby.session == 0 || h.class == Gateway) {
			standby = h
		}
	}
	var effects []Effect
	if best.session != s.use {
		s.use = best.session
		effects = append(effects, Use{Session: best.session})
	}
	for i, h := range s.held {
		keep := h.session == best.session || h.session == standby.session
		if keep == !h.retired {
			continue
		}
		s.held = slices.Clone(s.held)
		s.held[i].retired = !keep
		if !keep {
			effects = append(effects, Retire{Session: h.session})
		}
	}
	return s, effects
}

// Retired tells whether a Session is to end when nothing uses it.
func (s State) Retired(session uint64) bool {
	return slices.ContainsFunc(s.held, func(h held) bool { return h.session == session && h.retired })
}

// Suspect tells whether a Session is under suspicion.
func (s State) Suspect(session uint64) bool {
	return slices.ContainsFunc(s.held, func(h held) bool { return h.session == session && h.suspect })
}

// Class is how a Session ranks, NoClass for one that is not held.
func (s State) Class(session uint64) Class {
	for _, h := range s.held {
		if h.session == session {
			return h.class
		}
	}
	return NoClass
}

func (s State) without(session uint64) State {
	s.held = slices.DeleteFunc(slices.Clone(s.held), func(h held) bool { return h.session == session })
	return s
}
