package overlay

import (
	"cmp"
	"time"
)

// limits bound the resources that unauthenticated callers and peers can make a node spend.
type limits struct {
	// handshakes is how many connections may be short of a known Peer.
	handshakes int
	// handshakeTime is how long each may take for it, while others find a place too.
	handshakeTime time.Duration
	// admissions is how many first contacts may be served at once.
	admissions int
	// admissionTime is how long each may last, while others find a place too.
	admissionTime time.Duration
	// lined is how many more may wait for such a place; lineTime is for how long: an
	// agent gives an exchange, and the wait for it, 45 s.
	lined    int
	lineTime time.Duration
	// These bounds protect places that other callers wait for. handshakePatience is the time
	// for a handshake: some round trips through a gateway. silentPatience is the time for the
	// first message of a first contact, which a Boot sends at once. exchangePatience is the
	// time after that message: it fits the quotes of both sides and the wait for their
	// verification, and it ends an idle caller before admissionTime.
	handshakePatience, silentPatience, exchangePatience time.Duration
	// parked is how many connections of Boots that the peer map does not name
	// (yet) may wait for a map that does; parkTime is for how long.
	parked   int
	parkTime time.Duration
	// streams is how many streams one Peer may have open here.
	streams int
	// searches is how many searches for paths a node begins at once. Twice as many
	// that Peers begin are followed: those are spaced by the Peers, too.
	searches int
	// loopback permits loopback addresses as candidates, for tests.
	loopback bool
	// dialTime bounds one try, from the TCP connection to the Session.
	dialTime time.Duration
	// demandTime is the time that data of apps waits for a Session that is made on demand.
	demandTime time.Duration
	// hurryTime bounds the Peer's answer to a proposal of rest, while a local caller waits
	// for a Session: a reachable Peer needs a round trip.
	hurryTime time.Duration
}

func (l limits) withDefaults() limits {
	return limits{
		handshakes:        cmp.Or(l.handshakes, 256),
		handshakeTime:     cmp.Or(l.handshakeTime, 10*time.Second),
		admissions:        cmp.Or(l.admissions, 128),
		admissionTime:     cmp.Or(l.admissionTime, 60*time.Second),
		lined:             cmp.Or(l.lined, 1024),
		lineTime:          cmp.Or(l.lineTime, 20*time.Second),
		handshakePatience: cmp.Or(l.handshakePatience, 2*time.Second),
		silentPatience:    cmp.Or(l.silentPatience, 5*time.Second),
		exchangePatience:  cmp.Or(l.exchangePatience, 20*time.Second),
		parked:            cmp.Or(l.parked, 64),
		parkTime:          cmp.Or(l.parkTime, 3*time.Second),
		streams:           cmp.Or(l.streams, 1024),
		searches:          cmp.Or(l.searches, 16),
		loopback:          l.loopback,
		dialTime:          cmp.Or(l.dialTime, 10*time.Second),
		demandTime:        cmp.Or(l.demandTime, 10*time.Second),
		hurryTime:         cmp.Or(l.hurryTime, 2*time.Second),
	}
}
