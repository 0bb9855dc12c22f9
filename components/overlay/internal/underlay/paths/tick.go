package paths

import "time"

// never is later than any time.
const never = time.Duration(1<<63 - 1)

// Tick decides. Call it after every fact, and no later than Next. Carry out the effects
// in their order; the slice is valid until the next call.
func (s *State) Tick(now time.Duration) []Effect {
	s.effects = s.effects[:0]
	for i := 0; i < len(s.paths); i++ {
		p := s.paths[i]
		p.recount(now)
		if reason := expired(now, p); reason != "" {
			s.Remove(p.id)
			s.emit(Drop, p.id, reason)
			i--
			continue
		}
		if p.state == Up && !p.accepted {
			p.accepted = true
			s.emit(Accept, p.id, "")
		}
		if reason := s.silent(now, p); reason != "" {
			p.state, p.since = Quiet, now
			p.flaps++
			if p.id == s.inUse {
				s.emit(ReportQuiet, p.id, reason)
			}
		}
	}
	s.choose(now)
	racing := s.Racing(now)
	for _, p := range s.paths {
		if now >= p.due(now, p.id == s.inUse, racing && p.id != s.inUse) {
			s.emit(SendProbe, p.id, "")
		}
	}
	return s.effects
}

// Next is when Tick has to be called again at the latest, if no fact comes in.
func (s *State) Next(now time.Duration) time.Duration {
	next := never
	racing := s.Racing(now)
	for _, p := range s.paths {
		next = min(next, p.due(now, p.id == s.inUse, racing && p.id != s.inUse))
		if p.active(now) || p.suspect(now) {
			next = min(next, now+sample)
		} else if p.state == Up && p.unanswered > 0 {
			next = min(next, p.first+max(fast, p.srtt+4*p.variance)+1)
		}
		if p.better && p.state == Up {
			next = min(next, max(p.betterSince+lasting, s.rested()))
		}
	}
	return max(next, now)
}

// Racing reports whether an answer on the path in use is overdue, so that the State asks
// other paths as well.
func (s *State) Racing(now time.Duration) bool {
	p := s.find(s.inUse)
	return p != nil && (p.suspect(now) || p.state == Up && p.isWaiting && now-p.waiting > max(fast, p.roundTrip()))
}

// Doubtful reports whether datagrams that are sent now may have to be sent again, over
// another path or over the same path after its return.
func (s *State) Doubtful(now time.Duration) bool {
	p := s.find(s.inUse)
	return p != nil && (p.state == Quiet || s.Racing(now))
}

// expired returns why a path is dropped, "" if it is kept.
func expired(now time.Duration, p *path) Reason {
	switch {
	case p.state == Probing && now-p.added > consent:
		return ReasonNever
	case p.state != Probing && now-p.lastEcho > consent && p.unanswered > 0:
		return ReasonConsent
	}
	return ""
}

// silent returns why a path that is up counts as quiet from now on, "" if it does not. In
// addition to time, the rule requires probes without an answer: a process that was
// stopped itself has waited long without asking.
func (s *State) silent(now time.Duration, p *path) Reason {
	if p.state != Up {
		return ""
	}
	if p.isWaiting {
		patience, probes := max(silence, 3*fast+p.roundTrip()), 3
		if s.another(p) {
			patience, probes = max(silenceRaced, 2*fast+p.roundTrip()), 2
		}
		if p.probesSince >= probes && now-p.waiting >= patience {
			return ReasonSilent
		}
	}
	if p.unanswered >= oneWayProbes && now-p.lastEcho >= max(oneWay, 6*fast+2*p.roundTrip()) {
		return ReasonOneWay
	}
	return ""
}

// another reports whether some other path has answered since the wait for p began.
func (s *State) another(p *path) bool {
	for _, o := range s.paths {
		if o != p && o.state == Up && o.lastEcho > p.waiting {
			return true
		}
	}
	return false
}

func (s *State) emit(do Do, id ID, reason Reason) {
	s.effects = append(s.effects, Effect{Do: do, Path: id, Reason: reason})
}
