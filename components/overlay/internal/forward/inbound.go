package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
)

// lastWords is how long the opener has to take note of a refusal.
const lastWords = 5 * time.Second

// ServeStream serves one stream that the Peer opened on a Session to a TCP port
// here, and returns when it is over. ctx ends with the Session.
func (p *Peer) ServeStream(ctx context.Context, on carrier.Session, st carrier.Stream, port uint16) {
	if !p.accepts(Port{TCP, port}) {
		if p.mayLog() {
			p.log.Warn("peer tried a forbidden port", "protocol", TCP, "port", port)
		}
		Refuse(st, frame.PortForbidden)
		return
	}
	conn, err := p.dialSelf(ctx, port)
	if err != nil {
		code := frame.DialFailed
		if errors.Is(err, syscall.ECONNREFUSED) {
			code = frame.DialRefused
		}
		p.log.Debug("own port not reached", "port", port, "error", err)
		Refuse(st, code)
		return
	}
	pipe := &pipe{conn: conn, st: st, on: on, port: port, dir: inbound}
	c, ok := p.adopt(pipe)
	if !ok {
		_ = conn.SetLinger(0)
		conn.Close()
		Refuse(st, frame.LinkLimit)
		return
	}
	defer p.drop(pipe)
	if !p.stillAccepts(port) {
		pipe.abort() // the rules changed while we dialed
		return
	}
	if _, err := st.Write(frame.AppendReply(nil, frame.Accepted)); err != nil {
		pipe.abort()
		return
	}
	_ = pipe.run(c, func() error { return nil })
}

// stillAccepts is accepts for a connection that has been counted already.
func (p *Peer) stillAccepts(port uint16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.allowsLocked(Port{TCP, port})
}

// dialSelf connects to a workload of this machine at its declared address, and nowhere
// else: a listener on the same port of another address was not meant for Peers (OVL-08).
// The workload sees the Peer's VIP as the source.
func (p *Peer) dialSelf(ctx context.Context, port uint16) (*net.TCPConn, error) {
	p.mu.Lock()
	source, at := p.rules.VIP, p.cfg.SelfVIP
	if slices.Contains(p.rules.Loopback, Port{TCP, port}) {
		at = loopback
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}
	conn, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(at, port).String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// Refuse answers a stream with code and drops it.
func Refuse(st carrier.Stream, code frame.Code) {
	defer st.Reset()
	// A reset overtakes data, so the opener must first have read the answer.
	_ = st.SetDeadline(time.Now().Add(lastWords))
	if _, err := st.Write(frame.AppendReply(nil, code)); err != nil {
		return
	}
	if err := st.CloseWrite(); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(st, 1<<20))
}
