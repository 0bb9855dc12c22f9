package peer

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/control"
	"cadre.dev/overlay/internal/counters"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/measure"
	"cadre.dev/overlay/internal/peermap"
	"cadre.dev/overlay/internal/recertify"
	"cadre.dev/overlay/internal/search"
	"cadre.dev/overlay/internal/session"
)

// Shared is the state that all Peers of a node share. Constant; fields without a note are
// required.
type Shared struct {
	Self *peermap.Self
	// SelfVIP is where this machine's workloads listen; Listener opens offered ports.
	SelfVIP  netip.Addr
	Listener forward.Listener
	Log      *slog.Logger
	Counters *counters.Counters
	// Maker makes Sessions, Datagrams makes those over UDP. Field has the resources of path
	// searches. Datagrams and Field are nil on a node without a UDP socket or a finder.
	Maker     *session.Maker
	Datagrams *session.Datagrams
	Field     *search.Field
	// Certificates sends and accepts renewed certificates; Benches answers the benches of
	// Peers.
	Certificates *recertify.Exchanger
	Benches      *measure.Part
	Epochs       *Epochs
	// Launch runs f as one of wg; f's context ends when the function that Launch gives is
	// called, and with the node.
	Launch func(wg *sync.WaitGroup, f func(context.Context)) context.CancelFunc
	// Serve are the node's own services by port.
	Serve map[uint16]func(context.Context, peermap.Peer, net.Conn)
	// OnControl is given control connections; nil refuses them.
	OnControl func(context.Context, peermap.Peer, control.Conns)
	// Report receives each change of a path, and must return at once; may be nil.
	Report func(Change)
	// IdleTime is the time without use after which a Link on demand rests. DemandTime is
	// the time that data of apps waits for a Session.
	IdleTime, DemandTime time.Duration
	// HurryTime bounds the Peer's answer to a proposal of rest, while a local caller waits
	// for a Session.
	HurryTime time.Duration
	// Streams is how many streams one Peer may have open here.
	Streams int
}

// controls reports whether Sessions with p carry control connections.
func (s *Shared) controls(p peermap.Peer) bool { return s.OnControl != nil && s.Self.Controls(p) }

// Epochs remembers the highest epoch of all finished Links. The Peer remembers the epochs
// of our Boot longer than this side does, since this node may leave the Peer's map and come
// back. The zero value is ready; safe for concurrent use.
type Epochs struct{ highest atomic.Uint64 }

// raise notes the epoch of a Link that goes.
func (e *Epochs) raise(epoch uint64) {
	for old := e.highest.Load(); old < epoch && !e.highest.CompareAndSwap(old, epoch); old = e.highest.Load() {
	}
}

// base returns the number after which the epochs of a Link begin: the clock, or the highest
// epoch of any finished Link if the clock was set back. Clocks go on, mostly, also over
// restarts with the same key.
func (e *Epochs) base(now time.Time) uint64 {
	return max(uint64(max(now.UnixMicro(), 0)), e.highest.Load())
}
