package control

import (
	"errors"
	"net"
	"sync/atomic"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/session"
)

// conn is one control connection.
type conn struct {
	carrier.Stream
	channel *Channel
	session *session.Session
	// taken is set once the pair is handed out.
	taken atomic.Pointer[Taken]
}

var _ net.Conn = (*conn)(nil)

// conn makes a stream the connection that On gets.
func (c *Channel) conn(s *session.Session, st carrier.Stream) *conn {
	return &conn{Stream: st, channel: c, session: s}
}

// Read notes when the far side gave the connection up, and ends its On.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Stream.Read(b)
	if errors.Is(err, carrier.ErrReset) {
		if t := c.taken.Load(); t != nil {
			t.pair.gone.Store(true)
			t.pair.end(errMoved)
		}
	}
	return n, err
}

// Close ends the connection and its whole Session, which is useless without control: the
// dialer makes a new one. If control has moved to another Session, this Session stays:
// the dialer knows, and the other side treats a connection that the dialer gave up as
// moved.
func (c *conn) Close() error {
	if c.holds() {
		c.session.Close(errClosed)
	}
	c.Reset()
	return nil
}

// holds reports whether the connection belongs to the dialer's present pair, or to a pair
// that the dialer has not given up.
func (c *conn) holds() bool {
	t := c.taken.Load()
	switch {
	case t == nil:
		return false
	case t.Dialer:
		return c.channel.Link.Present(*t)
	}
	return !t.pair.gone.Load()
}

// LocalAddr is this node.
func (c *conn) LocalAddr() net.Addr { return c.channel.Local }

// RemoteAddr is the Peer, as its Session has proved it.
func (c *conn) RemoteAddr() net.Addr { return c.session.Who.Addr() }
