package callers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

var errTooMuch = errors.New("the connection sent too many bytes without an operator's token")

// conn is a registered connection of a caller.
type conn struct {
	net.Conn
	callers *Callers
	source  string
	number  uint64 // a later connection has a greater one
	// ctx ends with the connection.
	ctx  context.Context //nolint:containedctx // gRPC reports the end only later, and not during a token check
	end  context.CancelFunc
	left atomic.Int64 // bytes that may still arrive
	once sync.Once

	class   class       // guarded by callers.mu
	timer   *time.Timer // guarded by callers.mu
	token   digest      // guarded by callers.mu; only for an operator's connection
	running int         // guarded by callers.mu; calls with a good token
	used    time.Time   // guarded by callers.mu; last begin or end of such a call
	open    int         // guarded by callers.mu; open calls in this class so far
	refused int         // guarded by callers.mu; refused calls in this class so far
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.left.Add(-int64(n)) < 0 {
		_ = c.Close()
		return 0, errTooMuch
	}
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := error(net.ErrClosed)
	c.once.Do(func() {
		err = c.Conn.Close()
		c.end()
		c.callers.mu.Lock()
		defer c.callers.mu.Unlock()
		delete(c.callers.held[c.class], c)
		c.timer.Stop()
	})
	return err
}

// overdue closes a connection at the end of its lifetime.
func (c *conn) overdue() {
	c.callers.mu.Lock()
	spared := c.class == operator
	c.callers.mu.Unlock()
	if !spared {
		_ = c.Close()
	}
}

// RemoteAddr implements net.Conn. The address is the only part of the connection that gRPC passes
// to handlers.
func (c *conn) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

type address struct {
	net.Addr
	conn *conn
}

// connOf returns the connection of a call, or nil if the call came over no Listener.
func connOf(ctx context.Context) *conn {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	a, _ := p.Addr.(address)
	return a.conn
}

// sourceOf returns the source of a connection for the limits: an IPv4 address, or the /64 of an
// IPv6 address, which usually belongs to one customer.
func sourceOf(conn net.Conn) string {
	at, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return conn.RemoteAddr().String()
	}
	ip := at.AddrPort().Addr().Unmap()
	if ip.Is6() {
		return netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
	}
	return ip.String()
}

// Credentials makes the handshakes of the API by config, and moves newcomers to the unauthenticated
// connections. A connection of HTTP/2 is gRPC's. Credentials passes any other connection on to web,
// which owns it from then on. A caller that speaks both is passed on: callers of gRPC speak HTTP/2
// alone.
func Credentials(config *tls.Config, web func(net.Conn)) credentials.TransportCredentials {
	config = config.Clone()
	config.NextProtos = []string{"http/1.1", "h2"}
	return handshakes{credentials.NewTLS(config), config, web}
}

type handshakes struct {
	credentials.TransportCredentials
	config *tls.Config
	web    func(net.Conn)
}

// ServerHandshake implements credentials.TransportCredentials. gRPC bounds its time.
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure := tls.Server(raw, h.config)
	if err := secure.HandshakeContext(context.Background()); err != nil {
		_ = secure.Close()
		return nil, nil, err
	}
	if one, is := raw.(*conn); is {
		one.callers.handshaken(one)
	}
	state := secure.ConnectionState()
	if state.NegotiatedProtocol != "h2" {
		h.web(secure)
		return nil, nil, credentials.ErrConnDispatched
	}
	return secure, credentials.TLSInfo{State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

// Clone implements credentials.TransportCredentials.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.config, h.web}
}
