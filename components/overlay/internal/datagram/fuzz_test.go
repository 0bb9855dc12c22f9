package datagram

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"
	"unicode/utf8"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
	"github.com/hashicorp/yamux"
)

// FuzzLarge reads any bytes as the stream for large datagrams.
func FuzzLarge(f *testing.F) {
	head := frame.Header{Kind: frame.KindUDP}.Append(nil)
	f.Add(head)
	f.Add(frame.AppendPrefixed(head, []byte("abcdef")))
	f.Add(append(head, 0xff, 0xff, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		begun := false
		err := readLarge(bytes.NewReader(b), func() { begun = true }, func(d []byte) bool {
			if len(d) < frame.MinDatagram || len(d) > frame.MaxDatagram {
				t.Fatalf("datagram of %d bytes", len(d))
			}
			total += frame.PrefixedSize(len(d))
			return true
		})
		if err == nil {
			t.Fatal("the stream ended without an error")
		}
		if begun != bytes.HasPrefix(b, head) || total > len(b) {
			t.Fatalf("%x: begun %v, %d bytes of datagrams", b, begun, total)
		}
	})
}

// slowScan does scanner's work for bytes that come all at once.
func slowScan(b []byte) (found []header, passed []byte) {
	for len(b) >= yamuxHeader {
		h := header(b)
		found = append(found, h)
		n := yamuxHeader
		if h[1] == yamuxData {
			n += int(min(uint64(h.length()), uint64(len(b)-n)))
		}
		if !h.ping() {
			passed = append(passed, b[:n]...)
		}
		b = b[n:]
	}
	return found, passed
}

// FuzzScanner cuts any bytes in pieces of any size.
func FuzzScanner(f *testing.F) {
	f.Add([]byte{0, 1, 0, 8, 0, 0, 0, 3, 0, 0, 0, 0}, byte(5))
	f.Add([]byte{0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 1, 0, 8, 0, 0, 0, 3, 0, 0, 0, 0}, byte(14))
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 2, 9, 9, 0, 1, 0, 9, 0, 0, 0, 5, 0, 0, 0, 0}, byte(1))
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff, 1}, byte(3))
	f.Fuzz(func(t *testing.T, b []byte, piece byte) {
		var s scanner
		var got []header
		var passed []byte
		for rest := b; len(rest) > 0; {
			n := min(len(rest), 1+int(piece))
			in := append(slices.Clone(s.head[:s.have]), rest[:n]...)
			passed = append(passed, s.scan(in, func(h *header) { got = append(got, *h) })...)
			rest = rest[n:]
		}
		want, through := slowScan(b)
		if !slices.Equal(got, want) || !bytes.Equal(passed, through) {
			t.Fatalf("%x in pieces of %d: found %x, want %x; passed on %x, want %x", b, 1+int(piece), got, want, passed, through)
		}
	})
}

// FuzzControl feeds arbitrary bytes to the control multiplexer, which must end and
// release everything.
func FuzzControl(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0})                                     // opens a stream
	f.Add([]byte{0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0}) // and resets it
	f.Add([]byte{0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7})                                     // pings
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := net.Pipe()
		go func() {
			_, _ = far.Write(b)
			far.Close()
		}()
		drained := make(chan struct{})
		fr := &frames{conn: near, heard: func() {}, answer: func(header) {}, pong: func(uint32) {}, end: func(error) { near.Close() }}
		mux, err := yamux.Server(fr, carrier.MuxConfig(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(drained)
			for {
				if _, err := mux.AcceptStream(); err != nil {
					return
				}
			}
		}()
		<-mux.CloseChan()
		mux.Close()
		<-drained
	})
}

// FuzzReason makes any text fit for the wire and a log.
func FuzzReason(f *testing.F) {
	f.Add("peer has a new boot")
	f.Add("a\nb\xff\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := bounded(s)
		if len(got) > maxReason || !utf8.ValidString(got) || bytes.ContainsAny([]byte(got), "\n\r\x00\x1b") {
			t.Fatalf("%q becomes %q", s, got)
		}
		if bounded(got) != got {
			t.Fatalf("%q changes again", got)
		}
		if err := describe(errors.New(s)); !errors.Is(err, errLost) {
			t.Fatalf("%v", err)
		}
	})
}
