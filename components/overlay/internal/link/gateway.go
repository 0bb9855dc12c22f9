package link

import "time"

// gatewayDialer is the dialing side's state of the Session through the gateway.
type gatewayDialer struct {
	dialing, waiting bool
	// try numbers dials and timers; older ones are ignored.
	try uint64
	// backOff is the wait after the next failure, 0 for the least.
	backOff time.Duration
}

// stopped ends dialing and waiting, and makes a dial that is under way stale.
func (g gatewayDialer) stopped() gatewayDialer {
	g.dialing, g.waiting = false, false
	g.try++
	return g
}

// hasGatewaySession reports whether a Session through the gateway lives.
func (s State) hasGatewaySession() bool {
	for _, h := range s.sessions {
		if h.class == Gateway {
			return true
		}
	}
	return false
}

// dialGateway dials the gateway when a Session is wanted and missing; restart drops a dial that
// is under way.
func (s State) dialGateway(restart bool) (State, []Effect) {
	if s.hasGatewaySession() || !restart && (s.gateway.dialing || s.gateway.waiting) {
		return s, nil
	}
	if restart {
		s.gateway.backOff = 0
	}
	s.gateway = s.gateway.stopped()
	effects := []Effect{Cancel{}}
	if s.reachable() {
		s.gateway.dialing = true
		effects = append(effects, Dial{Try: s.gateway.try, Instance: s.facts.Instance, Boot: s.facts.Boot})
	}
	return s, effects
}

// redialGateway reacts to the loss of a Session; a flapping Session waits for its back-off.
func (s State) redialGateway(flap bool, jitter float64) (State, []Effect) {
	if !s.reachable() {
		return s, nil
	}
	if flap {
		return s.waitForGateway(jitter, backOffMax)
	}
	return s.dialGateway(true)
}

func (s State) failed(ev Failed) (State, []Effect) {
	if !s.gateway.dialing || ev.Try != s.gateway.try {
		return s, nil
	}
	if ev.Refused && s.facts.AnyBoot {
		return s.waitForGateway(ev.Jitter, refusedMax)
	}
	return s.waitForGateway(ev.Jitter, backOffMax)
}

// waitForGateway backs off: twice as long each time up to most, a random part of it at least half.
func (s State) waitForGateway(jitter float64, most time.Duration) (State, []Effect) {
	g := s.gateway.stopped()
	g.backOff = min(max(2*g.backOff, backOffMin), most)
	g.waiting = true
	s.gateway = g
	after := g.backOff/2 + time.Duration(jitter*float64(g.backOff/2))
	return s, []Effect{Cancel{}, Arm{Try: g.try, After: after}}
}

func (s State) timer(ev Timer) (State, []Effect) {
	if !s.gateway.waiting || ev.Try != s.gateway.try {
		return s, nil
	}
	s.gateway.waiting = false
	return s.dialGateway(false)
}
