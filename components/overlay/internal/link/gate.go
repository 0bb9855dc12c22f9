package link

import "time"

// gate is the dialing side's state of the Session through the gateway.
type gate struct {
	dialing, waiting bool
	// try numbers dials and timers; older ones are ignored.
	try uint64
	// backOff is the wait after the next failure, 0 for the least.
	backOff time.Duration
}

// stopped ends dialing and waiting, and makes a dial that is under way stale.
func (g gate) stopped() gate {
	g.dialing, g.waiting = false, false
	g.try++
	return g
}

// holdsGate reports whether a Session through the gateway lives.
func (s State) holdsGate() bool {
	for _, h := range s.held {
		if h.class == Gateway {
			return true
		}
	}
	return false
}

// openGate dials the gateway when a Session is wanted and missing; restart drops a dial that
// is under way.
func (s State) openGate(anew bool) (State, []Effect) {
	if s.holdsGate() || !anew && (s.gate.dialing || s.gate.waiting) {
		return s, nil
	}
	if anew {
		s.gate.backOff = 0
	}
	s.gate = s.gate.stopped()
	effects := []Effect{Cancel{}}
	if s.reachable() {
		s.gate.dialing = true
		effects = append(effects, Dial{Try: s.gate.try, Instance: s.facts.Instance, Boot: s.facts.Boot})
	}
	return s, effects
}

// reopenGate reacts to the loss of a Session; a flapping Session waits for its back-off.
func (s State) reopenGate(flap bool, jitter float64) (State, []Effect) {
	if !s.reachable() {
		return s, nil
	}
	if flap {
		return s.waitGate(jitter, backOffMax)
	}
	return s.openGate(true)
}

func (s State) failed(ev Failed) (State, []Effect) {
	if !s.gate.dialing || ev.Try != s.gate.try {
		return s, nil
	}
	if ev.Refused && s.facts.AnyBoot {
		return s.waitGate(ev.Jitter, refusedMax)
	}
	return s.waitGate(ev.Jitter, backOffMax)
}

// waitGate backs off: twice as long each time up to most, a random part of it at least half.
func (s State) waitGate(jitter float64, most time.Duration) (State, []Effect) {
	g := s.gate.stopped()
	g.backOff = min(max(2*g.backOff, backOffMin), most)
	g.waiting = true
	s.gate = g
	after := g.backOff/2 + time.Duration(jitter*float64(g.backOff/2))
	return s, []Effect{Cancel{}, Arm{Try: g.try, After: after}}
}

func (s State) timer(ev Timer) (State, []Effect) {
	if !s.gate.waiting || ev.Try != s.gate.try {
		return s, nil
	}
	s.gate.waiting = false
	return s.openGate(false)
}
