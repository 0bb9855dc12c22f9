package frame

import (
	"bytes"
	"errors"
	"testing"
)

func TestHeaderRoundTrip(t *testing.T) {
	for _, h := range []Header{
		{KindSignal, 0}, {KindUDP, 0}, {KindControl1, 0}, {KindControl2, 0}, {KindBench, 0}, {KindTCP, 1}, {KindTCP, 65535},
	} {
		got, err := ParseHeader(h.Append(nil))
		if err != nil || got != h {
			t.Errorf("header %v: got %v, error %v", h, got, err)
		}
	}
}

func TestInvalidFrames_OVL16(t *testing.T) {
	header := func(b ...byte) error { _, err := ParseHeader(b); return err }
	datagram := func(b ...byte) error { _, err := ParseDatagram(b); return err }
	reply := func(b ...byte) error { _, err := ReadReply(bytes.NewReader(b)); return err }
	greeting := func(s string) error { _, err := ReadGreeting(bytes.NewReader([]byte(s))); return err }
	signal := func(b ...byte) error { _, err := ReadSignal(bytes.NewReader(b)); return err }
	for name, err := range map[string]error{
		"header too short":         header(1, 5, 0),
		"header too long":          header(1, 5, 0, 80, 0),
		"header of version 0":      header(0, 5, 0, 80),
		"header of kind 0":         header(1, 0, 0, 80),
		"tcp to port 0":            header(1, 5, 0, 0),
		"control with a port":      header(1, 3, 0, 80),
		"datagram without ports":   datagram(0, 1, 0),
		"datagram from port 0":     datagram(0, 0, 0, 1),
		"datagram to port 0":       datagram(0, 1, 0, 0),
		"datagram too long":        datagram(make([]byte, MaxDatagram+1)...),
		"reply of version 2":       reply(2, 1),
		"reply without an answer":  reply(1, 0),
		"reply of unknown code":    reply(1, 200),
		"greeting of another kind": greeting("HTTP/"),
		"signal of kind 0":         signal(0, 0, 0, 0, 1),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, ErrInvalid)
		}
	}
}

func TestPrefixedBounds(t *testing.T) {
	buf := make([]byte, MaxDatagram)
	for _, in := range [][]byte{{0, 0}, {0, 3, 1, 2, 3}, {0xff, 0xff}} {
		if _, err := ReadPrefixed(bytes.NewReader(in), buf); !errors.Is(err, ErrInvalid) {
			t.Errorf("length %x: got %v, want %v", in, err, ErrInvalid)
		}
	}
	if _, err := ReadPrefixed(bytes.NewReader([]byte{0, 5, 1}), buf); err == nil {
		t.Error("a datagram that ends early was read")
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(Header{KindTCP, 5432}.Append(nil))
	f.Add([]byte{1, 1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ReadHeader(bytes.NewReader(b))
		if err != nil {
			return
		}
		if got := h.Append(nil); !bytes.Equal(got, b[:HeaderSize]) {
			t.Errorf("header %x parses to %v, which encodes to %x", b[:HeaderSize], h, got)
		}
		if (h.Kind == KindTCP) != (h.Port != 0) {
			t.Errorf("header %v got through", h)
		}
	})
}

func FuzzDatagrams(f *testing.F) {
	f.Add(AppendPrefixed(nil, Datagram{8301, 8301, []byte("gossip")}.Append(nil)))
	f.Add([]byte{0xff, 0xff, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		buf := make([]byte, MaxDatagram)
		for {
			at := len(b) - r.Len()
			raw, err := ReadPrefixed(r, buf)
			if err != nil {
				return
			}
			if n := PrefixedLen(b[at:]); n != PrefixedSize(len(raw)) {
				t.Fatalf("length %d of a datagram of %d bytes", n, len(raw))
			}
			d, err := ParseDatagram(raw)
			if err != nil {
				continue
			}
			if got := d.Append(nil); !bytes.Equal(got, raw) {
				t.Fatalf("datagram %x encodes to %x", raw, got)
			}
		}
	})
}

func FuzzReplyGreetingSignal(f *testing.F) {
	f.Add(AppendGreeting(nil, Accepted))
	f.Add(AppendReply(nil, PortForbidden))
	f.Add(Signal{SignalReset, 3}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ReadReply(bytes.NewReader(b)); err == nil && !bytes.HasPrefix(b, AppendReply(nil, c)) {
			t.Errorf("reply %x read as %v", b, c)
		}
		if c, err := ReadGreeting(bytes.NewReader(b)); err == nil && !bytes.HasPrefix(b, AppendGreeting(nil, c)) {
			t.Errorf("greeting %x read as %v", b, c)
		}
		if s, err := ReadSignal(bytes.NewReader(b)); err == nil && !bytes.HasPrefix(b, s.Append(nil)) {
			t.Errorf("signal %x read as %v", b, s)
		}
	})
}
