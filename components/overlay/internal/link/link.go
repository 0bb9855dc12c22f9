package link

import (
	"errors"
	"time"
)

// Phase tells where a Link stands.
type Phase string

const (
	// Absent: there is nobody to reach. The zero State behaves so.
	Absent Phase = "absent"
	// Awaited: the Peer dials, and has not yet.
	Awaited Phase = "awaited"
	// Dialing: an attempt is under way.
	Dialing Phase = "dialing"
	// BackOff: the last attempt failed and a timer runs.
	BackOff Phase = "back-off"
	// Up: a Session is in use.
	Up Phase = "up"
)

const (
	// backOffMin and backOffMax bound the wait between attempts. Rollouts wait
	// for the first Session of a Boot, so both are short.
	backOffMin = 100 * time.Millisecond
	backOffMax = 2 * time.Second
	// steady is how long a Session must have lived for its loss to be answered
	// with an immediate attempt. Less is a flap and backs off.
	steady = time.Second
)

var (
	// ErrReplaced closes a Session that a newer one takes over from.
	ErrReplaced = errors.New("replaced by a newer session")
	// ErrRevoked closes the Session of a Boot that the peer map no longer names.
	ErrRevoked = errors.New("boot is no longer admitted")
	// ErrMoved closes the Session of an Instance that the Peer has left.
	ErrMoved = errors.New("peer has another instance")
)

// Facts are what the peer map says about the Peer.
type Facts struct {
	// Dials tells that this side opens Sessions.
	Dials bool
	// Boot is the admitted Boot; "" for none, or for any when AnyBoot.
	Boot string
	// AnyBoot admits whatever Boot the cluster CA vouches for while Boot is "".
	AnyBoot bool
	// Instance is where to dial, "" for nowhere.
	Instance string
}

// Admits tells whether a Session of boot may be used.
func (f Facts) Admits(boot string) bool {
	if f.Boot == "" {
		return f.AnyBoot && boot != ""
	}
	return boot == f.Boot
}

// reachable tells whether dialing makes sense.
func (f Facts) reachable() bool { return f.Instance != "" && (f.Boot != "" || f.AnyBoot) }

// Event is something that happened.
type Event interface{ event() }

type (
	// Changed brings new facts, or the first ones.
	Changed struct{ Facts Facts }
	// Connected brings a Session whose peer has been authenticated. Attempt is
	// that of the Dial it came from, 0 for one that the Peer opened.
	Connected struct {
		Session uint64
		Boot    string
		Attempt uint64
	}
	// Failed ends a Dial without a Session. Jitter in [0,1) spreads the wait.
	Failed struct {
		Attempt uint64
		Jitter  float64
	}
	// Lost tells that a Session has ended, after living for Lived.
	Lost struct {
		Session uint64
		Lived   time.Duration
		Jitter  float64
	}
	// Timer tells that the Arm of this attempt has run out.
	Timer struct{ Attempt uint64 }
)

// Effect is something to do, in the order given.
type Effect interface{ effect() }

type (
	// Dial starts an attempt at Instance, expecting Boot unless it is "".
	Dial struct {
		Attempt        uint64
		Instance, Boot string
	}
	// Cancel abandons the running attempt and any timer.
	Cancel struct{}
	// Arm asks for a Timer with this attempt.
	Arm struct {
		Attempt uint64
		After   time.Duration
	}
	// Use makes a Session the one that streams are opened on.
	Use struct{ Session uint64 }
	// Close ends a Session.
	Close struct {
		Session uint64
		Reason  error
	}
)

// State is one Link. Its zero value knows no facts.
type State struct {
	Phase Phase
	facts Facts
	// session and boot describe the Session in use when Up.
	session uint64
	boot    string
	// attempt numbers dials and timers; older ones are ignored.
	attempt uint64
	// backOff is the wait after the next failure, 0 for the least.
	backOff time.Duration
}

// Facts gives what the Link last heard of its Peer.
func (s State) Facts() Facts { return s.facts }

// Step is the whole machine.
func (s State) Step(ev Event) (State, []Effect) {
	switch ev := ev.(type) {
	case Changed:
		return s.changed(ev.Facts)
	case Connected:
		return s.connected(ev)
	case Failed:
		if s.Phase != Dialing || ev.Attempt != s.attempt {
			return s, nil
		}
		return s.wait(ev.Jitter)
	case Lost:
		if s.Phase != Up || ev.Session != s.session {
			return s, nil
		}
		s.session, s.boot = 0, ""
		if s.facts.Dials && s.facts.reachable() && ev.Lived < steady {
			return s.wait(ev.Jitter)
		}
		s.backOff = 0
		return s.seek()
	case Timer:
		if s.Phase != BackOff || ev.Attempt != s.attempt {
			return s, nil
		}
		return s.seek()
	}
	return s, nil
}

// changed answers new facts. An attempt or a wait begun under other facts is
// of no use: start again at once.
func (s State) changed(f Facts) (State, []Effect) {
	old := s.facts
	s.facts = f
	if s.Phase == Up {
		reason := error(nil)
		switch {
		case !f.Admits(s.boot):
			reason = ErrRevoked
		case f.Dials && f.Instance != old.Instance:
			reason = ErrMoved
		default:
			return s, nil
		}
		closing := Close{Session: s.session, Reason: reason}
		s.session, s.boot, s.backOff = 0, "", 0
		s, effects := s.seek()
		return s, append([]Effect{closing}, effects...)
	}
	if s.Phase != "" && f == old {
		return s, nil
	}
	s.backOff = 0
	return s.seek()
}

// connected takes a new Session, or refuses it.
func (s State) connected(ev Connected) (State, []Effect) {
	switch {
	case ev.Attempt != 0 && (s.Phase != Dialing || ev.Attempt != s.attempt):
		return s, []Effect{Close{Session: ev.Session, Reason: ErrReplaced}}
	case !s.facts.Admits(ev.Boot):
		return s, []Effect{Close{Session: ev.Session, Reason: ErrRevoked}}
	}
	var effects []Effect
	if s.Phase == Up {
		effects = append(effects, Close{Session: s.session, Reason: ErrReplaced})
	} else if ev.Attempt == 0 {
		effects = append(effects, Cancel{})
	}
	s.Phase, s.session, s.boot = Up, ev.Session, ev.Boot
	s.attempt++ // whatever was under way is stale now
	return s, append(effects, Use{Session: ev.Session})
}

// seek goes after a Session from any Phase but Up.
func (s State) seek() (State, []Effect) {
	effects := []Effect{Cancel{}}
	s.attempt++
	switch {
	case !s.facts.Dials && s.facts.admitsAny():
		s.Phase = Awaited
	case s.facts.Dials && s.facts.reachable():
		s.Phase = Dialing
		effects = append(effects, Dial{Attempt: s.attempt, Instance: s.facts.Instance, Boot: s.facts.Boot})
	default:
		s.Phase = Absent
	}
	return s, effects
}

// admitsAny tells whether there is a Boot to wait for.
func (f Facts) admitsAny() bool { return f.Boot != "" || f.AnyBoot }

// wait backs off: twice as long each time, a random part of it at least half.
func (s State) wait(jitter float64) (State, []Effect) {
	s.backOff = min(max(2*s.backOff, backOffMin), backOffMax)
	s.Phase = BackOff
	s.attempt++
	after := s.backOff/2 + time.Duration(jitter*float64(s.backOff/2))
	return s, []Effect{Cancel{}, Arm{Attempt: s.attempt, After: after}}
}

func (Changed) event()   {}
func (Connected) event() {}
func (Failed) event()    {}
func (Lost) event()      {}
func (Timer) event()     {}

func (Dial) effect()   {}
func (Cancel) effect() {}
func (Arm) effect()    {}
func (Use) effect()    {}
func (Close) effect()  {}
