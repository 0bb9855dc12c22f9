package envoy

import (
	"fmt"
	"time"
)

const (
	// askFirst and askMost pace the probes while an Envoy starts, askLate when the start takes
	// long, askLive when it is live: the kernel reports its end, without a probe.
	askFirst = 25 * time.Millisecond
	askMost  = 500 * time.Millisecond
	askLate  = 2 * time.Second
	askLive  = 15 * time.Second
	// late is when a start is assumed to wait for a dependency.
	late = 5 * time.Second
	// silentFor is for how long one may leave questions without an answer. It has its
	// connections meanwhile, and a machine that is short of processors is not helped by
	// another start.
	silentFor = time.Minute
)

// seen is an Envoy's answer at one time.
type seen struct {
	at       time.Time
	answered bool
	// ready is its readiness word: LIVE, DRAINING, INITIALIZING, PRE_INITIALIZING.
	ready string
	// listeners that it has, and whether it has its stream to a coordinator.
	listeners int
	connected bool
	// Updates of its configuration that it took and refused.
	accepted, refused int
}

// opinion is the current judgement of an Envoy.
type opinion struct {
	state   State
	message string
	// began is when it was started or taken over, heard when it last answered.
	began, heard time.Time
	// asked counts the questions since it began.
	asked int
	// refused as last seen, and accepted when that last grew; stale: none was accepted since.
	refused, accepted int
	stale             bool
	// hopeless: it is to be killed.
	hopeless bool
}

func begin(now time.Time) opinion {
	return opinion{state: StateStarting, began: now, heard: now}
}

// judge derives the next opinion from s.
func (o opinion) judge(s seen) opinion {
	o.asked++
	if !s.answered {
		silent := s.at.Sub(o.heard)
		if o.hopeless = silent >= silentFor; o.hopeless || silent >= late {
			o.message = fmt.Sprintf("no answer at its admin socket for %v", silent.Round(time.Second))
		}
		return o
	}
	o.heard = s.at
	if s.refused > o.refused {
		o.stale, o.accepted = true, s.accepted
	} else if s.accepted > o.accepted {
		o.stale = false
	}
	o.refused = s.refused
	o.message = ""
	switch {
	case s.ready == "DRAINING":
		o.state = StateDraining
	case s.ready == "LIVE" && s.listeners > 0:
		o.state = StateLive
		if !s.connected {
			o.message = "no connection to a coordinator: it goes on with the configuration that it has"
		}
	default:
		o.state = StateStarting
		if s.at.Sub(o.began) >= late {
			o.message = "it waits for its configuration from a coordinator"
		}
	}
	if o.stale {
		o.message = "it refused a part of the last configuration, see its lines in the log"
	}
	return o
}

// next is how long to wait before the next question.
func (o opinion) next() time.Duration {
	switch {
	case o.state == StateLive || o.state == StateDraining:
		return askLive
	case o.heard.Sub(o.began) >= late:
		return askLate
	}
	return min(askFirst<<min(o.asked, 16), askMost)
}
