//go:build !linux

package underlay

import (
	"log/slog"
	"net"
	"syscall"
)

const bufferSize = 4 << 20

func growBuffers(conn *net.UDPConn, _ syscall.RawConn, log *slog.Logger) {
	if err := conn.SetReadBuffer(bufferSize); err != nil {
		log.Warn("udp buffers are smaller than requested", "wanted", bufferSize, "error", err)
	}
	_ = conn.SetWriteBuffer(bufferSize)
}

func enableReceive(syscall.RawConn, *slog.Logger) bool { return false }

// kernelReader reads one datagram at a time.
type kernelReader struct {
	conn   *net.UDPConn
	counts *counts
	buffer []byte
}

func newKernelReader(conn *net.UDPConn, _ syscall.RawConn, _ bool, c *counts) kernelReader {
	return kernelReader{conn: conn, counts: c, buffer: make([]byte, packetSize)}
}

func (k kernelReader) read() ([]received, error) {
	k.counts.syscallsIn.Add(1)
	n, from, err := k.conn.ReadFromUDPAddrPort(k.buffer)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, nil
	}
	return []received{{data: k.buffer[:n], segment: n, from: normal(from), ecn: ecnUnknown}}, nil
}

func segmentSize([]byte) int { return 0 }

func withoutSegmentSize(oob []byte) []byte { return oob }

var ecnControl [4][]byte
