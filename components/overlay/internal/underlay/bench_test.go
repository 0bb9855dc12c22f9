package underlay

import (
	"io"
	"net"
	"testing"

	"golang.org/x/net/ipv4"
)

// One QUIC stream between two sockets on the loopback, both ends in one process:
// compare the lines with each other only.
func BenchmarkStream(b *testing.B) {
	b.Run("underlay", func(b *testing.B) {
		x, y := joined(b)
		benchStream(b, x.s.QUIC(), y.s.QUIC(), x.VirtualAddr())
	})
	b.Run("bare", func(b *testing.B) {
		x, y := udp(b), udp(b)
		b.Cleanup(func() { _ = x.Close(); _ = y.Close() })
		benchStream(b, x, y, y.LocalAddr())
	})
	b.Run("bare without offload", func(b *testing.B) {
		b.Setenv("QUIC_GO_DISABLE_GSO", "1")
		x, y := udp(b), udp(b)
		b.Cleanup(func() { _ = x.Close(); _ = y.Close() })
		benchStream(b, x, y, y.LocalAddr())
	})
	b.Run("relay", func(b *testing.B) {
		x, y := twoLinks(b)
		joinRelay(x, y, "relay")
		waitFor(b, "a path", func() bool { return up(x) && up(y) })
		benchStream(b, x.s.QUIC(), y.s.QUIC(), x.VirtualAddr())
	})
}

func benchStream(b *testing.B, x, y net.PacketConn, to net.Addr) {
	near, far := quicPair(b, x, y, to)
	const chunk = 128 << 10
	buf := make([]byte, chunk)
	done := make(chan error, 1)
	b.SetBytes(chunk)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		_, err := io.CopyN(io.Discard, far, int64(b.N)*chunk)
		done <- err
	}()
	for range b.N {
		if _, err := near.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)*chunk*8/1e6/b.Elapsed().Seconds(), "Mbps")
}

// The shim alone: no QUIC, full batches, one datagram a write.
func BenchmarkShim(b *testing.B) {
	x, y := joined(b)
	payload := make([]byte, 1400)
	payload[0] = 0x40
	to := x.VirtualAddr()
	go func() {
		ms := make([]ipv4.Message, 8)
		for i := range ms {
			ms[i].Buffers, ms[i].OOB = [][]byte{make([]byte, 2048)}, make([]byte, 128)
		}
		for {
			if _, err := y.s.quic.ReadBatch(ms, 0); err != nil {
				return
			}
		}
	}()
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := x.s.QUIC().WriteTo(payload, to); err != nil {
			b.Fatal(err)
		}
	}
}
