// Package punch opens a TCP connection straight to a Peer, also when both hosts sit
// behind address translators, by the simultaneous open of RFC 6544. The result is a plain
// TCP connection: the caller runs TLS on it to authenticate the other end.
//
//	[Gather]    one local port: a listener, and from the same port a connection
//	            to each reflector (STUN over TCP), which returns the mapped address
//	            and, staying open, keeps the translator's mapping alive
//	   │ candidates and one-way delay travel to the Peer in signed messages
//	[Local.Connect]
//	   controlled   ── SYN ──► dropped, but opens the own translator
//	   controlling      waits one way and a margin   ── SYN ──► gets through
//	                    first of all connections to stand: the pick byte ──► same one
//
// # When each side sends
//
// Translators that drop an unexpected SYN need no more than that both have sent one. The
// wait keeps the SYNs from crossing in flight: the kernel then takes the round trip for
// far shorter than it is, and BBR believes that for 10 s. Translators that answer an
// unexpected SYN with RST (or ICMP) need SYNs that do cross: a refused side sends again
// as soon as the refusal is there. Both have a SYN under way nearly always then, so that
// the first of either that meets the other's gets through, without a common clock. Each
// repetition answers a packet that came from the very address, so that no party can make
// this host send more than it gets (OVL-09). [CheckRTT] corrects a remaining wrong round
// trip.
//
// # Which connection
//
// Several connections may come up: over a private network, through the translators, in
// either direction. The controlled side writes a ready byte on each; the controlling side
// writes a pick byte on one and resets the rest; the controlled side returns the
// connection with the pick byte. Over a private address the controlling side waits for
// the ready byte first, since another host of another network may be there. It also waits
// on a connection that the far side has dialled, which costs nothing. Otherwise it picks
// at once, and [Conn] removes the ready byte from the data that is read later.
//
// A candidate of kind [Listen] is different: there the Peer's ordinary session
// listener answers, without ready and pick byte. See [Conn.ToListener].
//
// Two translators that both choose a new port for each destination cannot be
// crossed; [Local.Connect] then ends with [ErrNoConnection] in bounded time.
package punch
