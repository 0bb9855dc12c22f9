package slowlink

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// tcpFrame is the kernel's frame for body bytes of TCP in segments of size.
func tcpFrame(t testing.TB, size, body int) []byte {
	t.Helper()
	const ihl, tcp = 20, 32
	f := make([]byte, vnetLen+ihl+tcp+body)
	f[0], f[1] = flagNeedsCsum, gsoTCP4
	if body <= size {
		f[1] = gsoNone
	}
	binary.NativeEndian.PutUint16(f[2:], ihl+tcp)
	binary.NativeEndian.PutUint16(f[4:], uint16(size))
	binary.NativeEndian.PutUint16(f[6:], ihl)
	binary.NativeEndian.PutUint16(f[8:], 16)
	ip := f[vnetLen:]
	ip[0], ip[8], ip[9] = 0x45, 64, protoTCP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	binary.BigEndian.PutUint16(ip[4:], 0xfff0)
	copy(ip[12:], []byte{10, 0, 0, 1, 198, 18, 0, 2})
	binary.BigEndian.PutUint16(ip[10:], ^fold(sum(ip[:ihl])))
	th := ip[ihl:]
	binary.BigEndian.PutUint32(th[4:], 0xfffffff0)
	th[12], th[13] = tcp/4<<4, 0x10|8|1 // ack, psh, fin
	binary.BigEndian.PutUint16(th[16:], fold(sum(ip[12:20])+protoTCP+uint32(len(th))))
	for i := range body {
		th[tcp+i] = byte(i * 7)
	}
	return f
}

// udpFrame is the same for UDP.
func udpFrame(t testing.TB, size, body int) []byte {
	t.Helper()
	const ihl = 20
	f := make([]byte, vnetLen+ihl+8+body)
	f[0], f[1] = flagNeedsCsum, gsoUDP
	binary.NativeEndian.PutUint16(f[4:], uint16(size))
	binary.NativeEndian.PutUint16(f[6:], ihl)
	binary.NativeEndian.PutUint16(f[8:], 6)
	ip := f[vnetLen:]
	ip[0], ip[8], ip[9] = 0x45, 64, protoUDP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], []byte{10, 0, 0, 1, 198, 18, 0, 2})
	binary.BigEndian.PutUint16(ip[10:], ^fold(sum(ip[:ihl])))
	uh := ip[ihl:]
	binary.BigEndian.PutUint16(uh[4:], uint16(len(uh)))
	binary.BigEndian.PutUint16(uh[6:], fold(sum(ip[12:20])+protoUDP+uint32(len(uh))))
	for i := range body {
		uh[8+i] = byte(i * 11)
	}
	return f
}

func TestCutMakesTheKernelsSegments(t *testing.T) {
	for name, frame := range map[string][]byte{"tcp": tcpFrame(t, 1000, 4500), "udp": udpFrame(t, 1200, 4801)} {
		s, many := shapeOf(frame)
		if !many {
			t.Fatalf("%s: taken for one packet", name)
		}
		want := frame[vnetLen+s.head:]
		for step := 1; step <= s.count(); step++ {
			var got []byte
			for from := 0; from < s.count(); from += step {
				to := min(from+step, s.count())
				part := s.cut(nil, frame, from, to)
				check(t, name, s, frame, part, from, to)
				got = append(got, part[vnetLen+s.head:]...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s in steps of %d: the payload changed", name, step)
			}
		}
	}
}

// check looks at a part as the receiving kernel would.
func check(t *testing.T, name string, s shape, frame, part []byte, from, to int) {
	t.Helper()
	ip := part[vnetLen:]
	if got := fold(sum(ip[:20])); got != 0xffff {
		t.Errorf("%s %d-%d: header checksum leaves %#x", name, from, to, got)
	}
	if got := int(binary.BigEndian.Uint16(ip[2:])); got != len(ip) {
		t.Errorf("%s %d-%d: length %d of %d", name, from, to, got, len(ip))
	}
	if first := binary.BigEndian.Uint16(frame[vnetLen+4:]); binary.BigEndian.Uint16(ip[4:]) != first+uint16(from) {
		t.Errorf("%s %d-%d: identification is not that of its first segment", name, from, to)
	}
	th := ip[20:]
	at := 16
	if s.udp {
		at = 6
		if got := int(binary.BigEndian.Uint16(th[4:])); got != len(th) {
			t.Errorf("udp %d-%d: length %d of %d", from, to, got, len(th))
		}
	} else {
		first := binary.BigEndian.Uint32(frame[vnetLen+24:])
		if got := binary.BigEndian.Uint32(th[4:]); got != first+uint32(from*s.size) {
			t.Errorf("tcp %d-%d: sequence number %#x", from, to, got)
		}
		if last := to == s.count(); (th[13]&(8|1) != 0) != last {
			t.Errorf("tcp %d-%d: flags %#x", from, to, th[13])
		}
	}
	if got, want := binary.BigEndian.Uint16(th[at:]), fold(sum(ip[12:20])+uint32(ip[9])+uint32(len(th))); got != want {
		t.Errorf("%s %d-%d: checksum so far %#x, want %#x", name, from, to, got, want)
	}
	if one := to-from == 1; (part[1] == gsoNone) != one || one && len(ip) != s.bytes(from) {
		t.Errorf("%s %d-%d: kind %d, %d bytes", name, from, to, part[1], len(ip))
	}
}

func FuzzOffer(f *testing.F) {
	f.Add(tcpFrame(f, 1000, 4500))
	f.Add(udpFrame(f, 1200, 4801))
	for _, at := range []int{vnetLen, vnetLen + 32} { // header lengths of 0
		odd := tcpFrame(f, 1, 30)
		odd[at] &= 0xf0
		odd[vnetLen+32] &= 0x0f
		f.Add(odd)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) <= vnetLen || len(frame) > maxFrame {
			return
		}
		d := direction{line: newLine(Params{RateMbps: 10, Loss: 0.1, Reorder: 0.1}, 1)}
		d.offer(0, frame)
		for _, ok := d.next(); ok; _, ok = d.next() {
			d.recycle(d.take())
		}
		if d.fly != 0 {
			t.Errorf("%d bytes stay", d.fly)
		}
	})
}
