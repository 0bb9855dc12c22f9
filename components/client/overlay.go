package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "cadre.dev/proto/cadre/api/v1"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

// Overlay is the overlay as one node sees it.
type Overlay struct {
	// Slot of the node that reports.
	Slot  string `json:"slot"`
	Links []Link `json:"links"`
}

// Link is a node's connection with one Peer.
type Link struct {
	Peer        string    `json:"peer"`
	Group       string    `json:"group"`
	Coordinator bool      `json:"coordinator,omitempty"`
	BootID      string    `json:"boot_id,omitempty"`
	State       string    `json:"state"`
	Since       time.Time `json:"since,omitzero"`
	// Path is the path of the Session in use, PathReason the reason for it.
	Path       string    `json:"path"`
	PathReason string    `json:"path_reason,omitempty"`
	PathSince  time.Time `json:"path_since,omitzero"`
	Local      string    `json:"local,omitempty"`
	Remote     string    `json:"remote,omitempty"`
	Carrier    string    `json:"carrier,omitempty"`
	// Standby are the paths of other open Sessions.
	Standby []string `json:"standby,omitempty"`
	RTT     Millis   `json:"rtt_ms,omitempty"`
	// BytesIn to PacketsLost are counters of the Session in use.
	BytesIn     uint64 `json:"bytes_in"`
	BytesOut    uint64 `json:"bytes_out"`
	PacketsSent uint64 `json:"packets_sent"`
	PacketsLost uint64 `json:"packets_lost"`
	// Streams is the number of open forwarded connections.
	Streams     uint32 `json:"streams"`
	PathChanges uint64 `json:"path_changes"`
	// Searches counts the path searches that began; Searching: one is in progress.
	Searches   uint64       `json:"searches"`
	Searching  bool         `json:"searching,omitempty"`
	Candidates []Candidate  `json:"candidates,omitempty"`
	LastError  string       `json:"last_error,omitempty"`
	Changes    []PathChange `json:"changes,omitempty"`
}

// Candidate is one validated datagram path.
type Candidate struct {
	Path   string `json:"path"`
	Remote string `json:"remote"`
	RTT    Millis `json:"rtt_ms,omitempty"`
	// Loss is the share of recent probes without an answer, 0 to 1.
	Loss  float64 `json:"loss"`
	InUse bool    `json:"in_use,omitempty"`
}

// PathChange is one change of a Link's path.
type PathChange struct {
	At     time.Time `json:"at"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason,omitempty"`
}

// Overlay returns the Links of a Slot's node; with an empty slot, those of the answering
// coordinator. A peer that is not empty selects one Link.
func (c *Client) Overlay(ctx context.Context, slot, peer string) (Overlay, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.GetOverlay(ctx, &apiv1.GetOverlayRequest{Slot: slot, Peer: peer})
	if err != nil {
		return Overlay{}, c.wrap("look at the overlay"+at(slot), err)
	}
	out := Overlay{Slot: r.GetSlot(), Links: []Link{}}
	for _, l := range r.GetLinks() {
		out.Links = append(out.Links, linkOf(l))
	}
	return out, nil
}

// Ping has several round trips from Slot to Peer.
type Ping struct {
	Slot    string       `json:"slot"`
	Peer    string       `json:"peer"`
	Samples []PingSample `json:"samples"`
}

// PingSample is one round trip; without an answer it has an Error and no RTT.
type PingSample struct {
	RTT     Millis `json:"rtt_ms,omitempty"`
	Path    string `json:"path"`
	Carrier string `json:"carrier,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Ping measures count round trips between two nodes; slot is as for Overlay.
func (c *Client) Ping(ctx context.Context, slot, peer string, count int) (Ping, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.PingPeer(ctx, &apiv1.PingPeerRequest{Slot: slot, Peer: peer, Count: uint32(max(count, 0))})
	if err != nil {
		return Ping{}, c.wrap("ping "+peer+at(slot), err)
	}
	out := Ping{Slot: r.GetSlot(), Peer: peer, Samples: []PingSample{}}
	for _, s := range r.GetPing().GetSamples() {
		out.Samples = append(out.Samples, PingSample{RTT: millis(s.GetRtt()), Path: s.GetPath(), Carrier: s.GetCarrier(), Error: s.GetError()})
	}
	return out, nil
}

// Direction is the sender in a bench.
type Direction string

const (
	// Send: the Slot sends to its Peer.
	Send Direction = "send"
	// Receive: the Peer sends to the Slot.
	Receive Direction = "receive"
)

// Bench is the result of one transfer between Slot and Peer.
type Bench struct {
	Slot      string    `json:"slot"`
	Peer      string    `json:"peer"`
	Direction Direction `json:"direction"`
	Bytes     uint64    `json:"bytes"`
	Took      Millis    `json:"took_ms"`
	Mbps      float64   `json:"mbps"`
	Path      string    `json:"path"`
	Carrier   string    `json:"carrier"`
	// Moved: the path changed during the transfer.
	Moved bool `json:"moved,omitempty"`
	// RTT is a round trip before the transfer, LoadedRTT the median of those during it.
	RTT       Millis `json:"rtt_ms,omitempty"`
	LoadedRTT Millis `json:"loaded_rtt_ms,omitempty"`
}

// Bench measures throughput between two nodes for d, at most 10 s, by loading the
// path; slot is as for Overlay.
func (c *Client) Bench(ctx context.Context, slot, peer string, d time.Duration, direction Direction) (Bench, error) {
	wire := overlayv1.Direction_DIRECTION_SEND
	if direction == Receive {
		wire = overlayv1.Direction_DIRECTION_RECEIVE
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.BenchPeer(ctx, &apiv1.BenchPeerRequest{Slot: slot, Peer: peer, Direction: wire, Duration: durationpb.New(d)})
	if err != nil {
		return Bench{}, c.wrap("bench with "+peer+at(slot), err)
	}
	b := r.GetBench()
	out := Bench{
		Slot: r.GetSlot(), Peer: peer, Direction: direction, Bytes: b.GetBytes(), Took: millis(b.GetTook()),
		Path: b.GetPath(), Carrier: b.GetCarrier(), Moved: b.GetMoved(), RTT: millis(b.GetRtt()), LoadedRTT: millis(b.GetLoadedRtt()),
	}
	if took := time.Duration(out.Took).Seconds(); took > 0 {
		out.Mbps = rounded(float64(out.Bytes) * 8 / 1e6 / took)
	}
	return out, nil
}

// at names the Slot in a message.
func at(slot string) string {
	if slot == "" {
		return ""
	}
	return " at " + slot
}
