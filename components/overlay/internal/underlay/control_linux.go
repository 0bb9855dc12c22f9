package underlay

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// controlMessage takes the first control message off b; false at the end. A malformed
// message counts as the end.
func controlMessage(b []byte) (level, kind int32, value, rest []byte, ok bool) {
	head := unix.CmsgLen(0)
	if len(b) < head {
		return 0, 0, nil, nil, false
	}
	var size uint64
	if word := head - 8; word == 8 {
		size = binary.NativeEndian.Uint64(b)
	} else {
		size = uint64(binary.NativeEndian.Uint32(b))
	}
	if size < uint64(head) || size > uint64(len(b)) {
		return 0, 0, nil, nil, false
	}
	level = int32(binary.NativeEndian.Uint32(b[head-8:]))
	kind = int32(binary.NativeEndian.Uint32(b[head-4:]))
	space := min(unix.CmsgSpace(int(size)-head), len(b))
	return level, kind, b[head:size], b[space:], true
}

// segmentSize finds the segment size among the control messages of a send, 0
// when there is none.
func segmentSize(oob []byte) int {
	for {
		level, kind, value, rest, ok := controlMessage(oob)
		if !ok {
			return 0
		}
		if level == unix.IPPROTO_UDP && kind == unix.UDP_SEGMENT && len(value) >= 2 {
			return int(binary.NativeEndian.Uint16(value))
		}
		oob = rest
	}
}

// withoutSegmentSize copies all control messages but the segment size.
func withoutSegmentSize(oob []byte) []byte {
	var out []byte
	for {
		level, kind, _, rest, ok := controlMessage(oob)
		if !ok {
			return out
		}
		if level != unix.IPPROTO_UDP || kind != unix.UDP_SEGMENT {
			out = append(out, oob[:len(oob)-len(rest)]...)
		}
		oob = rest
	}
}

// ecnControl has, for each value of the ECN bits, the control message that reports the
// value to a reader, as the kernel would.
var ecnControl = func() (all [4][]byte) {
	for bits := range all {
		b := make([]byte, unix.CmsgSpace(1))
		head := unix.CmsgLen(0)
		if head-8 == 8 {
			binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(1)))
		} else {
			binary.NativeEndian.PutUint32(b, uint32(unix.CmsgLen(1)))
		}
		binary.NativeEndian.PutUint32(b[head-8:], unix.IPPROTO_IP)
		binary.NativeEndian.PutUint32(b[head-4:], unix.IP_TOS)
		b[head] = byte(bits)
		all[bits] = b
	}
	return all
}()
