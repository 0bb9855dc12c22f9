package connpause

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// carry copies both ways until both have ended, or one has failed, or ctx ends. It closes
// target; client is closed too, or will be by the caller. Between two TCP connections Linux
// moves the bytes without this process seeing them.
func carry(ctx context.Context, client, target *net.TCPConn) {
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = target.Close()
	})
	defer stop()
	var other sync.WaitGroup
	other.Go(func() { oneWay(target, client) })
	oneWay(client, target)
	other.Wait()
	_ = target.Close()
}

// oneWay copies until from ends and then closes to for writing. A failure ends both: as a reset if
// from was reset, so that no client mistakes a partial answer for a complete one.
func oneWay(to, from *net.TCPConn) {
	switch _, err := io.Copy(to, from); {
	case err == nil:
		_ = to.CloseWrite() // to may be closed already
	case errors.Is(err, syscall.ECONNRESET):
		reset(to)
		reset(from)
	default:
		_ = to.Close()
		_ = from.Close()
	}
}

// reset closes c such that its peer sees an error, not an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
