package overlay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"cadre.dev/overlay/internal/identity"
)

// ID names a Peer: spiffe://cluster/group/slot.
type ID = identity.ID

// ErrInvalidID reports a name outside the grammar of [ParseID].
var ErrInvalidID = identity.ErrInvalidID

// ParseID reads spiffe://cluster/group/slot strictly.
func ParseID(s string) (ID, error) { return identity.ParseID(s) }

// BootID names the Boot that holds the key of cert: the lower-case hex SHA-256
// of its SubjectPublicKeyInfo.
func BootID(cert *x509.Certificate) string { return identity.BootID(cert) }

// CoordinatorGroup is the Group of every coordinator's [ID].
const CoordinatorGroup = "coordinator"

// AdmissionExporter is the TLS exporter label that binds an admission's
// statements to the connection they travel on; 32 bytes, no context.
const AdmissionExporter = "EXPORTER-cadre-admission-v1"

// Protocol is the transport protocol of a forwarded port.
type Protocol string

const (
	// TCP ports are forwarded as streams.
	TCP Protocol = "tcp"
	// UDP ports are forwarded as datagrams, which may be lost.
	UDP Protocol = "udp"
)

// PortRef is one port of one protocol.
type PortRef struct {
	Protocol Protocol
	Port     uint16
	// Loopback, of a TCP port in Accepts: the workload listens on 127.0.0.1, and not
	// on the machine's VIP.
	Loopback bool
}

// Credentials are what this node presents and whom it believes.
type Credentials struct {
	// Certificate is the node's SVID with its private key.
	Certificate tls.Certificate
	// Roots is the cluster CA.
	Roots *x509.CertPool
}

// Peer is one entry of the peer map.
type Peer struct {
	ID ID
	// BootID is the admitted Boot. A worker without one is not admitted: it is
	// neither dialed nor let in. For a coordinator "" means any Boot that the
	// cluster CA vouches for.
	BootID string
	// InstanceID is where the gateway finds the Peer; "" means nowhere now.
	InstanceID string
	// VIP is the Peer's address on this machine's loopback.
	VIP netip.Addr
	// Offers are the Peer's ports that this node forwards to: it listens on
	// VIP:port for each, also while the Peer is away.
	Offers []PortRef
	// Accepts are this node's own ports that the Peer may reach. Nil means none.
	Accepts []PortRef
	// Coordinator tells that workers dial this Peer, and that Sessions with it
	// carry control connections.
	Coordinator bool
}

// Config makes a [Node]. Fields without a note are required.
type Config struct {
	Self ID
	// SelfVIP is the address that workloads of this machine listen on, but for
	// Accepts with Loopback.
	SelfVIP netip.Addr
	// Private are ports of this machine that no Peer reaches, whatever the peer map
	// says: those of the node's own parts.
	Private []uint16
	// Listen is the TCP address for Sessions, ":7443" when empty.
	Listen string
	// Gateway is the way that is there at once. Its Domain may be empty where
	// Rendezvous is not.
	Gateway Gateway
	// Rendezvous are the servers that help to find direct and relayed paths; any
	// that answers will do. Without one the gateway is the only path.
	Rendezvous []Rendezvous
	// ListenUDP is the UDP address for direct paths, any port when zero.
	ListenUDP netip.AddrPort
	// PublicOnly keeps addresses of private networks out of what is offered and
	// taken. Peers of one private network then meet through the outside.
	PublicOnly bool
	// OnDemand has a worker keep Sessions only with coordinators and, where its group has
	// at most [WarmGroup] members, with those. With every other Peer of the map one is made
	// when something here or there wants to open a connection or send a datagram, which
	// waits for it for up to 10 s, and it ends when nothing was carried for IdleTime
	// and both sides agree. Unset keeps one with every Peer. Peers should agree on both.
	OnDemand bool
	// IdleTime is 5 minutes when zero.
	IdleTime time.Duration
	// Paths are the kinds of path that may be used; nil means all.
	Paths []PathKind
	// Serve are the node's own services by port. Every admitted Peer may open a
	// connection to one with [Node.DialService], whatever Offers and Accepts say; a port
	// here is not forwarded. peer is the map's entry with the Boot that the Session has
	// proved. Each call has a goroutine of its own. ctx ends with the Session, and the
	// function must return soon after. It owns conn, which may outlive the call, and
	// closes it; until then it counts among the streams that one Peer may have open.
	Serve map[uint16]func(ctx context.Context, peer Peer, conn net.Conn)
	// Listener opens the sockets that the node listens on: Sessions, ListenUDP, and
	// the offered ports at VIPs. Nil opens them itself.
	Listener Listener
	// Log may be nil.
	Log *slog.Logger
	// ServeAdmission serves the one stream of a first contact. conn closes when
	// it returns, and ctx ends when the connection's time is up. The other side
	// has shown nothing but the possession of a key. Nil refuses first contact.
	ServeAdmission func(ctx context.Context, conn net.Conn, state tls.ConnectionState)
	// OnControl is called, in a goroutine of its own, once for each pair of control
	// connections with a Peer where either side is a coordinator. They lie on the
	// Session in use and move with it: a newer pair's OnControl may begin before an
	// older one's has returned. ctx ends with the Session and when the dialer has
	// a newer pair (which the other side learns by reading), and OnControl must return soon after. Closing either connection before
	// that ends the Session (the dialer then makes a new one); returning alone does
	// not. Nil refuses control connections.
	OnControl func(ctx context.Context, peer Peer, c ControlConns)

	// OnPathChange is told of each change of a Link's path, in order for each Link,
	// in a goroutine of the node. It must not block for long. May be nil.
	OnPathChange func(PathChange)

	// limits are smaller in tests; zero fields mean the defaults.
	limits limits
}

// Listener opens sockets to listen on; *net.ListenConfig is one. Listeners of TCP must
// give *net.TCPConn, packet connections must be *net.UDPConn. Closing what it gave means
// that the node does not want that address any more. Safe for concurrent use.
type Listener interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
}

// Rendezvous is one rendezvous server. It is not trusted: it can delay, and
// nothing else.
type Rendezvous struct {
	// URL is https://host:port.
	URL string
	// CA is what its certificate must lead to, in PEM; empty means the system's.
	CA []byte
}

// ControlConns are the two control connections of a Session. Their
// RemoteAddr is an [Addr] that names the authenticated Peer.
type ControlConns struct {
	// Dialer tells that this side opened the Session.
	Dialer bool
	// First carries gRPC with the dialer as client.
	First net.Conn
	// Second carries gRPC with the dialer as server.
	Second net.Conn
}

// SessionState tells where the Link to a Peer stands.
type SessionState string

const (
	// SessionAbsent: the map names no Boot or no place for the Peer.
	SessionAbsent SessionState = "absent"
	// SessionAwaited: the Peer dials, and has not yet.
	SessionAwaited SessionState = "awaited"
	// SessionDialing: a try at the gateway or a search is under way.
	SessionDialing SessionState = "dialing"
	// SessionBackOff: the last try failed and the next is scheduled.
	SessionBackOff SessionState = "back-off"
	// SessionIdle: nobody wants a Session; the next connection makes one.
	SessionIdle SessionState = "idle"
	// SessionUp: streams may be opened.
	SessionUp SessionState = "up"
)

// SessionInfo describes the Link to one Peer at one moment.
type SessionInfo struct {
	Peer   ID
	BootID string // of the Session in use, "" when there is none
	State  SessionState
	// Since is when State began.
	Since time.Time
	// Path is how the Session in use travels; PathReason is why, and PathSince since
	// when. Local and Remote are its addresses, as far as they are known.
	Path          PathKind
	PathReason    string
	PathSince     time.Time
	Local, Remote string
	// Carrier is "quic" or "tls".
	Carrier string
	// Standby are the kinds of the other Sessions that are kept.
	Standby []PathKind
	// RTT is the last measured round trip, 0 before the first.
	RTT time.Duration
	// BytesIn and BytesOut count what the carrier of the Session in use moved.
	BytesIn, BytesOut uint64
	// PacketsSent and PacketsLost are the datagram carrier's; both 0 on a byte stream.
	PacketsSent, PacketsLost uint64
	// Streams is the number of open forwarded connections.
	Streams int
	// PathChanges counts the changes of Path; Attempts counts the searches for paths.
	PathChanges, Attempts uint64
	// Searching tells that a search is under way, or waits for its turn.
	Searching bool
	// Candidates are all validated datagram paths, best first.
	Candidates []Candidate
	// LastError is why the last try failed or the last Session ended.
	LastError string
}

// Candidate is one validated datagram path.
type Candidate struct {
	Kind   PathKind
	Remote string
	RTT    time.Duration
	// Loss is the share of probes that were not answered lately, 0 to 1.
	Loss  float64
	InUse bool
}
