package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	helloTimeout = 10 * time.Second
	dialTimeout  = 5 * time.Second
	maxTries     = 3 // CVMs of an app tried for one connection
)

// Backend is a CVM that a name may mean.
type Backend struct {
	// UUID names the CVM for Drop.
	UUID string
	// Dial connects to a port of it.
	Dial func(ctx context.Context, port uint16) (net.Conn, error)
}

// Config configures a Gateway.
type Config struct {
	Domain string
	// Resolve returns the running CVMs behind an id, the one whose turn it is first.
	Resolve func(id string) []Backend
	// Alive reports whether a CVM still runs.
	Alive func(uuid string) bool
	// Certificate is for the names where the gateway ends TLS; nil refuses them.
	Certificate *tls.Certificate
	Log         *slog.Logger
}

// Gateway serves connections. Safe for concurrent use.
type Gateway struct {
	cfg Config

	accepted, noHello, badName, unknown, unreachable, up, down atomic.Int64

	mu    sync.Mutex // guards the following
	conns map[*link]struct{}
	tasks sync.WaitGroup
}

// link is one connection being served; uuid is "" until it has a CVM.
type link struct {
	uuid         string
	client, back net.Conn
}

// New makes a Gateway.
func New(cfg Config) *Gateway {
	return &Gateway{cfg: cfg, conns: map[*link]struct{}{}}
}

// Counters are the gateway's figures since its start.
type Counters struct {
	Active      int            `json:"active"`
	ActiveByCVM map[string]int `json:"active_by_cvm"`
	Accepted    int64          `json:"accepted"`
	NoHello     int64          `json:"refused_no_hello"`
	BadName     int64          `json:"refused_bad_name"`
	Unknown     int64          `json:"refused_unknown"`
	Unreachable int64          `json:"refused_unreachable"`
	BytesUp     int64          `json:"bytes_to_cvms"`
	BytesDown   int64          `json:"bytes_from_cvms"`
}

// Counters reads the figures.
func (g *Gateway) Counters() Counters {
	c := Counters{
		ActiveByCVM: map[string]int{}, Accepted: g.accepted.Load(), NoHello: g.noHello.Load(), BadName: g.badName.Load(),
		Unknown: g.unknown.Load(), Unreachable: g.unreachable.Load(), BytesUp: g.up.Load(), BytesDown: g.down.Load(),
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for l := range g.conns {
		if l.uuid != "" {
			c.Active++
			c.ActiveByCVM[l.uuid]++
		}
	}
	return c
}

// Serve accepts from l until ctx ends, then closes l and every connection, and
// returns when all are done.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer g.tasks.Wait()
	defer g.drop(func(*link) bool { return true })
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			var temporary interface{ Timeout() bool }
			if errors.As(err, &temporary) && temporary.Timeout() {
				continue
			}
			return err
		}
		g.accepted.Add(1)
		g.tasks.Go(func() { g.serve(ctx, c) })
	}
}

// Drop resets every connection of a CVM.
func (g *Gateway) Drop(uuid string) {
	g.drop(func(l *link) bool { return l.uuid == uuid })
}

func (g *Gateway) drop(which func(*link) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for l := range g.conns {
		if which(l) {
			reset(l.client)
			if l.back != nil {
				reset(l.back)
			}
		}
	}
}

func (g *Gateway) serve(ctx context.Context, client net.Conn) {
	l := &link{client: client}
	g.mu.Lock()
	g.conns[l] = struct{}{}
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.conns, l)
		g.mu.Unlock()
		_ = client.Close()
		if l.back != nil {
			_ = l.back.Close()
		}
	}()
	if ctx.Err() != nil {
		return
	}
	_ = client.SetReadDeadline(time.Now().Add(helloTimeout))
	name, hello, err := ReadHello(client)
	if err != nil {
		g.noHello.Add(1)
		return
	}
	_ = client.SetReadDeadline(time.Time{})
	to, err := ParseName(name, g.cfg.Domain)
	if err == nil && !to.PassThrough && g.cfg.Certificate == nil {
		err = errors.New("only pass-through is offered")
	}
	if err != nil {
		g.badName.Add(1)
		g.cfg.Log.Debug("connection refused", "error", err)
		refuse(client)
		return
	}
	back, uuid := g.dial(ctx, to.ID, to.Port)
	if back == nil {
		refuse(client)
		return
	}
	g.mu.Lock()
	l.uuid, l.back = uuid, back
	g.mu.Unlock()
	// Between Dial and here the CVM may have gone, and Drop with it.
	if !g.cfg.Alive(uuid) {
		reset(client)
		return
	}
	if !to.PassThrough {
		g.terminate(ctx, client, hello, back, to.HTTP2)
		return
	}
	if _, err := back.Write(hello); err != nil {
		reset(client)
		return
	}
	g.up.Add(int64(len(hello)))
	g.splice(client, client, back)
}

func (g *Gateway) dial(ctx context.Context, id string, port uint16) (net.Conn, string) {
	backends := g.cfg.Resolve(id)
	if len(backends) == 0 {
		g.unknown.Add(1)
		return nil, ""
	}
	for _, b := range backends[:min(len(backends), maxTries)] {
		dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
		c, err := b.Dial(dialCtx, port)
		cancel()
		if err == nil {
			return c, b.UUID
		}
		g.cfg.Log.Debug("cvm not reached", "instance", b.UUID, "port", port, "error", err)
	}
	g.unreachable.Add(1)
	return nil, ""
}

// splice copies both ways between the client's data and the CVM. An end of stream is passed on; an
// error resets both connections.
func (g *Gateway) splice(said, client, back net.Conn) {
	var both sync.WaitGroup
	copyTo := func(to, from net.Conn, count *atomic.Int64) {
		n, err := io.Copy(to, from)
		count.Add(n)
		if err != nil {
			reset(client)
			reset(back)
			return
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	both.Go(func() { copyTo(back, said, &g.up) })
	both.Go(func() { copyTo(said, back, &g.down) })
	both.Wait()
}

// refuse sends the alert that says "no such name here" and closes.
func refuse(c net.Conn) {
	const fatal, unrecognizedName = 2, 112
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte{21, 3, 3, 0, 2, fatal, unrecognizedName})
}

// reset closes c so that the other side sees a reset, not an end.
func reset(c net.Conn) {
	if t, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
