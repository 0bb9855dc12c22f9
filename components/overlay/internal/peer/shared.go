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

// Shared is what all Peers of a node have in common. Constant; fields without a note are
// required.
type Shared struct {
	Self *peermap.Self
	// SelfVIP is where this machine's workloads listen; Listener opens offered ports.
	SelfVIP  netip.Addr
	Listener forward.Listener
	Log      *slog.Logger
	Tally    *counters.Tally
	// Maker makes Sessions, Datagrams those over UDP. Field is what paths are looked for
	// with. The latter two are nil where none are.
	Maker     *session.Maker
	Datagrams *session.Datagrams
	Field     *search.Field
	// Certificates shows and takes renewed ones; Benches takes part in those of Peers.
	Certificates *recertify.Desk
	Benches      *measure.Part
	Epochs       *Epochs
	// Launch runs f as one of wg; f's context ends when the function that Launch gives is
	// called, and with the node.
	Launch func(wg *sync.WaitGroup, f func(context.Context)) context.CancelFunc
	// Serve are the node's own services by port.
	Serve map[uint16]func(context.Context, peermap.Peer, net.Conn)
	// OnControl is given control connections; nil refuses them.
	OnControl func(context.Context, peermap.Peer, control.Conns)
	// Tell is told of each change of a path, and does not wait; may be nil.
	Tell func(Change)
	// IdleTime is how long a Link on demand may be unused, DemandTime how long what apps
	// send waits for it.
	IdleTime, DemandTime time.Duration
	// HurryTime bounds the Peer's answer to a proposal of rest, while somebody waits for a
	// Session.
	HurryTime time.Duration
	// Streams is how many streams one Peer may have open here.
	Streams int
}

// controls tells whether Sessions with p carry control connections.
func (s *Shared) controls(p peermap.Peer) bool { return s.OnControl != nil && s.Self.Controls(p) }

// Epochs remembers the highest epoch of any Link that is gone: the Peer remembers the
// epochs of our Boot longer than we do, who may leave its map and come back. The zero value
// is ready; safe for concurrent use.
type Epochs struct{ highest atomic.Uint64 }

// raise notes the epoch of a Link that goes.
func (e *Epochs) raise(epoch uint64) {
	for old := e.highest.Load(); old < epoch && !e.highest.CompareAndSwap(old, epoch); old = e.highest.Load() {
	}
}

// base is what the epochs of a Link begin after: the clock, or the highest of any Link that
// is gone, when the clock was set back. Clocks go on, mostly, also over restarts with the
// same key.
func (e *Epochs) base(now time.Time) uint64 {
	return max(uint64(max(now.UnixMicro(), 0)), e.highest.Load())
}
