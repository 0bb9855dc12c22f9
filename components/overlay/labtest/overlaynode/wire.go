package overlaynode

import (
	"net/netip"
	"time"

	"cadre.dev/overlay"
)

// Config makes one node.
type Config struct {
	Self string
	VIP  netip.Addr
	// Cert and Key are the SVID, CA the cluster's root, all PEM.
	Cert, Key, CA []byte
	Peers         []Peer
	Rendezvous    []overlay.Rendezvous
	// Gateway is host:port of a pass-through gateway, "" for none.
	Gateway string
	Paths   []overlay.PathKind
	// Listen is the address for Sessions, ":7443" when empty.
	Listen string
	// Echo are TCP and UDP ports on VIP that return the received data; Sink are TCP ports
	// that count it; Stall are TCP ports without a reader.
	Echo, Sink, Stall []uint16
	// Canaries are TCP and UDP services on 127.0.0.1 that no Peer may ever reach.
	Canaries []uint16
	Debug    bool
	// OnDemand has Sessions made when they are wanted, and end when unused for IdleTime.
	OnDemand bool
	IdleTime time.Duration
}

// Peer is one entry of the peer map. Every port of Echo and Sink of either is
// offered and accepted.
type Peer struct {
	ID, BootID, InstanceID string
	VIP                    netip.Addr
	Coordinator            bool
	Ports                  []uint16
	// Refused are offered here and not accepted there.
	Refused []uint16
}

// Rendezvous makes one rendezvous server.
type Rendezvous struct {
	Listen, RelayIP, Roots, CAFile string
	// StateDir keeps its certificate, so that it is known again when it comes back.
	StateDir string
}

// Hostile makes a member of the cluster that keeps to no rules.
type Hostile struct {
	Config
	// ShownCert and ShownKey, PEM, are the node's certificate on paths in place of its
	// own.
	ShownCert, ShownKey []byte
	Victim              string
	// Controlling: it is the side that begins searches.
	Controlling bool
}

// Verb is the kind of a Request.
type Verb string

// The verbs of a node.
const (
	Sessions Verb = "sessions"
	Changes  Verb = "changes"
	SetPeers Verb = "set-peers"
	Dial     Verb = "dial"  // one TCP connection to Addr, one echo
	Watch    Verb = "watch" // echoes to Addr every Every for For; reconnects
	Bulk     Verb = "bulk"  // one TCP stream to Addr for For
	Clog     Verb = "clog"  // writes to Addr, which has no reader, and holds on for For
	Datagram Verb = "datagram"
	Stats    Verb = "stats"
)

// The verbs of a hostile member.
const (
	// Scan opens a stream to every TCP port, and sends to every UDP port, of the
	// victim that listens at Addr.
	Scan Verb = "scan"
	// Impostor makes direct TCP with the victim and presents the shown certificate.
	Impostor Verb = "impostor"
	// Inject offers the victim Targets as its own addresses.
	Inject Verb = "inject"
)

// Request is one line to the process. Requests are answered as they are done.
type Request struct {
	ID    uint64
	Verb  Verb
	Addr  netip.AddrPort
	Peers []Peer
	Peer  string
	For   time.Duration
	Every time.Duration
	// Limit is when an echo counts as lost, 30 s when zero.
	Limit time.Duration
	// Fresh makes each echo of a Watch on a connection of its own.
	Fresh bool
	Bytes int
	// Targets are addresses to aim a victim at.
	Targets []netip.AddrPort
}

// Response is one line from it.
type Response struct {
	ID       uint64
	Error    string
	Sessions []overlay.SessionInfo
	Changes  []overlay.PathChange
	Stats    *overlay.Stats
	// RTT is the median echo, Gap the longest time between two echoes that came back.
	RTT, Gap time.Duration
	Echoes   int
	// Reconnects is how often a Watch lost its connection.
	Reconnects int
	Bytes      int64
	Took       time.Duration
	Goroutines int
	HeapBytes  uint64
	Canaries   int64 // how often one was touched
	// TCP and UDP are the ports that answered a Scan, Refused how many TCP ports did not.
	TCP, UDP []uint16
	Refused  int
	// Refusal is how the victim ended an Impostor's handshake, "" when it did not.
	Refusal string
}
