package datagram

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between one dialer and one acceptor, and can swallow everything.
type proxy struct {
	front, back *net.UDPConn
	mute        atomic.Bool
}

func newProxy(t testing.TB, to net.Addr) *proxy {
	t.Helper()
	loopback := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}
	front, err := net.ListenUDP("udp4", loopback)
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.ListenUDP("udp4", loopback)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{front: front, back: back}
	var (
		wg   sync.WaitGroup
		from atomic.Pointer[net.UDPAddr]
	)
	_ = front.SetReadBuffer(4 << 20)
	_ = back.SetReadBuffer(4 << 20)
	pump := func(in, out *net.UDPConn, to func(*net.UDPAddr) *net.UDPAddr) {
		buf := make([]byte, 2048)
		for {
			n, src, err := in.ReadFromUDP(buf)
			if err != nil {
				return
			}
			if dst := to(src); dst != nil && !p.mute.Load() {
				_, _ = out.WriteToUDP(buf[:n], dst)
			}
		}
	}
	wg.Go(func() {
		pump(front, back, func(src *net.UDPAddr) *net.UDPAddr {
			from.Store(src)
			return to.(*net.UDPAddr)
		})
	})
	wg.Go(func() { pump(back, front, func(*net.UDPAddr) *net.UDPAddr { return from.Load() }) })
	t.Cleanup(func() {
		front.Close()
		back.Close()
		wg.Wait()
	})
	return p
}

// pairThrough is pair with a proxy between the nodes.
func pairThrough(t testing.TB, l limits) (dialer, acceptor *session, p *proxy) {
	t.Helper()
	ca := newAuthority(t)
	a, b := newNode(t, ca, "a", l), newNode(t, ca, "b", l)
	p = newProxy(t, b.addr())
	dialer, acceptor = connect(t, a, b, "b", p.front.LocalAddr())
	return dialer, acceptor, p
}
