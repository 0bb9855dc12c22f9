// Package underlay carries the datagrams of all Links over one UDP socket.
//
//	quic.Transport        pion's UDP mux           Link (one per Peer)
//	     │ virtual             │ real                │ Add, Follow, Paths
//	     ▼ addresses           ▼ addresses           ▼
//	  [Socket.QUIC]        [Socket.STUN]        path table ◄── paths.State (pure)
//	     └─────────┬───────────┴──────── probes ─────┘
//	               ▼                                    relay conns
//	   one UDP socket: sendmsg + UDP_SEGMENT            (one per relayed path)
//	                   recvmmsg + UDP_GRO
//
// QUIC uses a Link's virtual address, which exists nowhere. On the way out it becomes the
// address of the path in use. On the way in the address of a validated path becomes the
// virtual one. Moving a Link to another path is therefore one atomic store that QUIC does
// not see. A datagram is dropped before QUIC sees it unless its sender is the address of
// a validated path.
//
// The reader of QUIC also reads the socket, without a goroutine or a queue in between.
// While QUIC has no reader, a goroutine of the Socket's reads in its place, so that
// probes and STUN work from the start. Nothing is allocated per datagram.
//
// Probes keep paths alive and show which paths work. A key of the search that found the
// path authenticates the probes, and each probe gets one answer:
//
//	0x1f │ kind 1 │ key id 8 │ sequence 8 │ flags 4 │ MAC 16      = 38 bytes
//
// The package decides nothing about paths: package paths does. It does not find
// paths either; package ice does.
package underlay
