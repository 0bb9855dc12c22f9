package underlay

import "sync/atomic"

// Stats counts events of a Socket since Open.
type Stats struct {
	// DatagramsIn and BytesIn came in over the socket or a relay, of any sort;
	// DatagramsOut and BytesOut were handed to the kernel or a relay.
	DatagramsIn, BytesIn   uint64
	DatagramsOut, BytesOut uint64
	// SyscallsIn and SyscallsOut are the calls to receive and to send that this
	// took, idle polls included.
	SyscallsIn, SyscallsOut uint64
	// Coalesced is the number of datagrams that came in a buffer with others,
	// Segmented the number that went out so.
	Coalesced, Segmented uint64
	// GRO: the kernel coalesces received datagrams.
	GRO     bool
	Dropped Dropped
}

// Dropped counts datagrams that went nowhere, by reason.
type Dropped struct {
	// Unvalidated came from an address that is no validated path's (OVL-13).
	Unvalidated uint64
	// Unknown counts datagrams that are neither STUN, nor a probe, nor QUIC.
	Unknown uint64
	// UnknownKey counts probes of a search that this side does not know, or not yet.
	// Forged counts probes with a wrong MAC or from the wrong direction, Replayed counts
	// repeated probes and unexpected answers, Malformed counts invalid probes.
	UnknownKey, Forged, Replayed, Malformed uint64
	// STUNFull counts STUN datagrams that no reader took in time.
	STUNFull uint64
	// Unread counts QUIC datagrams without a reader; QueueFull counts datagrams of a
	// relay that is faster than its reader.
	Unread, QueueFull uint64
	// Oversized was longer than its reader's buffer.
	Oversized uint64
	// NoPath counts sends to a Link without a path, or to an unknown virtual address;
	// RelayFull counts sends to a relay that is slower than its sender.
	NoPath, RelayFull uint64
	// SendErrors counts datagrams that the kernel refused. QUIC treats them as lost on
	// the way.
	SendErrors uint64
}

// counts are the counters behind Stats.
type counts struct {
	datagramsIn, bytesIn, syscallsIn, coalesced    atomic.Uint64
	datagramsOut, bytesOut, syscallsOut, segmented atomic.Uint64

	unvalidated, unknown                          atomic.Uint64
	unknownKey, forged, replayed, malformed       atomic.Uint64
	stunFull, unread, queueFull, oversized        atomic.Uint64
	noPath, relayFull, sendErrors, receiveProblem atomic.Uint64
}

// Stats may be called at any time.
func (s *Socket) Stats() Stats {
	c := &s.counts
	return Stats{
		DatagramsIn: c.datagramsIn.Load(), BytesIn: c.bytesIn.Load(),
		DatagramsOut: c.datagramsOut.Load(), BytesOut: c.bytesOut.Load(),
		SyscallsIn: c.syscallsIn.Load(), SyscallsOut: c.syscallsOut.Load(),
		Coalesced: c.coalesced.Load(), Segmented: c.segmented.Load(), GRO: s.receiver.gro,
		Dropped: Dropped{
			Unvalidated: c.unvalidated.Load(), Unknown: c.unknown.Load(),
			UnknownKey: c.unknownKey.Load(), Forged: c.forged.Load(), Replayed: c.replayed.Load(), Malformed: c.malformed.Load(),
			STUNFull: c.stunFull.Load(), Unread: c.unread.Load(), QueueFull: c.queueFull.Load(),
			Oversized: c.oversized.Load(), NoPath: c.noPath.Load(), RelayFull: c.relayFull.Load(),
			SendErrors: c.sendErrors.Load(),
		},
	}
}
