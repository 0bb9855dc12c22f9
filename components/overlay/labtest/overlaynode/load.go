package overlaynode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// serve runs the echoes and sinks.
func serve(ctx context.Context, wg *sync.WaitGroup, c Config) error {
	for _, port := range c.Echo {
		if err := listen(ctx, wg, c.VIP, port, func(conn net.Conn) { _, _ = io.Copy(conn, conn) }); err != nil {
			return err
		}
		if err := datagrams(ctx, wg, c.VIP, port, sendBack); err != nil {
			return err
		}
	}
	for _, port := range c.Stall {
		if err := listen(ctx, wg, c.VIP, port, func(net.Conn) { <-ctx.Done() }); err != nil {
			return err
		}
	}
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for _, port := range c.Canaries {
		if err := listen(ctx, wg, loopback, port, func(net.Conn) { canaries.Add(1) }); err != nil {
			return err
		}
		if err := datagrams(ctx, wg, loopback, port, func(*net.UDPConn, []byte, netip.AddrPort) { canaries.Add(1) }); err != nil {
			return err
		}
	}
	for _, port := range c.Sink {
		if err := listen(ctx, wg, c.VIP, port, func(conn net.Conn) {
			n, _ := io.Copy(io.Discard, conn)
			_, _ = io.WriteString(conn, strconv.FormatInt(n, 10))
		}); err != nil {
			return err
		}
	}
	return nil
}

// canaries counts the data that reached a forbidden service.
var canaries atomic.Int64

func listen(ctx context.Context, wg *sync.WaitGroup, vip netip.Addr, port uint16, serve func(net.Conn)) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp4", netip.AddrPortFrom(vip, port).String())
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	wg.Go(func() {
		defer stop()
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				serve(conn)
			})
		}
	})
	return nil
}

func sendBack(conn *net.UDPConn, b []byte, from netip.AddrPort) {
	_, _ = conn.WriteToUDPAddrPort(b, from)
}

func datagrams(ctx context.Context, wg *sync.WaitGroup, vip netip.Addr, port uint16, take func(*net.UDPConn, []byte, netip.AddrPort)) error {
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(vip, port)))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	wg.Go(func() {
		defer stop()
		buf := make([]byte, 65536)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			take(conn, buf[:n], from)
		}
	})
	return nil
}

// echo sends one message over a connection and waits for it to come back.
func echo(conn net.Conn, size int, limit time.Duration) (time.Duration, error) {
	_ = conn.SetDeadline(time.Now().Add(limit))
	b, begin := make([]byte, max(size, 1)), time.Now()
	if _, err := conn.Write(b); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(conn, b)
	return time.Since(begin), err
}

// echoLimit is the time after which an echo counts as lost and the client reconnects.
const echoLimit = 30 * time.Second

// watch echoes until its time is over; Dial is a watch of one echo.
func watch(ctx context.Context, r Request) (Response, error) {
	var (
		res      Response
		rtts     []time.Duration
		conn     net.Conn
		err      error
		begin    = time.Now()
		lastEcho = begin
	)
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	limit := cmp.Or(r.Limit, echoLimit)
	if r.Verb == Dial && r.For > 0 {
		limit = r.For
	}
	for ctx.Err() == nil {
		if conn == nil {
			d := net.Dialer{Timeout: limit}
			if conn, err = d.DialContext(ctx, "tcp4", r.Addr.String()); err != nil {
				conn = nil
			}
		}
		if conn != nil {
			var rtt time.Duration
			if rtt, err = echo(conn, r.Bytes, limit); err == nil {
				rtts = append(rtts, rtt)
				now := time.Now()
				res.Gap, lastEcho = max(res.Gap, now.Sub(lastEcho)), now
			} else {
				res.Reconnects++
			}
			if err != nil || r.Fresh {
				conn.Close()
				conn = nil
			}
		}
		if r.Verb == Dial && (err == nil || time.Since(begin) >= r.For) || r.Verb == Watch && time.Since(begin) >= r.For {
			break
		}
		pause(ctx, max(r.Every, time.Millisecond))
	}
	if r.Verb == Watch {
		res.Gap = max(res.Gap, time.Since(lastEcho))
		err = nil
	}
	res.Echoes, res.Took = len(rtts), time.Since(begin)
	slices.Sort(rtts)
	if len(rtts) > 0 {
		res.RTT = rtts[len(rtts)/2]
	} else if err == nil {
		err = errors.New("no echo came back")
	}
	return res, err
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// datagramEvery is how long a datagram may take before another is sent.
const datagramEvery = 200 * time.Millisecond

// datagram sends one datagram after the other until one comes back, however late: each
// may be lost. Each leaves from another port, since one port may be taken at the far
// side.
func datagram(ctx context.Context, r Request) (Response, error) {
	ctx, cancel := context.WithTimeout(ctx, r.For)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	type answer struct {
		rtt time.Duration
		err error
	}
	answers := make(chan answer)
	send := func() {
		rtt, err := oneDatagram(ctx, r)
		select {
		case answers <- answer{rtt, err}:
		case <-ctx.Done():
		}
	}
	again := time.NewTicker(datagramEvery)
	defer again.Stop()
	begin, last := time.Now(), context.DeadlineExceeded
	wg.Go(send)
	for {
		select {
		case a := <-answers:
			if a.err == nil {
				return Response{RTT: a.rtt, Echoes: 1, Took: time.Since(begin)}, nil
			}
			last = a.err
		case <-again.C:
			wg.Go(send)
		case <-ctx.Done():
			return Response{}, fmt.Errorf("no datagram came back: %w", last)
		}
	}
}

func oneDatagram(ctx context.Context, r Request) (time.Duration, error) {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(r.Addr))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	b, begin := make([]byte, max(r.Bytes, 1)), time.Now()
	if _, err := conn.Write(b); err != nil {
		return 0, err
	}
	n, err := conn.Read(make([]byte, len(b)+1))
	if err == nil && n != len(b) {
		err = fmt.Errorf("%d bytes of %d", n, len(b))
	}
	return time.Since(begin), err
}

// bulk sends to a sink as fast as it takes, and asks how much came.
func bulk(ctx context.Context, r Request) (Response, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", r.Addr.String())
	if err != nil {
		return Response{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(r.For + cmp.Or(r.Limit, echoLimit)))
	begin := time.Now()
	b := make([]byte, 128<<10)
	for time.Since(begin) < r.For && ctx.Err() == nil {
		if _, err := conn.Write(b); err != nil {
			return Response{}, err
		}
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return Response{}, err
	}
	text, err := io.ReadAll(io.LimitReader(conn, 32))
	if err != nil {
		return Response{}, err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return Response{Bytes: n, Took: time.Since(begin)}, err
}

// clog writes until the receiver accepts no more, and holds the connection for the rest
// of its time.
func clog(ctx context.Context, r Request) (Response, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", r.Addr.String())
	if err != nil {
		return Response{}, err
	}
	defer conn.Close()
	var res Response
	begin := time.Now()
	_ = conn.SetDeadline(begin.Add(r.For))
	b := make([]byte, 64<<10)
	for {
		n, err := conn.Write(b)
		res.Bytes += int64(n)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			res.Took = time.Since(begin)
			return res, nil
		}
		if err != nil {
			return res, err
		}
	}
}
