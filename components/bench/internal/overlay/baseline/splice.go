package baseline

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"

	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/lab/worker"
)

// SpliceConfig is the config of the role "splice": connections to At are
// joined with connections to To.
type SpliceConfig struct {
	load.Sockets
	At string `json:"at"`
	To string `json:"to"`
}

// Splice is the role "splice"; its method "address" returns its listen address. It copies like Go's
// io.Copy, which on Linux is splice(2): no byte passes through the process.
func Splice(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	var c SpliceConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	ln, err := c.Listen(ctx, c.At)
	if err != nil {
		return worker.Actor{}, fmt.Errorf("listen: %w", err)
	}
	forwarder := newForwarder(ctx, ln, func(conn *net.TCPConn) {
		far, err := c.Dial(ctx, c.To)
		if err != nil {
			return
		}
		join(conn, far, conn.CloseWrite, far.CloseWrite)
		_ = far.Close()
	})
	return forwarder.actor(), nil
}

// forwarder serves each connection to a listener until its context ends.
type forwarder struct {
	address string
	wg      sync.WaitGroup
}

func newForwarder(ctx context.Context, ln net.Listener, serve func(*net.TCPConn)) *forwarder {
	f := &forwarder{address: ln.Addr().String()}
	context.AfterFunc(ctx, func() { _ = ln.Close() })
	f.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() {
				defer func() { _ = conn.Close() }()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				serve(conn.(*net.TCPConn))
			})
		}
	})
	return f
}

func (f *forwarder) actor() worker.Actor {
	return worker.Actor{
		Methods: map[string]worker.Method{
			"address": worker.Typed(func(context.Context, load.Nothing) (string, error) { return f.address, nil }),
		},
		Close: f.wg.Wait,
	}
}

// join copies both ways between a and b. An end is passed on; a failure ends
// both.
func join(a, b io.ReadWriteCloser, endA, endB func() error) {
	pass := func(to, from io.ReadWriteCloser, end func() error) {
		if _, err := io.Copy(to, from); err != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
		_ = end()
	}
	var back sync.WaitGroup
	back.Go(func() { pass(a, b, endA) })
	pass(b, a, endB)
	back.Wait()
}
