package ours

import (
	"net/netip"
)

// Carrier is a way that a node may use to reach a Peer.
type Carrier string

const (
	// Gateway is the byte stream to the Peer's listener: through a TLS
	// pass-through gateway, or straight to it where its address is given.
	Gateway Carrier = "gateway"
	// TCP is a byte stream by direct TCP: a reachable port or simultaneous open.
	TCP Carrier = "tcp"
	// UDP is datagrams on a direct path found by ICE.
	UDP Carrier = "udp"
	// Relay is datagrams through the rendezvous.
	Relay Carrier = "relay"
)

// Node is the config of the role "node", and of each node of the role "crowd".
type Node struct {
	ID          string     `json:"id"` // spiffe://cluster/group/slot
	VIP         netip.Addr `json:"vip"`
	Listen      string     `json:"listen"`
	Certificate []byte     `json:"certificate"` // PEM
	Key         []byte     `json:"key"`         // PEM
	Roots       []byte     `json:"roots"`       // PEM
	Peers       []Peer     `json:"peers"`
	// Carriers are the only permitted ones.
	Carriers []Carrier `json:"carriers"`
	// Domain and Address are the gateway's; Address may be a Peer's own listener.
	Domain  string `json:"domain"`
	Address string `json:"address,omitempty"`
	// Rendezvous is where Peers are found for TCP, UDP and Relay.
	Rendezvous []Rendezvous `json:"rendezvous,omitempty"`
	// Debug makes the node say all it can.
	Debug bool `json:"debug,omitempty"`
}

// Rendezvous is one server.
type Rendezvous struct {
	URL string `json:"url"`
	CA  []byte `json:"ca"` // PEM
}

// Peer is one entry of a node's peer map.
type Peer struct {
	ID          string     `json:"id"`
	Boot        string     `json:"boot"`
	Instance    string     `json:"instance"`
	VIP         netip.Addr `json:"vip"`
	Offers      []uint16   `json:"offers,omitempty"`  // TCP
	Accepts     []uint16   `json:"accepts,omitempty"` // TCP
	Coordinator bool       `json:"coordinator,omitempty"`
}

// Session describes the Link with one Peer.
type Session struct {
	Peer string `json:"peer"`
	Up   bool   `json:"up"`
	// Over is the Carrier in use, "" while there is none.
	Over  Carrier `json:"over"`
	State string  `json:"state"`
	Error string  `json:"error,omitempty"`
}

// Memory is the memory of a node's process after a collection.
type Memory struct {
	Resident   int64 `json:"resident"` // bytes, as the kernel counts
	Heap       int64 `json:"heap"`     // bytes of live objects
	Stack      int64 `json:"stack"`    // bytes
	Goroutines int   `json:"goroutines"`
}
