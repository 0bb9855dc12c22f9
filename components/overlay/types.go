package overlay

import (
	"crypto/x509"

	"cadre.dev/overlay/internal/admission"
	"cadre.dev/overlay/internal/control"
	"cadre.dev/overlay/internal/gateway"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/measure"
	"cadre.dev/overlay/internal/peer"
	"cadre.dev/overlay/internal/peermap"
	"cadre.dev/overlay/internal/session"
)

// The types of a caller's interface are made in the packages below, each by the package
// that owns its meaning.
type (
	// ID names a Peer: spiffe://cluster/group/slot.
	ID = identity.ID
	// Addr names one end of a connection within a Session.
	Addr = identity.Addr
	// Credentials are this node's own certificate and the roots that it trusts.
	Credentials = session.Credentials
	// Gateway is the TLS pass-through in front of every machine.
	Gateway = gateway.Gateway
	// ControlConns are the two control connections of a Session.
	ControlConns = control.Conns
	// AdmissionConn is the one stream of a first contact with a coordinator.
	AdmissionConn = admission.Conn

	// Peer is one entry of the peer map.
	Peer = peermap.Peer
	// PortRef is one port of one protocol.
	PortRef = peermap.PortRef
	// Protocol is the transport protocol of a forwarded port.
	Protocol = peermap.Protocol

	// SessionInfo describes the Link to one Peer at one moment.
	SessionInfo = peer.Info
	// Candidate is one validated datagram path.
	Candidate = peer.Candidate
	// SessionState is the state of the Link to a Peer.
	SessionState = link.Phase
	// PathKind is the transport of a Session.
	PathKind = link.Kind
	// PathChange is one change of the path that a Link uses.
	PathChange = peer.Change
	// PeerStats counts the traffic with one Peer.
	PeerStats = peer.Stats
	// PortStats counts the traffic over one port of one Peer.
	PortStats = peer.PortStats

	// PingResult is the result of a [Node.Ping].
	PingResult = measure.PingResult
	// PingSample is one round trip of it.
	PingSample = measure.PingSample
	// BenchResult is the result of a [Node.Bench].
	BenchResult = measure.BenchResult
	// BenchDirection selects the sender.
	BenchDirection = measure.BenchDirection
)

const (
	// CoordinatorGroup is the Group of every coordinator's [ID].
	CoordinatorGroup = peermap.CoordinatorGroup
	// WarmGroup is how many members the node's own group may have, itself among them,
	// for their Sessions to be kept although [Config.OnDemand] is set.
	WarmGroup = peermap.WarmGroup
	// AdmissionExporter is the TLS exporter label that binds an admission's
	// statements to the connection they travel on; 32 bytes, no context.
	AdmissionExporter = "EXPORTER-cadre-admission-v1"
)

const (
	// TCP ports are forwarded as streams.
	TCP = peermap.TCP
	// UDP ports are forwarded as datagrams, which may be lost.
	UDP = peermap.UDP
)

const (
	// SessionAbsent: the map names no Boot or no place for the Peer.
	SessionAbsent = link.Absent
	// SessionAwaited: the Peer dials, and has not yet.
	SessionAwaited = link.Awaited
	// SessionDialing: a try at the gateway or a search is under way.
	SessionDialing = link.Dialing
	// SessionBackOff: the last try failed and the next is scheduled.
	SessionBackOff = link.BackOff
	// SessionIdle: no connection needs a Session; the next connection makes one.
	SessionIdle = link.Asleep
	// SessionUp: streams may be opened.
	SessionUp = link.Up
)

const (
	// PathNone: there is no Session.
	PathNone = link.KindNone
	// PathDirectTCP is a byte stream between the two machines.
	PathDirectTCP = link.KindDirectTCP
	// PathDirectUDP is datagrams between the two machines.
	PathDirectUDP = link.KindDirectUDP
	// PathGateway is a byte stream through the TLS pass-through gateway.
	PathGateway = link.KindGateway
	// PathRelay is datagrams through a TURN server.
	PathRelay = link.KindRelay
)

// ParseID reads spiffe://cluster/group/slot strictly.
func ParseID(s string) (ID, error) { return identity.ParseID(s) }

// BootID names the Boot that holds the key of cert: the lower-case hex SHA-256
// of its SubjectPublicKeyInfo.
func BootID(cert *x509.Certificate) string { return identity.BootID(cert) }
