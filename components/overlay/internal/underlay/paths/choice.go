package paths

import "time"

const (
	// lasting is the time for which another path has to be clearly better before traffic
	// moves to it. resting is the least time between two such moves.
	lasting = 3 * time.Second
	resting = 10 * time.Second
	// trustAfter is how long a path that once went quiet has to be up before a
	// working one is left for it. Each further time doubles it, up to trustMost.
	trustAfter = 3 * time.Second
	trustMost  = time.Minute
)

// clearly reports whether a is better than b by enough to move: more than 20 % and more
// than 2 ms.
func clearly(a, b time.Duration) bool {
	return a != 0 && b-a > 2*time.Millisecond && b-a > b/5
}

// before orders the candidates when the path in use does not work: recently answered
// paths first, then direct ones, then the shorter round trip, then the older path.
func before(a, b *path, fresh time.Duration) bool {
	if af, bf := a.lastEcho >= fresh, b.lastEcho >= fresh; af != bf {
		return af
	}
	if a.kind != b.kind {
		return a.kind == Direct
	}
	if a.rtt() != b.rtt() {
		return a.rtt() < b.rtt()
	}
	return a.id < b.id
}

// choose keeps the path in use or takes another.
func (s *State) choose(now time.Duration) {
	current := s.find(s.inUse)
	best := s.best(current)
	switch {
	case best == nil && (current == nil || current.state == Probing):
		// Nothing is up. A quiet one is better than nothing: the outage may end.
		if last := s.lately(); last != nil {
			s.use(last, ReasonOnlyOne)
		} else {
			s.use(nil, ReasonRemoved)
		}
	case best == nil:
	case current == nil || current.state != Up:
		reason := ReasonFirst
		switch {
		case current != nil && current.state == Quiet:
			reason = ReasonQuiet
		case s.inUse != 0:
			reason = ReasonRemoved
		}
		s.use(best, reason)
	default:
		s.improve(now, current)
	}
	s.report()
}

// best returns the path to take when the path in use does not work, nil when no path is
// up.
func (s *State) best(current *path) *path {
	var best *path
	fresh := time.Duration(0)
	if current != nil && current.state == Quiet {
		// The others were asked when this one fell silent. A standby that answered since
		// is worth more than a path that may have died with this one.
		fresh = current.waiting
	}
	for _, p := range s.paths {
		if p.state == Up && (best == nil || before(p, best, fresh)) {
			best = p
		}
	}
	return best
}

// lately gives the quiet path that answered last, nil when there is none.
func (s *State) lately() *path {
	var last *path
	for _, p := range s.paths {
		if p.state == Quiet && (last == nil || p.lastEcho > last.lastEcho) {
			last = p
		}
	}
	return last
}

// improve leaves a path that works for a clearly and lastingly better one.
func (s *State) improve(now time.Duration, current *path) {
	for _, p := range s.paths {
		if p == current || p.state != Up || p.suspect(now) || !p.trusted(now) {
			p.better = false
			continue
		}
		if p.kind == Direct && current.kind == Relay {
			s.moved = now
			s.use(p, ReasonDirect)
			return
		}
		better := p.kind == current.kind && clearly(p.rtt(), current.rtt())
		if better && !p.better {
			p.betterSince = now
		}
		p.better = better
		if better && now-p.betterSince >= lasting && now >= s.rested() {
			s.moved = now
			s.use(p, ReasonFaster)
			return
		}
	}
}

// rested returns the time from which traffic may leave a working path for a faster one.
func (s *State) rested() time.Duration {
	if s.moved == 0 {
		return 0
	}
	return s.moved + resting
}

func (p *path) trusted(now time.Duration) bool {
	if p.flaps == 0 {
		return true
	}
	return now-p.since >= min(trustAfter<<min(p.flaps-1, 10), trustMost)
}

// use takes p, nil for none.
func (s *State) use(p *path, why Reason) {
	var id ID
	if p != nil {
		id = p.id
	}
	if id == s.inUse {
		return
	}
	s.inUse, s.why = id, why
	for _, o := range s.paths {
		o.better = false
	}
	s.emit(Use, id, why)
	if id != 0 && s.working {
		s.emit(ReportChanged, id, why)
	}
}

// report notifies the owner when the Link gained its first working path or lost its last.
func (s *State) report() {
	p := s.find(s.inUse)
	works := p != nil && p.state == Up
	if works == s.working {
		return
	}
	s.working = works
	if !works {
		reason := ReasonSilent
		if p == nil {
			reason = ReasonRemoved
		}
		s.emit(ReportGone, s.inUse, reason)
		return
	}
	if p.flaps > 0 && s.why == ReasonFirst {
		s.why = ReasonReturned
	}
	s.emit(ReportUp, s.inUse, s.why)
}
