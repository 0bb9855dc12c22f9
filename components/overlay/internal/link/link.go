package link

import (
	"errors"
	"time"
)

// Phase is the state of a Link.
type Phase string

const (
	// Absent: the Link has no Peer to reach. The zero State behaves so.
	Absent Phase = "absent"
	// Awaited: the Peer dials, and has not yet.
	Awaited Phase = "awaited"
	// Dialing: a try at the gateway or a search is under way.
	Dialing Phase = "dialing"
	// BackOff: the last try failed and a timer runs.
	BackOff Phase = "back-off"
	// Up: a Session is in use.
	Up Phase = "up"
	// Asleep: no connection needs a Session; the next connection wakes the Link.
	Asleep Phase = "idle"
	// Over: the Link has ended, and nothing happens any more.
	Over Phase = "over"
)

// Class ranks Sessions by their transport; the Link prefers the greater class.
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

// Direct reports whether packets reach the Peer without a forwarder.
func (c Class) Direct() bool { return c >= DirectUDP }

const (
	// backOffMin and backOffMax bound the wait between dials. Rollouts wait for
	// the first Session of a Boot, so both are short.
	backOffMin = 100 * time.Millisecond
	backOffMax = 2 * time.Second
	// refusedMax bounds the wait while a coordinator refuses this Boot. A coordinator that
	// has just started knows no Boot until it has read its records. With 1,000 members that
	// retried every two seconds, such a coordinator did nothing except handshakes. The time
	// that coordinators wait for live agents before they count them as gone depends on this
	// bound.
	refusedMax = 5 * time.Second
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
	// improveMin and improveMax bound the wait for another try at DirectTCP while DirectUDP
	// works: a NAT that refuses once usually refuses always.
	improveMin = time.Minute
	improveMax = 10 * time.Minute
	// improveSoon is that wait after a search that only packet loss ended, once.
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
	// ErrIdle closes the Sessions of an unused Link.
	ErrIdle = errors.New("the link is unused")
	// ErrMoved closes the Session of an Instance that the Peer has left.
	ErrMoved = errors.New("peer has another instance")
)

// Facts are the peer map's entry of the Peer.
type Facts struct {
	// Dials: this side opens the Sessions.
	Dials bool
	// Boot is the admitted Boot; "" for none, or for any when AnyBoot.
	Boot string
	// AnyBoot admits every Boot with a certificate of the cluster CA while Boot is "".
	AnyBoot bool
	// Instance is where to dial, "" for nowhere.
	Instance string
	// Finds: this node can search for paths.
	Finds bool
	// OnDemand: the Link has a Session only while a connection needs one. Calls: the side
	// that does not dial may dial, since the Peer may see this Link as OnDemand.
	OnDemand, Calls bool
	// Epoch is the number after which this side's search epochs begin. Epoch must be above
	// those of this Boot's earlier Links with the Peer, because the Peer ignores old epochs
	// (OVL-03).
	Epoch uint64
}

// Admits reports whether a Session of boot may be used.
func (f Facts) Admits(boot string) bool {
	if f.Boot == "" {
		return f.AnyBoot && boot != ""
	}
	return boot == f.Boot
}

// named reports whether the facts name a Boot to connect to.
func (f Facts) named() bool { return f.Boot != "" || f.AnyBoot }

// findable reports whether the node can search for paths to the Peer.
func (f Facts) findable() bool { return f.Finds && f.named() }

// Event is something that happened.
type Event interface{ event() }

type (
	// Changed brings new facts, or the first ones.
	Changed struct{ Facts Facts }
	// Connected adds an authenticated Session. Try is the number of the Dial that made the
	// Session, 0 for any other origin. Stray: the side that does not dial made the Session.
	Connected struct {
		Session uint64
		Boot    string
		Class   Class
		Stray   bool
		Try     uint64
	}
	// Moved reports that a Session's datagrams now travel on a path of another class.
	Moved struct {
		Session uint64
		Class   Class
	}
	// Suspected reports that a Session is silent although traffic is due, or that the Session
	// receives again.
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
	// Lost reports the end of a Session that lived for Lived.
	Lost struct {
		Session uint64
		Lived   time.Duration
		Jitter  float64
	}
	// Timer reports that the Arm of this try expired.
	Timer struct{ Try uint64 }
	// Offered reports that the Peer, as Boot, began the search of this epoch.
	Offered struct {
		Epoch uint64
		Boot  string
	}
	// Nudged reports that the Peer, as Boot, asks for a search. Undelivered: the running search
	// has not reached the Peer yet, so that search is the answer.
	Nudged struct {
		Boot        string
		Undelivered bool
	}
	// Quiet reports that a path in use carries nothing any more.
	Quiet struct{}
	// RendezvousUp reports that a search may succeed now: a rendezvous is reachable again.
	RendezvousUp struct{ Jitter float64 }
	// FindEnded ends a search, with or without a result. LossOnly: packet loss alone may
	// explain the missing DirectTCP.
	FindEnded struct {
		Epoch    uint64
		Jitter   float64
		LossOnly bool
	}
	// FindTimer reports that the ArmFind of this number expired.
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
	// Use selects the Session for new streams; 0 selects none.
	Use struct{ Session uint64 }
	// Close ends a Session.
	Close struct {
		Session uint64
		Reason  error
	}
	// Retire ends a Session as soon as no stream uses it.
	Retire struct{ Session uint64 }
	// Find begins the search of an epoch and abandons the previous search. Boot is the
	// Peer's; "" accepts any Boot.
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
	// Redial makes a Session with Boot over a datagram path that still works, if one exists:
	// the path may have survived the last Session.
	Redial struct{ Boot string }
)

func (Changed) event()      {}
func (Connected) event()    {}
func (Moved) event()        {}
func (Suspected) event()    {}
func (Failed) event()       {}
func (Lost) event()         {}
func (Timer) event()        {}
func (Offered) event()      {}
func (Nudged) event()       {}
func (Quiet) event()        {}
func (RendezvousUp) event() {}
func (FindEnded) event()    {}
func (FindTimer) event()    {}
func (Ended) event()        {}

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
