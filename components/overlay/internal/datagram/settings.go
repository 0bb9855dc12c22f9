package datagram

import (
	"cmp"
	"crypto/tls"
	"time"

	quic "github.com/apernet/quic-go"
)

// Application error codes of this protocol. Anything else that a far side sends
// means the same: the code is for people who look at packets.
const (
	codeReset  quic.StreamErrorCode      = 1 // Stream.Reset
	codeClosed quic.ApplicationErrorCode = 1 // Session.Close, Conn.Close; the text is the reason
	codeHello  quic.ApplicationErrorCode = 2 // no hello, or a wrong one
)

const (
	// streamWindow and maxStreamWindow bound the unread bytes of one stream. The window
	// grows for readers that keep up with a long path.
	streamWindow, maxStreamWindow = 1 << 20, 16 << 20
	// sessionWindow bounds the unread bytes of all streams of a Session together, and so
	// the memory that a hostile Peer can occupy (OVL-17). It has to be far above
	// streamWindow: QUIC counts unread bytes of all streams against it, so readers that
	// stall together for more than this would stall the rest.
	sessionWindow = 128 << 20
	// controlWindow is the window of a control stream.
	controlWindow = 256 << 10
	// maxStreams is the number of streams that a Peer may have open here: the limit of
	// forwarded streams, the first stream, and some streams that are about to end.
	maxStreams = 1024 + 32
	// maxOneWay is the stream for large datagrams.
	maxOneWay = 1
	// idleTimeout ends a connection that never becomes a Session.
	idleTimeout = 30 * time.Second
	// packetSize is the size that every path carries; path MTU discovery raises it.
	packetSize = 1200
	// connIDLength keeps connections of one socket apart.
	connIDLength = 8
)

// limits bound the resources that unauthenticated callers and Peers can make a Transport spend.
type limits struct {
	// handshakes is how many connections may be short of [Transport.Accept],
	// sourceHandshakes how many of them from one address.
	handshakes, sourceHandshakes int
	// handshakeTime is how long a handshake may take, helloTime how long the
	// first stream may take after it.
	handshakeTime, helloTime time.Duration
	// linger is how long a dialer has to read why it is turned away.
	linger time.Duration
	// ping keeps bytes coming from a far side that is alive; quiet is the
	// dead-man timer.
	ping, quiet time.Duration
}

func (l limits) withDefaults() limits {
	return limits{
		handshakes:       cmp.Or(l.handshakes, 256),
		sourceHandshakes: cmp.Or(l.sourceHandshakes, 32),
		handshakeTime:    cmp.Or(l.handshakeTime, 10*time.Second),
		helloTime:        cmp.Or(l.helloTime, 5*time.Second),
		linger:           cmp.Or(l.linger, 2*time.Second),
		ping:             cmp.Or(l.ping, 2*time.Second),
		quiet:            cmp.Or(l.quiet, 8*time.Second),
	}
}

// quicConfig is the same for both sides.
func (l limits) quicConfig() *quic.Config {
	return &quic.Config{
		Versions: []quic.Version{quic.Version1},
		// A handshake as a whole may take twice this.
		HandshakeIdleTimeout:           l.handshakeTime / 2,
		MaxIdleTimeout:                 idleTimeout,
		InitialStreamReceiveWindow:     streamWindow,
		MaxStreamReceiveWindow:         maxStreamWindow,
		InitialConnectionReceiveWindow: sessionWindow,
		MaxConnectionReceiveWindow:     sessionWindow,
		MaxIncomingStreams:             maxStreams,
		MaxIncomingUniStreams:          maxOneWay,
		InitialPacketSize:              packetSize,
		EnableDatagrams:                true,
		// Early data could be replayed (OVL-14).
		Allow0RTT: false,
	}
}

// strict makes sure that no configuration lets a connection skip its checks by
// resuming an earlier one (OVL-14).
func strict(cfg *tls.Config) *tls.Config {
	cfg = cfg.Clone()
	cfg.MinVersion = tls.VersionTLS13
	cfg.SessionTicketsDisabled = true
	cfg.ClientSessionCache = nil
	if pick := cfg.GetConfigForClient; pick != nil {
		cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			picked, err := pick(hello)
			if err != nil || picked == nil {
				return picked, err
			}
			return strict(picked), nil
		}
	}
	return cfg
}
