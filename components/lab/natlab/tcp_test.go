package natlab

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reuse lets several sockets have one port, as punching needs.
func reuse(_, _ string, c syscall.RawConn) error {
	var err error
	outer := c.Control(func(fd uintptr) {
		err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	})
	return errors.Join(outer, err)
}

func listenTCP(t testing.TB, h *Host) net.Listener {
	t.Helper()
	var ln net.Listener
	if err := h.Inside(func() (err error) {
		ln, err = (&net.ListenConfig{Control: reuse}).Listen(t.Context(), "tcp4", netip.AddrPortFrom(h.Addr(), 0).String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// dialTCP connects from a port of h, 0 any.
func dialTCP(ctx context.Context, h *Host, port int, to netip.AddrPort, within time.Duration) (c net.Conn, err error) {
	err = h.Inside(func() (err error) {
		d := net.Dialer{Timeout: within, LocalAddr: &net.TCPAddr{IP: net.IP(h.Addr().AsSlice()), Port: port}, Control: reuse}
		c, err = d.DialContext(ctx, "tcp4", to.String())
		return err
	})
	return c, err
}

// reflector returns to each TCP client the client's address as it sees it.
func reflector(t testing.TB, h *Host) netip.AddrPort {
	t.Helper()
	ln := listenTCP(t, h)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, c.RemoteAddr().String())
			c.Close()
		}
	})
	t.Cleanup(func() { ln.Close(); served.Wait() })
	return netip.MustParseAddrPort(ln.Addr().String())
}

// mappedTCP is the address that the reflector sees port of h at.
func mappedTCP(t testing.TB, h *Host, port int, at netip.AddrPort) netip.AddrPort {
	t.Helper()
	c, err := dialTCP(t.Context(), h, port, at, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddrPort(string(text))
}

func TestTCPMappingAndUnsolicited(t *testing.T) {
	l := open(t)
	p, q := public(t, l, "p"), public(t, l, "q")
	rp, rq := reflector(t, p), reflector(t, q)
	for _, c := range []struct {
		name string
		nat  NAT
		same bool
		want error // of an unsolicited connection; nil: accepted
	}{
		{"drop", PortRestricted, true, context.DeadlineExceeded},
		{"reset", NAT{RejectSYN: true}, true, syscall.ECONNREFUSED},
		{"symmetric", Symmetric, false, context.DeadlineExceeded},
		{"full cone", FullCone, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := behind(t, l, c.name, c.nat, Link{})
			ln := listenTCP(t, h)
			port := ln.Addr().(*net.TCPAddr).Port
			first, second := mappedTCP(t, h, port, rp), mappedTCP(t, h, port, rq)
			if (first == second) != c.same {
				t.Errorf("seen from %s and %s", first, second)
			}
			wait := 20 * time.Second
			if errors.Is(c.want, context.DeadlineExceeded) {
				wait = 300 * time.Millisecond
			}
			conn, err := dialTCP(t.Context(), q, 0, first, wait)
			if err == nil {
				conn.Close()
			}
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				err = context.DeadlineExceeded
			}
			if !errors.Is(err, c.want) {
				t.Errorf("an unsolicited connection ends with %v, want %v", err, c.want)
			}
		})
	}
}

func TestTCPSimultaneousOpen(t *testing.T) {
	l := open(t)
	r := reflector(t, public(t, l, "p"))
	var hosts [2]*Host
	var ports [2]int
	var at [2]netip.AddrPort
	for i, name := range []string{"a", "b"} {
		// Delay lets the opening packets cross.
		hosts[i] = behind(t, l, name, PortRestricted, Link{Delay: 20 * time.Millisecond})
		ports[i] = listenTCP(t, hosts[i]).Addr().(*net.TCPAddr).Port
		at[i] = mappedTCP(t, hosts[i], ports[i], r)
	}
	var conns [2]net.Conn
	var errs [2]error
	var wg sync.WaitGroup
	for i := range hosts {
		wg.Go(func() { conns[i], errs[i] = dialTCP(t.Context(), hosts[i], ports[i], at[1-i], 20*time.Second) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for _, c := range conns {
		defer c.Close()
	}
	if _, err := io.WriteString(conns[0], "through"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 7)
	if _, err := io.ReadFull(conns[1], buf); err != nil || string(buf) != "through" {
		t.Errorf("read %q, %v", buf, err)
	}
}

// maxSegment bounds the segments of a connection to be made.
func maxSegment(mss int) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		outer := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, mss) })
		return errors.Join(outer, err)
	}
}
