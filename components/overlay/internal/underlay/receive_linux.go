package underlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// groBuffers hold coalesced datagrams; plainBuffers hold single datagrams, when the
	// kernel does not coalesce. Larger batches gained nothing.
	groBuffers, groSize     = 4, 64 << 10
	plainBuffers, plainSize = 32, packetSize
	controlSize             = 192 // room for ECN, packet info, segment size and more
)

// enableReceive has the kernel coalesce and report ECN bits; false when it does not
// coalesce.
func enableReceive(raw syscall.RawConn, log *slog.Logger) bool {
	var gro error
	err := raw.Control(func(fd uintptr) {
		s := int(fd)
		gro = unix.SetsockoptInt(s, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
		_ = unix.SetsockoptInt(s, unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
		_ = unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
	})
	if err = errors.Join(err, gro); err != nil {
		log.Info("udp receive offload not available", "error", err)
	}
	return err == nil
}

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// kernelReader reads batches with recvmmsg. Not safe for concurrent use.
type kernelReader struct{ *kernelState }

type kernelState struct {
	raw     syscall.RawConn
	counts  *counts
	call    func(fd uintptr) bool // recv, bound once
	headers []mmsghdr
	vectors []unix.Iovec
	names   []unix.RawSockaddrInet6 // long enough for IPv4 too
	control [][controlSize]byte
	buffers [][]byte
	out     []received
	n       int
	errno   syscall.Errno
}

func newKernelReader(_ *net.UDPConn, raw syscall.RawConn, gro bool, c *counts) kernelReader {
	n, size := plainBuffers, plainSize
	if gro {
		n, size = groBuffers, groSize
	}
	k := &kernelState{
		raw: raw, counts: c,
		headers: make([]mmsghdr, n), vectors: make([]unix.Iovec, n), names: make([]unix.RawSockaddrInet6, n),
		control: make([][controlSize]byte, n), buffers: make([][]byte, n), out: make([]received, n),
	}
	k.call = k.recv
	for i := range k.headers {
		k.buffers[i] = make([]byte, size)
		k.vectors[i].Base = &k.buffers[i][0]
		k.vectors[i].SetLen(size)
		h := &k.headers[i].hdr
		h.Iov = &k.vectors[i]
		h.SetIovlen(1)
		h.Name = (*byte)(unsafe.Pointer(&k.names[i])) //nolint:gosec // how a socket address is passed
		h.Control = &k.control[i][0]
	}
	return kernelReader{k}
}

// read waits for at least one buffer. The result is valid until the next call.
func (k kernelReader) read() ([]received, error) {
	for i := range k.headers {
		k.headers[i].hdr.Namelen = unix.SizeofSockaddrInet6
		k.headers[i].hdr.SetControllen(controlSize)
		k.headers[i].hdr.Flags = 0
	}
	k.n, k.errno = 0, 0
	if err := k.raw.Read(k.call); err != nil {
		return nil, err
	}
	if k.errno != 0 {
		return nil, fmt.Errorf("receive: %w", os.NewSyscallError("recvmmsg", k.errno))
	}
	out := k.out[:0]
	for i := range k.n {
		if r, ok := k.message(i); ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// recv makes the system call; false when there is nothing yet.
func (k *kernelState) recv(fd uintptr) bool {
	for {
		k.counts.syscallsIn.Add(1)
		n, _, e := unix.Syscall6(unix.SYS_RECVMMSG, fd,
			uintptr(unsafe.Pointer(&k.headers[0])), uintptr(len(k.headers)), 0, 0, 0) //nolint:gosec // there is no wrapper
		if e == unix.EINTR {
			continue
		}
		if e == unix.EAGAIN {
			return false
		}
		k.n, k.errno = int(n), e
		if e != 0 {
			k.n = 0
		}
		return true
	}
}

// message reads the kernel's message for buffer i; false for an unusable one.
func (k *kernelState) message(i int) (received, bool) {
	h := &k.headers[i]
	r := received{data: k.buffers[i][:h.n], segment: int(h.n), ecn: ecnUnknown}
	if h.n == 0 {
		return r, false
	}
	if h.hdr.Flags&unix.MSG_TRUNC != 0 {
		k.counts.oversized.Add(1)
		return r, false
	}
	name := &k.names[i]
	switch name.Family {
	case unix.AF_INET:
		four := (*unix.RawSockaddrInet4)(unsafe.Pointer(name)) //nolint:gosec // the family says so
		r.from = netip.AddrPortFrom(netip.AddrFrom4(four.Addr), bigEndian(four.Port))
	case unix.AF_INET6:
		r.from = netip.AddrPortFrom(netip.AddrFrom16(name.Addr).Unmap(), bigEndian(name.Port))
	default:
		return r, false
	}
	control := k.control[i][:min(uint64(h.hdr.Controllen), controlSize)]
	for {
		level, kind, value, rest, ok := controlMessage(control)
		if !ok {
			return r, true
		}
		control = rest
		switch {
		case level == unix.IPPROTO_UDP && kind == unix.UDP_GRO && len(value) >= 4:
			if size := int(binary.NativeEndian.Uint32(value)); size > 0 {
				r.segment = size
			}
		case level == unix.IPPROTO_IP && kind == unix.IP_TOS && len(value) >= 1:
			r.ecn = value[0] & 3
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_TCLASS && len(value) >= 4:
			r.ecn = byte(binary.NativeEndian.Uint32(value)) & 3
		}
	}
}

// bigEndian reads a number that is in network order in memory.
func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], v)
	return binary.BigEndian.Uint16(b[:])
}
