package segment

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSmallHoldsBothWays: neither end sends larger segments, however much either says.
func TestSmallHoldsBothWays(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	far := make(chan net.Conn, 1)
	go func() {
		if c, err := ln.Accept(); err == nil {
			far <- c
		}
	}()
	near, err := (&net.Dialer{Control: Small}).DialContext(t.Context(), "tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	other := <-far
	t.Cleanup(func() { _ = other.Close() })
	for name, c := range map[string]net.Conn{"dialer": near, "listener": other} {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var info *unix.TCPInfo
		if ctl := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); ctl != nil || err != nil {
			t.Fatal(ctl, err)
		}
		if info.Snd_mss > size || info.Snd_mss < size/2 {
			t.Errorf("%s sends segments of %d bytes, want at most %d", name, info.Snd_mss, size)
		}
	}
}
