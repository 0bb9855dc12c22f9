package control

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"cadre.dev/agent/internal/durable"
	"github.com/prometheus/client_golang/prometheus"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/peers"
	"cadre.dev/exec/logring"
	"cadre.dev/overlay"
	"cadre.dev/overlaystatus"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"google.golang.org/protobuf/proto"
)

// Config makes a Hub. All fields but Overlay, Pauser, Operators and OwnLog are required.
type Config struct {
	// Disk keeps the Term and the state of the records.
	Disk *durable.Disk
	// Report builds the whole current report, without sequence, term, state and version.
	Report func() *controlv1.Report
	// ReportChanged has a channel ready whenever Report would differ from before.
	ReportChanged *latestvalue.Value[struct{}]
	// Overlay answers coordinators' requests about the overlay; the zero Server has no node.
	Overlay overlaystatus.Server
	// Pauser receives other groups' hand-overs; nil: this agent pauses nothing.
	Pauser RoutePauser
	// Metrics answers coordinators' requests for figures; nil: there are none.
	Metrics prometheus.Gatherer
	// Operators serves coordinators' calls for operators, and OwnLog has this process's own log; nil:
	// such calls are refused.
	Operators Operators
	OwnLog    *logring.Ring
	// Run is how many processes this Boot had before: reports are numbered on from theirs.
	Run uint32
	Log *slog.Logger
}

// Hub joins the sessions with all coordinators. Safe for concurrent use.
type Hub struct {
	cfg     Config
	term    *termKeeper
	desired latestvalue.Value[*controlv1.Desired]
	peers   latestvalue.Value[[]overlay.Peer]
	reports latestvalue.Value[update]
	ended   latestvalue.Value[*Ended]
	logs    *logCalls
	// sessions counts live ones.
	sessions latestvalue.Value[int]
	// leaving: this Boot has sent its farewell.
	leaving atomic.Bool

	mu              sync.Mutex
	desiredVersion  uint64                // guarded by mu
	desiredSum      uint64                // guarded by mu; of one version the higher one is newer
	desiredTerm     uint64                // guarded by mu
	peersTerm       uint64                // guarded by mu; of the map in force
	peersVersion    uint64                // guarded by mu; of the map in force
	peersGiven      []*controlv1.Peer     // guarded by mu; the map in force, sorted by Slot
	sequence        uint64                // guarded by mu
	content         *controlv1.Report     // guarded by mu; of the last report
	contentSequence uint64                // guarded by mu; of the first report with that content
	live            map[*session]struct{} // guarded by mu
}

// New reads the last Term from the disk.
func New(cfg Config) (*Hub, error) {
	term, err := openTerm(cfg.Disk, cfg.Log)
	if err != nil {
		return nil, err
	}
	return &Hub{cfg: cfg, term: term, logs: newLogCalls(cfg.Operators, cfg.OwnLog), sequence: uint64(cfg.Run) << 32, live: map[*session]struct{}{}}, nil
}

// Desired is the newest desired state that may be obeyed; nil before the first.
func (h *Hub) Desired() *latestvalue.Value[*controlv1.Desired] { return &h.desired }

// Peers is the newest peer map that coordinators gave.
func (h *Hub) Peers() *latestvalue.Value[[]overlay.Peer] { return &h.peers }

// Sessions is the number of coordinators we are connected to.
func (h *Hub) Sessions() *latestvalue.Value[int] { return &h.sessions }

// Connected reports that a coordinator is.
func (h *Hub) Connected() bool {
	n, _ := h.sessions.Get()
	return n > 0
}

// Term is the highest Term seen.
func (h *Hub) Term() uint64 {
	term, _ := h.term.highest()
	return term
}

// Seen are the highest Term of any message, and the highest state of desired state, across boots.
func (h *Hub) Seen() (term, state uint64) { return h.term.highest() }

// errOlder: the coordinator's records are older than records seen before. The coordinator is
// briefly behind the others, or was restored from a backup.
var errOlder = errors.New("its records are older than records seen before")

// acceptDesired takes d if it is newer and of no older records. Only Terms and numbers that grow
// with the records decide, never times: two leaders' clocks may differ by minutes. Term, version
// and sum, in this order, decide which state is newer: a restored store may reuse lower versions.
func (h *Hub) acceptDesired(from overlay.ID, d *controlv1.Desired) error {
	if d.GetVersion() == 0 {
		return nil // this coordinator does not know yet
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.term.obey(mark{Term: d.GetTerm(), State: d.GetState()}) {
		return errOlder
	}
	newer := cmp.Or(cmp.Compare(d.GetTerm(), h.desiredTerm), cmp.Compare(d.GetVersion(), h.desiredVersion), cmp.Compare(d.GetIndexSum(), h.desiredSum)) > 0
	if h.desiredVersion != 0 && !newer {
		return nil
	}
	h.desiredTerm, h.desiredVersion, h.desiredSum = d.GetTerm(), d.GetVersion(), d.GetIndexSum()
	before, _ := h.desired.Get()
	log := h.cfg.Log.Debug
	if asksOther(before, d) {
		log = h.cfg.Log.Info
	}
	log("desired state received", "version", d.GetVersion(), "term", d.GetTerm(),
		"operation", d.GetOperation().GetOperationId(), "verb", d.GetOperation().GetVerb().String(), "peer", from.Slot)
	h.desired.Set(d)
	return nil
}

// asksOther reports whether the orders of b differ from those of a. In most new versions they do
// not: the leader wrote a record for other readers.
func asksOther(a, b *controlv1.Desired) bool {
	x, y := a.GetOperation(), b.GetOperation()
	return a.GetTerm() != b.GetTerm() || !bytes.Equal(a.GetConfigJson(), b.GetConfigJson()) ||
		x.GetOperationId() != y.GetOperationId() || x.GetVerb() != y.GetVerb() || x.GetAttempt() != y.GetAttempt()
}

// acceptPeers takes a coordinator's present map, sorted by Slot, unless the map in force is newer
// by (term, version); a coordinator of an earlier version gives no Term. acceptPeers rejects a map
// without coordinators, because no coordinator could then reach this agent to correct it.
func (h *Hub) acceptPeers(from overlay.ID, term, version uint64, given []*controlv1.Peer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if term == 0 {
		term = h.peersTerm
	}
	if term < h.peersTerm || term == h.peersTerm && version < h.peersVersion || version == 0 {
		return nil
	}
	list, err := peers.FromProto(from.Cluster, given)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(p overlay.Peer) bool { return p.Coordinator }) {
		return fmt.Errorf("peer map %d of %s names no coordinator", version, from.Slot)
	}
	first := h.peersVersion == 0
	h.peersTerm, h.peersVersion = term, version
	if !first && slices.EqualFunc(h.peersGiven, given, func(a, b *controlv1.Peer) bool { return proto.Equal(a, b) }) {
		return nil // another coordinator sent the same before
	}
	h.peersGiven = given
	h.cfg.Log.Info("peer map received", "version", version, "peers", len(list), "peer", from.Slot)
	h.peers.Set(list)
	return nil
}

// known identifies the present desired state, so that a coordinator can send a newer one.
func (h *Hub) known() *controlv1.GetDesiredRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &controlv1.GetDesiredRequest{KnownTerm: h.desiredTerm, KnownVersion: h.desiredVersion, KnownIndexSum: h.desiredSum}
}

// wake makes every session fetch: another coordinator may answer before the sender of the wake-up.
func (h *Hub) wake() {
	for _, s := range h.sessionsNow() {
		s.again()
	}
}

// Run builds reports until ctx ends. Serve runs the sessions in parallel.
func (h *Hub) Run(ctx context.Context) error { return h.runReports(ctx) }
