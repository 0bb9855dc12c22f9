package overlay

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"
)

const benchChunk = 128 << 10

// pump writes b.N chunks and waits until the far side has read them all.
func pump(b *testing.B, w io.Writer, closeWrite func() error, done <-chan int64) {
	b.Helper()
	chunk := make([]byte, benchChunk)
	b.SetBytes(benchChunk)
	begin := time.Now()
	b.ResetTimer()
	for range b.N {
		if _, err := w.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	if err := closeWrite(); err != nil {
		b.Fatal(err)
	}
	got := <-done
	b.StopTimer()
	if want := int64(b.N) * benchChunk; got != want {
		b.Fatalf("%d bytes arrived, want %d", got, want)
	}
	b.ReportMetric(float64(got)*8/1e6/time.Since(begin).Seconds(), "Mbps")
}

// sink reads to the end and reports the number of bytes.
func sink(done chan<- int64) func(net.Conn) {
	return func(c net.Conn) {
		n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, benchChunk))
		done <- n
	}
}

// BenchmarkForwarded is one app's connection through two nodes.
func BenchmarkForwarded(b *testing.B) {
	w := newWorld(b)
	z := w.node("db", "z", 2)
	direct := func(c *Config) { c.Gateway.Address = z.ListenAddr().String() }
	a := w.node("db", "a", 1, direct)
	ln, port := z.listen(b)
	done := make(chan int64, 1)
	serveEach(b, ln, func(c *net.TCPConn) { sink(done)(c) })
	connect(a, z, tcpPort(port), nil)
	a.session(b, z)
	conn := a.dial(b, z, port)
	_ = conn.SetDeadline(time.Time{})
	pump(b, conn, conn.CloseWrite, done)
}

// BenchmarkTLS is TLS 1.3 on kernel TCP, without forwarding.
func BenchmarkTLS(b *testing.B) {
	cert := bootCert(b)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, DynamicRecordSizingDisabled: true})
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	done := make(chan int64, 1)
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		sink(done)(c)
	}()
	conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, DynamicRecordSizingDisabled: true})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	pump(b, conn, conn.CloseWrite, done)
	<-accepted
}

// BenchmarkSplices is two plain TCP splices: the limit of any proxy.
func BenchmarkSplices(b *testing.B) {
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan int64, 1)
	serveEach(b, backend, func(c *net.TCPConn) { sink(done)(c) })
	to := backend.Addr().String()
	for range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		next := to
		serveEach(b, ln, func(c *net.TCPConn) {
			out, err := net.Dial("tcp", next)
			if err != nil {
				return
			}
			defer out.Close()
			_, _ = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{c}, make([]byte, benchChunk))
		})
		to = ln.Addr().String()
	}
	conn, err := net.Dial("tcp", to)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	pump(b, conn, conn.(*net.TCPConn).CloseWrite, done)
}

// BenchmarkForwardedPing is the round trip of one byte.
func BenchmarkForwardedPing(b *testing.B) {
	w := newWorld(b)
	z := w.node("db", "z", 2)
	a := w.node("db", "a", 1, func(c *Config) { c.Gateway.Address = z.ListenAddr().String() })
	ln, port := z.listen(b)
	serveEach(b, ln, echo)
	connect(a, z, tcpPort(port), nil)
	conn := a.dial(b, z, port)
	_ = conn.SetDeadline(time.Time{})
	one := make([]byte, 1)
	for range b.N {
		if _, err := conn.Write(one); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, one); err != nil {
			b.Fatal(err)
		}
	}
}
