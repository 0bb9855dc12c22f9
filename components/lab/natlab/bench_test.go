package natlab

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkTCPOverLink is one kernel TCP stream (BBR) through two port restricted NATs'
// links to a public host. A run moves the link's bytes of three seconds; of-link is the
// share of its rate that the stream had in the last two.
func BenchmarkTCPOverLink(b *testing.B) {
	for _, loss := range []float64{0, 0.01} {
		b.Run(fmt.Sprintf("200Mbps/20ms/loss=%v", loss), func(b *testing.B) {
			benchLink(b, Link{Delay: 10 * time.Millisecond, RateMbps: 200, Loss: loss}, 200)
		})
	}
	b.Run("plain", func(b *testing.B) { benchLink(b, Link{}, 0) })
}

func benchLink(b *testing.B, k Link, mbps int) {
	l := open(b)
	server := public(b, l, "server")
	client := behind(b, l, "client", PortRestricted, k)
	var ln net.Listener
	if err := server.Inside(func() (err error) {
		ln, err = net.Listen("tcp4", server.Addr().String()+":0")
		return err
	}); err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	received := make(chan float64)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 1<<20)
			var counted int64
			start := time.Now()
			warm := start.Add(time.Second)
			for {
				n, err := c.Read(buf)
				if time.Now().After(warm) {
					if counted == 0 {
						warm = time.Now()
					}
					counted += int64(n)
				}
				if err != nil {
					break
				}
			}
			c.Close()
			received <- float64(counted) * 8 / 1e6 / time.Since(warm).Seconds()
		}
	}()
	const lasts = 3 * time.Second
	var got, busy float64
	for b.Loop() {
		before, _ := l.Counts("client")
		var c net.Conn
		if err := client.Inside(func() (err error) {
			d := net.Dialer{Control: func(_, _ string, rc syscall.RawConn) (err error) {
				return rc.Control(func(fd uintptr) {
					err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "bbr")
				})
			}}
			c, err = d.Dial("tcp4", ln.Addr().String())
			return err
		}); err != nil {
			b.Fatal(err)
		}
		_ = c.SetWriteDeadline(time.Now().Add(lasts))
		_, _ = io.CopyBuffer(struct{ io.Writer }{c}, zeros{}, make([]byte, 256<<10))
		c.Close()
		got += <-received
		after, err := l.Counts("client")
		if err == nil {
			busy += (after.CPU - before.CPU).Seconds() / lasts.Seconds()
		}
	}
	b.ReportMetric(got/float64(b.N), "Mbps")
	if mbps > 0 {
		b.ReportMetric(got/float64(b.N)/float64(mbps), "of-link")
		b.ReportMetric(100*busy/float64(b.N), "emulator-%cpu")
		n, err := l.Counts("client")
		if err != nil {
			b.Fatal(err)
		}
		b.Logf("out %+v", n.Out)
		b.Logf("in  %+v", n.In)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
