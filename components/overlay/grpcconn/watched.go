package grpcconn

import (
	"net"
	"sync"
)

// watchedConn tells when gRPC is done with a connection.
type watchedConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func watch(conn net.Conn) *watchedConn {
	return &watchedConn{Conn: conn, closed: make(chan struct{})}
}

func (c *watchedConn) Close() error {
	err := error(nil)
	c.once.Do(func() {
		err = c.Conn.Close()
		close(c.closed)
	})
	return err
}
