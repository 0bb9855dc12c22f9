package grpcconn

import (
	"context"
	"net"
	"sync"
)

// watchedConn reports when gRPC closes a connection.
type watchedConn struct {
	net.Conn
	once sync.Once
	// open ends when the connection has been closed; done ends it.
	open context.Context //nolint:containedctx // it is the connection's own life
	done context.CancelFunc
}

func watch(conn net.Conn) *watchedConn {
	c := &watchedConn{Conn: conn}
	c.open, c.done = context.WithCancel(context.Background())
	return c
}

func (c *watchedConn) Close() error {
	err := error(nil)
	c.once.Do(func() {
		err = c.Conn.Close()
		c.done()
	})
	return err
}
