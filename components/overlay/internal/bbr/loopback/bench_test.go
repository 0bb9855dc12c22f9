package loopback_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	quic "github.com/apernet/quic-go"

	"cadre.dev/overlay/internal/bbr"
)

// Real QUIC over loopback, stock controller against ours, with and without a
// lossy link in between. The link is a user-space proxy on the same processors:
// compare figures of one run only.

const (
	benchWarmUp = 2 * time.Second
	benchTime   = 5 * time.Second
)

// BenchmarkLoopback is the clean path: neither controller may be the bottleneck.
func BenchmarkLoopback(b *testing.B) {
	for _, k := range []kind{stock, ours} {
		b.Run(string(k), func(b *testing.B) { transfer(b, k, 1, nil) })
	}
}

// BenchmarkLossyLink is 200 Mbps, 20 ms and a buffer of one such product.
func BenchmarkLossyLink(b *testing.B) {
	for _, loss := range []float64{0, 0.01, 0.05} {
		for _, k := range []kind{stock, ours, parallel} {
			b.Run(fmt.Sprintf("loss=%v/%s", loss, k), func(b *testing.B) {
				connections := 1
				if k == parallel {
					connections = 8
				}
				transfer(b, k, connections, &link{mbps: 200, oneWay: 10 * time.Millisecond, buffer: 500_000, loss: loss})
			})
		}
	}
}

// BenchmarkLongLink is 200 Mbps and 100 ms.
func BenchmarkLongLink(b *testing.B) {
	for _, loss := range []float64{0, 0.01} {
		for _, k := range []kind{stock, ours} {
			b.Run(fmt.Sprintf("loss=%v/%s", loss, k), func(b *testing.B) {
				transfer(b, k, 1, &link{mbps: 200, oneWay: 50 * time.Millisecond, buffer: 2_500_000, loss: loss})
			})
		}
	}
}

type kind string

const (
	stock    kind = "stock"
	ours     kind = "bbr"
	parallel kind = "stock-8-connections"
)

// transfer sends over so many connections and reports the bytes received in benchTime,
// without the first seconds.
func transfer(b *testing.B, k kind, connections int, l *link) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	server, client := benchTLS(b)
	conf := &quic.Config{
		InitialPacketSize: uint16(bbr.InitialDatagramSize), MaxIdleTimeout: 30 * time.Second,
		InitialStreamReceiveWindow: 4 << 20, MaxStreamReceiveWindow: 16 << 20,
		InitialConnectionReceiveWindow: 6 << 20, MaxConnectionReceiveWindow: 24 << 20,
	}
	far := benchSocket(b)
	ln, err := (&quic.Transport{Conn: far}).Listen(server, conf)
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	to := far.LocalAddr().(*net.UDPAddr)
	if l != nil {
		to = l.open(ctx, b, to)
	}
	var received atomic.Int64
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		for {
			c, err := ln.Accept(ctx)
			if err != nil {
				return
			}
			group.Go(func() { drainConnection(ctx, c, &received) })
		}
	})
	for range connections {
		tr := &quic.Transport{Conn: benchSocket(b)}
		c, err := tr.Dial(ctx, to, client, conf)
		if err != nil {
			b.Fatal(err)
		}
		defer c.CloseWithError(0, "")
		if k == ours {
			bbr.Install(c)
		}
		s, err := c.OpenStreamSync(ctx)
		if err != nil {
			b.Fatal(err)
		}
		group.Go(func() {
			chunk := make([]byte, 128<<10)
			for {
				if _, err := s.Write(chunk); err != nil {
					return
				}
			}
		})
		defer s.CancelWrite(0)
	}
	<-time.After(benchWarmUp)
	if l != nil {
		l.passed.Store(0)
		l.dropped.Store(0)
		l.waited.Store(0)
	}
	var before, after syscall.Rusage
	b.ResetTimer()
	for range b.N {
		start, at := received.Load(), time.Now()
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		<-time.After(benchTime)
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
		n := received.Load() - start
		mbps := float64(n) * 8 / 1e6 / time.Since(at).Seconds()
		b.ReportMetric(mbps, "Mbps")
		cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
		b.ReportMetric(cpu.Seconds()/(float64(n)/1e9), "cpu-s/GB")
		if l != nil {
			b.ReportMetric(mbps/l.mbps, "share")
			b.ReportMetric(float64(l.waited.Load())/1e6/float64(max(1, l.passed.Load())), "queue-ms")
			b.ReportMetric(100*float64(l.dropped.Load())/float64(max(1, l.passed.Load())), "overflow-%")
		}
	}
	b.StopTimer()
}

func drainConnection(ctx context.Context, c *quic.Conn, received *atomic.Int64) {
	stop := context.AfterFunc(ctx, func() { _ = c.CloseWithError(0, "") })
	defer stop()
	s, err := c.AcceptStream(ctx)
	if err != nil {
		return
	}
	buf := make([]byte, 128<<10)
	for {
		n, err := s.Read(buf)
		received.Add(int64(n))
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.CancelRead(0)
			}
			return
		}
	}
}

func benchSocket(b *testing.B) *net.UDPConn {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	_ = c.SetReadBuffer(4 << 20)
	_ = c.SetWriteBuffer(4 << 20)
	b.Cleanup(func() { c.Close() })
	return c
}

func benchTLS(b *testing.B) (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		b.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	server = &tls.Config{NextProtos: []string{"bench"}, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	client = &tls.Config{NextProtos: []string{"bench"}, RootCAs: roots, ServerName: "bench"}
	return server, client
}

// link is a proxy in front of a server: packets to the server pass a bottleneck with a
// queue and random loss, packets back are only delayed.
type link struct {
	mbps   float64
	oneWay time.Duration
	buffer int
	loss   float64

	passed, dropped, waited atomic.Int64 // packets, packets, ns in the queue
}

type delayed struct {
	at   time.Time
	data []byte
}

// open starts the proxy and gives the address to dial.
func (l *link) open(ctx context.Context, b *testing.B, server *net.UDPAddr) *net.UDPAddr {
	front := benchSocket(b)
	var group sync.WaitGroup
	b.Cleanup(group.Wait)
	context.AfterFunc(ctx, func() { front.Close() })
	backs := map[string]chan delayed{}
	group.Go(func() {
		var busy time.Time
		defer func() {
			for _, ch := range backs {
				close(ch)
			}
		}()
		for {
			buf := make([]byte, 1600)
			n, from, err := front.ReadFromUDP(buf)
			if err != nil {
				return
			}
			to, ok := backs[from.String()]
			if !ok {
				to = make(chan delayed, 1<<15)
				backs[from.String()] = to
				back, err := net.DialUDP("udp4", nil, server)
				if err != nil {
					return
				}
				_ = back.SetReadBuffer(4 << 20)
				context.AfterFunc(ctx, func() { back.Close() })
				group.Go(func() { deliver(to, func(p []byte) { _, _ = back.Write(p) }) })
				returning := make(chan delayed, 1<<15)
				group.Go(func() { deliver(returning, func(p []byte) { _, _ = front.WriteToUDP(p, from) }) })
				group.Go(func() { defer close(returning); l.back(back, returning) })
			}
			now := time.Now()
			if mrand.Float64() < l.loss {
				continue
			}
			rate := l.mbps * 1e6 / 8
			wait := max(0, busy.Sub(now))
			if int(wait.Seconds()*rate)+n > l.buffer {
				l.dropped.Add(1)
				continue
			}
			l.passed.Add(1)
			l.waited.Add(int64(wait))
			if busy.Before(now) {
				busy = now
			}
			busy = busy.Add(time.Duration(float64(n+28) / rate * 1e9))
			to <- delayed{busy.Add(l.oneWay), buf[:n]}
		}
	})
	return front.LocalAddr().(*net.UDPAddr)
}

// back delays the server's answers.
func (l *link) back(c *net.UDPConn, out chan<- delayed) {
	for {
		buf := make([]byte, 1600)
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		out <- delayed{time.Now().Add(l.oneWay), buf[:n]}
	}
}

// deliver sends each packet when it is due. It wakes up twice a millisecond at
// most: packets due together leave together.
func deliver(in <-chan delayed, send func([]byte)) {
	for p := range in {
		if d := time.Until(p.at); d > 0 {
			<-time.After(max(d, 500*time.Microsecond))
		}
		send(p.data)
	}
}
