package link

import "time"

// find is the search for paths.
type find struct {
	running bool
	// armed: a timer runs; waiting: it is a back-off, not the wait for an improvement.
	armed, waiting bool
	// wished: another search was asked for while one ran; died: because a path did.
	wished, died bool
	// epoch is that of the last search; boot is the Peer's Boot that it counts for.
	epoch uint64
	boot  string
	// number is that of the armed timer; older ones are ignored.
	number uint64
	// backOff and improve are the next waits, 0 for the least.
	backOff, improve time.Duration
}

// restartFind restarts the search after facts about the Peer's identity changed.
func (s State) restartFind() (State, []Effect) {
	var effects []Effect
	if s.find.running || s.find.armed {
		effects = append(effects, StopFind{})
	}
	// The numbers continue, so that a timer or a search with an old number stays stale.
	s.find = find{epoch: s.find.epoch, boot: s.find.boot, number: s.find.number}
	if !s.findable() {
		return s, effects
	}
	if !s.facts.Dials {
		return s, append(effects, Nudge{})
	}
	s, more := s.startFind()
	return s, append(effects, more...)
}

// startFind begins a search; only the dialing side does.
func (s State) startFind() (State, []Effect) {
	f := s.find
	f.running, f.armed, f.waiting, f.wished, f.died = true, false, false, false, false
	f.epoch = max(f.epoch, s.facts.Epoch) + 1
	s.find = f
	return s, []Effect{Find{Epoch: f.epoch, Controlling: true, Boot: s.facts.Boot}}
}

// wishFind wants a search soon. A back-off is kept, unless the Peer asks.
func (s State) wishFind(patient bool) (State, []Effect) {
	_, best := s.InUse()
	switch {
	case !s.findable(), patient && best == DirectTCP:
		return s, nil
	case s.find.running:
		// Another search follows only where this one may have missed the class that is
		// asked for.
		s.find.wished = s.find.wished || best != DirectTCP
		s.find.died = s.find.died || patient
		return s, nil
	case !s.facts.Dials:
		return s, []Effect{Nudge{}}
	case s.find.waiting && patient:
		return s, nil
	}
	return s.startFind()
}

// lostPath follows the loss of a Session that a search had found. A search takes
// seconds where its messages are slow; a path that still works is used meanwhile.
func (s State) lostPath(ev Lost) (State, []Effect) {
	var effects []Effect
	if s.redials(ev.Lived) {
		effects = append(effects, Redial{Boot: s.facts.Boot})
	}
	s, more := s.searchAfter(ev)
	return s, append(effects, more...)
}

// redials reports whether another Session over the path of the lost Session makes sense.
// After a short-lived Session, the Link redials only without an alternative and outside
// of a back-off. Otherwise new streams would break with that path again and again.
func (s State) redials(lived time.Duration) bool {
	if !s.facts.Dials || !s.findable() {
		return false
	}
	_, best := s.InUse()
	if lived >= findSteady {
		return best < DirectUDP
	}
	return lived >= steady && best == NoClass && !s.find.waiting
}

func (s State) searchAfter(ev Lost) (State, []Effect) {
	if ev.Lived >= findSteady || !s.facts.Dials || s.find.running {
		return s.wishFind(true)
	}
	if !s.findable() || s.find.waiting {
		return s, nil
	}
	return s.waitFind(ev.Jitter)
}

// offered follows the Peer into a search, unless it is an old one.
func (s State) offered(ev Offered) (State, []Effect) {
	if s.facts.Dials || !s.facts.findable() || !s.facts.Admits(ev.Boot) {
		return s, nil
	}
	if ev.Boot != s.find.boot {
		s.find.boot, s.find.epoch = ev.Boot, 0
	}
	if ev.Epoch <= s.find.epoch {
		return s, nil
	}
	s.wanted, s.recalled = true, s.Asking()
	s.find.epoch, s.find.running = ev.Epoch, true
	return s, []Effect{Find{Epoch: ev.Epoch, Boot: ev.Boot}}
}

// nudged: the Peer has just come up, or its path has died.
func (s State) nudged(ev Nudged) (State, []Effect) {
	if !s.facts.Dials || !s.facts.Admits(ev.Boot) {
		return s, nil
	}
	var effects []Effect
	asleep := !s.Awake()
	s.wanted, s.recalled = true, s.Asking()
	if asleep || s.gateway.waiting {
		s, effects = s.dialGateway(true)
	}
	if s.find.running && ev.Undelivered {
		return s, effects
	}
	s, more := s.wishFind(false)
	return s, append(effects, more...)
}

// findEnded decides when to look again. The Peer's side has nothing to decide.
func (s State) findEnded(ev FindEnded) (State, []Effect) {
	if !s.find.running || ev.Epoch != s.find.epoch {
		return s, nil
	}
	s.find.running = false
	if !s.facts.Dials {
		return s, nil
	}
	_, best := s.InUse()
	switch {
	case best == DirectTCP && !s.find.wished:
		s.find.backOff, s.find.improve = 0, 0
		return s, nil
	case best == DirectUDP && !s.find.wished:
		s.find.backOff = 0
		if ev.LossOnly && s.find.improve == 0 {
			s.find.improve = improveSoon
		} else {
			s.find.improve = min(max(2*s.find.improve, improveMin), improveMax)
		}
		return s.armFind(s.find.improve)
	case s.find.died && s.find.backOff == 0:
		// The next one waits again.
		s.find.backOff = findMin
		return s.startFind()
	}
	return s.waitFind(ev.Jitter)
}

// waitFind backs off, as waitForGateway does.
func (s State) waitFind(jitter float64) (State, []Effect) {
	s.find.backOff = min(max(2*s.find.backOff, findMin), findMax)
	s.find.waiting = true
	return s.armFind(s.find.backOff/2 + time.Duration(jitter*float64(s.find.backOff/2)))
}

func (s State) armFind(after time.Duration) (State, []Effect) {
	s.find.number++
	s.find.armed = true
	return s, []Effect{ArmFind{Number: s.find.number, After: after}}
}

func (s State) findTimer(ev FindTimer) (State, []Effect) {
	if !s.find.armed || ev.Number != s.find.number {
		return s, nil
	}
	s.find.armed, s.find.waiting = false, false
	if _, best := s.InUse(); best == DirectTCP && !s.find.wished || !s.findable() || !s.facts.Dials {
		return s, nil
	}
	return s.startFind()
}
