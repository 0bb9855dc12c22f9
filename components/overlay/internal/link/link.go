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
	// Dialing: a try at the gateway or a search is under way.
	Dialing Phase = "dialing"
	// BackOff: the last try failed and a timer runs.
	BackOff Phase = "back-off"
	// Up: a Session is in use.
	Up Phase = "up"
	// Asleep: nobody wants a Session, and it is made when somebody does.
	Asleep Phase = "idle"
	// Over: the Link has ended, and nothing happens any more.
	Over Phase = "over"
)

// Class ranks Sessions by what they travel on; a greater one is preferred.
type Class int

const (
	// NoClass is that of no Session.
	NoClass Class = iota
	// Relay: datagrams through a TURN server.
	Relay
	// Gateway: a byte stream through the TLS pass-through gateway.
	Gateway
	// DirectUDP: datagrams between the two machines.
	DirectUDP
	// DirectTCP: a byte stream between the two machines, the fastest there is.
	DirectTCP
)

// String names the class as people see it.
func (c Class) String() string { return string(c.Kind()) }

// Direct tells that nobody else forwards.
func (c Class) Direct() bool { return c >= DirectUDP }

const (
	// backOffMin and backOffMax bound the wait between dials. Rollouts wait for
	// the first Session of a Boot, so both are short.
	backOffMin = 100 * time.Millisecond
	backOffMax = 2 * time.Second
	// refusedMax bounds it while the Peer refuses this Boot. A coordinator that has just
	// started knows nobody until it has read its records: asked by thousands every two
	// seconds it does nothing but handshakes, and gets no further (seen with 1,000).
	refusedMax = 15 * time.Second
	// steady is how long a Session must have lived for its loss to be answered
	// with an immediate dial. Less is a flap and backs off.
	steady = time.Second

	// callAfter is how long the side that does not dial gives the Peer to answer a nudge
	// before it goes through the gateway itself.
	callAfter = time.Second

	// findMin and findMax bound the wait after a search that found nothing direct.
	findMin = time.Second
	findMax = time.Minute
	// findHope is the longest wait after a rendezvous has come back.
	findHope = 2 * time.Second
	// improveMin and improveMax bound the wait for another try at DirectTCP while
	// DirectUDP works: most NATs that refuse once refuse for ever.
	improveMin = time.Minute
	improveMax = 10 * time.Minute
	// improveSoon is that wait after a search that was unlucky, once.
	improveSoon = time.Second
	// findSteady is how long a direct Session must have lived for the next search
	// to begin at once: a path that comes and goes is not run after.
	findSteady = 10 * time.Second
)

var (
	// ErrReplaced closes a Session that a newer one takes over from.
	ErrReplaced = errors.New("replaced by a newer session")
	// ErrRevoked closes the Session of a Boot that the peer map no longer names
	// (PEER_REVOKED).
	ErrRevoked = errors.New("boot is no longer admitted")
	// ErrIdle closes the Sessions of a Link that nobody uses.
	ErrIdle = errors.New("nobody uses the link")
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
	// Finds tells that this node can look for paths.
	Finds bool
	// OnDemand tells that there is no Session while nobody wants one. Calls tells that the
	// side that does not dial may, since the Peer may see this Link as one on demand.
	OnDemand, Calls bool
	// Epoch is what the epochs of this side's searches begin after. It must be above
	// those of earlier Links of this Boot with the Peer, who ignores old ones (OVL-03).
	Epoch uint64
}

// Admits tells whether a Session of boot may be used.
func (f Facts) Admits(boot string) bool {
	if f.Boot == "" {
		return f.AnyBoot && boot != ""
	}
	return boot == f.Boot
}

// named tells whether there is a Boot to talk to.
func (f Facts) named() bool { return f.Boot != "" || f.AnyBoot }

// findable tells whether paths can be looked for.
func (f Facts) findable() bool { return f.Finds && f.named() }

// Event is something that happened.
type Event interface{ event() }

type (
	// Changed brings new facts, or the first ones.
	Changed struct{ Facts Facts }
	// Connected brings a Session whose peer has been authenticated. Try is
	// that of the Dial it came from, 0 for every other. Stray: it was made by the side
	// that does not dial.
	Connected struct {
		Session uint64
		Boot    string
		Class   Class
		Stray   bool
		Try     uint64
	}
	// Moved tells that a Session's datagrams travel on a path of another class.
	Moved struct {
		Session uint64
		Class   Class
	}
	// Suspected tells that nothing comes over a Session although something should,
	// or that it does again.
	Suspected struct {
		Session uint64
		Suspect bool
	}
	// Failed ends a Dial without a Session. Refused: the Peer is there and does not take this
	// Boot. Jitter in [0,1) spreads the wait.
	Failed struct {
		Try     uint64
		Refused bool
		Jitter  float64
	}
	// Lost tells that a Session has ended, after living for Lived.
	Lost struct {
		Session uint64
		Lived   time.Duration
		Jitter  float64
	}
	// Timer tells that the Arm of this try has run out.
	Timer struct{ Try uint64 }
	// Offered tells that the Peer, as Boot, began the search of this epoch.
	Offered struct {
		Epoch uint64
		Boot  string
	}
	// Nudged tells that the Peer, as Boot, asks for a search. Unsaid: the running
	// one has not reached the Peer yet, so it is what is asked for.
	Nudged struct {
		Boot   string
		Unsaid bool
	}
	// Quiet tells that a path in use carries nothing any more.
	Quiet struct{}
	// Hoped tells that looking may go better now: a rendezvous is back.
	Hoped struct{ Jitter float64 }
	// FindEnded ends a search, whatever it found. Unlucky: lost packets alone may be
	// why it found no DirectTCP.
	FindEnded struct {
		Epoch   uint64
		Jitter  float64
		Unlucky bool
	}
	// FindTimer tells that the ArmFind of this number has run out.
	FindTimer struct{ Number uint64 }
	// Ended ends the Link and its Sessions; nothing that comes after it counts.
	Ended struct{ Reason error }
)

// Effect is something to do, in the order given.
type Effect interface{ effect() }

type (
	// Dial tries Instance, expecting Boot unless it is "".
	Dial struct {
		Try            uint64
		Instance, Boot string
	}
	// Cancel abandons the running dial and its timer.
	Cancel struct{}
	// Arm asks for a Timer of this try.
	Arm struct {
		Try   uint64
		After time.Duration
	}
	// Use makes a Session the one that streams are opened on; 0 is none.
	Use struct{ Session uint64 }
	// Close ends a Session.
	Close struct {
		Session uint64
		Reason  error
	}
	// Retire ends a Session as soon as no stream uses it.
	Retire struct{ Session uint64 }
	// Find begins the search of an epoch and abandons the one before. Boot is the
	// Peer's, "" when any is meant.
	Find struct {
		Epoch       uint64
		Controlling bool
		Boot        string
	}
	// StopFind abandons the running search and its timer.
	StopFind struct{}
	// ArmFind asks for a FindTimer with this number.
	ArmFind struct {
		Number uint64
		After  time.Duration
	}
	// Nudge asks the Peer for a search.
	Nudge struct{}
	// Redial makes a Session with Boot over a datagram path that still works, if there
	// is one: what ended the last need not have been the path.
	Redial struct{ Boot string }
)

func (Changed) event()   {}
func (Connected) event() {}
func (Moved) event()     {}
func (Suspected) event() {}
func (Failed) event()    {}
func (Lost) event()      {}
func (Timer) event()     {}
func (Offered) event()   {}
func (Nudged) event()    {}
func (Quiet) event()     {}
func (Hoped) event()     {}
func (FindEnded) event() {}
func (FindTimer) event() {}
func (Ended) event()     {}

func (Dial) effect()     {}
func (Cancel) effect()   {}
func (Arm) effect()      {}
func (Use) effect()      {}
func (Close) effect()    {}
func (Retire) effect()   {}
func (Find) effect()     {}
func (StopFind) effect() {}
func (ArmFind) effect()  {}
func (Nudge) effect()    {}
func (Redial) effect()   {}
