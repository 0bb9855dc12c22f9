package underlay

import (
	"net"
	"os"
	"sync/atomic"
	"testing"

	quic "github.com/apernet/quic-go"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// segments reports whether the kernel segments on the way out.
func segments(s *Socket) bool {
	var err error
	if e := s.raw.Control(func(fd uintptr) {
		_, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT)
	}); e != nil {
		return false
	}
	return err == nil
}

// plain is a UDP socket without segmentation and without coalescing; it counts its system
// calls.
type plain struct {
	*net.UDPConn
	batch   *ipv4.PacketConn
	in, out atomic.Uint64
}

func newPlain(tb testing.TB) *plain {
	c := udp(tb)
	tb.Cleanup(func() { _ = c.Close() })
	return &plain{UDPConn: c, batch: ipv4.NewPacketConn(c)}
}

func (p *plain) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	p.in.Add(1)
	return p.batch.ReadBatch(ms, flags)
}

func (p *plain) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	p.out.Add(1)
	return p.UDPConn.WriteMsgUDP(b, oob, addr)
}

var _ quic.OOBCapablePacketConn = (*plain)(nil)

// The saving depends on the machine and on its other load, and BenchmarkSystemCalls
// measures it. A late receiver finds more in a buffer, an early receiver makes more calls.
func TestOffloadIsInUse(t *testing.T) {
	const megabytes = 12
	a, b := joined(t)
	if !segments(a.s) {
		t.Skip("this kernel has no UDP_SEGMENT")
	}
	if !b.s.Stats().GRO {
		t.Skip("this kernel has no UDP_GRO")
	}
	near, far := quicPair(t, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
	beforeA, beforeB := a.s.Stats(), b.s.Stats()
	transfer(t, near, far, content(megabytes<<20, 1))
	out, in := a.s.Stats(), b.s.Stats()
	t.Logf("%d of %d datagrams segmented, %d of %d coalesced",
		out.Segmented-beforeA.Segmented, out.DatagramsOut-beforeA.DatagramsOut,
		in.Coalesced-beforeB.Coalesced, in.DatagramsIn-beforeB.DatagramsIn)
	if out.Segmented == beforeA.Segmented {
		t.Error("segmentation is not in use")
	}
	if in.Coalesced == beforeB.Coalesced {
		t.Error("coalescing is not in use")
	}
}

// The figure that all of this is for: system calls per megabyte, against a plain
// socket in the same process.
func BenchmarkSystemCalls(bm *testing.B) {
	const megabytes = 12
	report := func(bm *testing.B, out, in uint64) {
		moved := float64(megabytes * bm.N)
		bm.ReportMetric(float64(out)/moved, "sends/MB")
		bm.ReportMetric(float64(in)/moved, "receives/MB")
	}
	bm.Run("underlay", func(bm *testing.B) {
		var out, in uint64
		for bm.Loop() {
			a, b := joined(bm)
			outBefore, inBefore := a.s.Stats().SyscallsOut, b.s.Stats().SyscallsIn
			near, far := quicPair(bm, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
			transfer(bm, near, far, content(megabytes<<20, 1))
			out, in = out+a.s.Stats().SyscallsOut-outBefore, in+b.s.Stats().SyscallsIn-inBefore
		}
		report(bm, out, in)
	})
	bm.Run("plain", func(bm *testing.B) {
		bm.Setenv("QUIC_GO_DISABLE_GSO", "1")
		var out, in uint64
		for bm.Loop() {
			a, b := newPlain(bm), newPlain(bm)
			near, far := quicPair(bm, a, b, b.LocalAddr())
			transfer(bm, near, far, content(megabytes<<20, 1))
			out, in = out+a.out.Load(), in+b.in.Load()
		}
		report(bm, out, in)
	})
}

func TestSegmentSizeIsFound(t *testing.T) {
	a, b := joined(t)
	_ = b
	if got := segmentSize(ecnControl[2]); got != 0 {
		t.Errorf("segment size %d in a message without", got)
	}
	oob := append(append([]byte(nil), ecnControl[1]...), segmentControl(1234)...)
	if got := segmentSize(oob); got != 1234 {
		t.Errorf("segment size %d, want 1234", got)
	}
	if got := withoutSegmentSize(oob); string(got) != string(ecnControl[1]) {
		t.Errorf("left %x, want %x", got, ecnControl[1])
	}
	for i := range oob {
		segmentSize(oob[:i])
	}
	if err := a.out.Load().sendEach(make([]byte, 3000), oob, 1234, *a.out.Load().remote.Load()); err != nil {
		t.Error(err)
	}
}

// segmentControl is quic-go's request for segmentation.
func segmentControl(size uint16) []byte {
	b := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(ptr(b))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	*(*uint16)(ptr(b[unix.CmsgSpace(0):])) = size
	return b
}

func TestBuffersAreLarge(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only a privileged process may have large buffers")
	}
	s := open(t)
	_ = s.raw.Control(func(fd uintptr) {
		for _, opt := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
			if n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, opt); err != nil || n < 2*bufferSize {
				t.Errorf("buffer of %d, want %d: %v", n, 2*bufferSize, err)
			}
		}
	})
}
