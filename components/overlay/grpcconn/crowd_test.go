package grpcconn

import (
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"

	"cadre.dev/overlay/grpcserver"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// halfSend begins a call with size bytes of headers and does not end them. It returns the
// number of bytes written, and whether the server cut it off meanwhile.
func halfSend(conn net.Conn, size int) (sent int, cut bool) {
	framer := http2.NewFramer(conn, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	_ = encoder.WriteField(hpack.HeaderField{Name: "x-filler", Value: string(bytes.Repeat([]byte{'v'}, 4000)), Sensitive: true})
	_, err := io.WriteString(conn, http2.ClientPreface)
	if err == nil {
		err = framer.WriteSettings()
	}
	if err == nil {
		err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()})
	}
	for sent = block.Len(); sent < size && err == nil; sent += block.Len() {
		err = framer.WriteContinuation(1, false, block.Bytes())
	}
	return sent, err != nil
}

// 128 unauthenticated callers make first contacts, each with half a call of 12 MiB of headers.
// After the server cuts them off, each sends half a call that is short enough. They cost little
// memory, and another caller is served.
func TestINP01_INP08_HalfSentFirstContactsCostLittle(t *testing.T) {
	const crowd = 128
	limits := grpcserver.Limits{Message: 600 << 10, Calls: 2} // about those of admission
	ctx, cancel := context.WithCancel(t.Context())
	var served sync.WaitGroup
	t.Cleanup(func() { cancel(); served.Wait() })
	contact := func() net.Conn {
		client, server := tcpPair(t)
		// The kernel's default buffers hold less.
		for _, conn := range []net.Conn{client, server} {
			_ = conn.(*net.TCPConn).SetWriteBuffer(64 << 10)
			_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		}
		served.Go(func() {
			_ = Serve(ctx, server, registerEcho(func(_ context.Context, in []byte) ([]byte, error) { return in, nil }), limits)
		})
		return client
	}
	before := memory()
	var sending sync.WaitGroup
	for range crowd {
		long, short := contact(), contact()
		go func() { _, _ = io.Copy(io.Discard, long) }()
		go func() { _, _ = io.Copy(io.Discard, short) }()
		sending.Go(func() {
			if sent, cut := halfSend(long, 12<<20); !cut {
				t.Errorf("%d bytes of headers were taken", sent)
			}
			if sent, cut := halfSend(short, 8<<10); cut {
				t.Errorf("cut off after %d bytes", sent)
			}
		})
	}
	sending.Wait()
	cc, err := Client(contact())
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	if got, err := callEcho(ctx, cc, make([]byte, 500<<10)); err != nil || len(got) != 500<<10 {
		t.Errorf("an honest one: %d bytes, %v", len(got), err)
	}
	if cost := memory() - before; cost >= 32<<20 {
		t.Errorf("%d bytes of memory for %d callers, want less than 32 MiB", cost, crowd)
	} else {
		t.Logf("%.1f MiB for both sides of %d connections", float64(cost)/(1<<20), crowd)
	}
}

// memory is the heap of this process, in bytes.
func memory() int64 {
	runtime.GC()
	runtime.GC() // memory that finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
