package datagram

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"cadre.dev/overlay/internal/carrier"
)

func TestReasonReachesTheFarSide(t *testing.T) {
	for name, c := range map[string]struct{ reason, want string }{
		"short":     {"link replaced", "closed by peer: link replaced"},
		"long":      {strings.Repeat("x", 5000), "closed by peer: " + strings.Repeat("x", maxReason)},
		"not text":  {"a\nb\x00\xff", "closed by peer: a?b??"},
		"runes cut": {strings.Repeat("ä", maxReason), "closed by peer: " + strings.Repeat("ä", maxReason/2)},
	} {
		t.Run(name, func(t *testing.T) {
			d, a := pair(t, limits{})
			a.Close(errors.New(c.reason))
			<-d.Done()
			if err := d.Err(); !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("far side's error is %q, want %q at its end", err, c.want)
			}
			if _, err := d.OpenStream(); !errors.Is(err, carrier.ErrClosed) {
				t.Errorf("open: %v", err)
			}
		})
	}
	d, _ := pair(t, limits{})
	d.Close(nil)
	if <-d.Done(); d.Err() == nil {
		t.Error("a session closed without a reason has an error without a text")
	}
}

// Opening never waits: beyond the Peer's limit it is an error, until streams end. Control
// streams do not count.
func TestStreamLimit_OVL17(t *testing.T) {
	d, a := pair(t, limits{})
	var open []carrier.Stream
	for {
		st, err := d.OpenStream()
		if err != nil {
			if !errors.Is(err, ErrStreamLimit) {
				t.Fatal(err)
			}
			break
		}
		open = append(open, st)
	}
	if len(open) != maxStreams-1 {
		t.Errorf("%d streams, want %d", len(open), maxStreams-1)
	}
	control, err := d.OpenControl()
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := a.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := accepted.(*controlStream); !ok {
		t.Fatalf("accepted a %T, want a control stream", accepted)
	}
	control.Reset()
	accepted.Reset()
	for _, st := range open {
		st.Reset()
	}
	for range open {
		st, err := a.AcceptStream()
		if err != nil {
			t.Fatal(err)
		}
		st.Reset()
	}
	eventually(t, "a place for a stream", func() bool {
		st, err := d.OpenStream()
		if err == nil {
			st.Reset()
		}
		return err == nil
	})
}

// Neither goroutines nor yamux streams stay behind.
func TestStreamsLeaveNothingBehind(t *testing.T) {
	d, a := pair(t, limits{})
	for _, s := range []*session{d, a} {
		if _, err := s.muxer.get(); err != nil {
			t.Fatal(err)
		}
	}
	before := runtime.NumGoroutine()
	for i := range 1000 {
		open := d.OpenStream
		if i%2 == 0 {
			open = d.OpenControl
		}
		st, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		other, err := a.AcceptStream()
		if err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 0:
			st.Reset()
			_, _ = io.Copy(io.Discard, other)
			other.Reset()
		case 1:
			other.Reset()
			st.Reset()
		default:
			for _, s := range []carrier.Stream{st, other} {
				if err := s.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range []carrier.Stream{st, other} {
				if _, err := io.Copy(io.Discard, s); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	eventually(t, "streams and goroutines to go", func() bool {
		return d.muxer.peek().NumStreams() == 0 && a.muxer.peek().NumStreams() == 0 && runtime.NumGoroutine() <= before+2
	})
}

// The test restarts the Peer as another process on the same socket. The old Session stays
// until it is closed, and does not disturb the new one.
func TestRestartedPeerOnTheSameAddress(t *testing.T) {
	ca := newAuthority(t)
	a, b := newNode(t, ca, "a", limits{}), newNode(t, ca, "b", limits{})
	old, _ := connect(t, a, b, "b", b.addr())
	if err := b.Close(); err != nil { // without a word
		t.Fatal(err)
	}
	again := nodeOn(t, ca, "b", limits{}, b.conn)
	near, far := connect(t, a, again, "b", again.addr())
	if err := old.Err(); err != nil {
		t.Errorf("the old session ended without a close: %v", err)
	}
	old.Close(errors.New("peer has a new boot"))
	<-old.Done()
	st, err := far.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	other, err := near.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(other, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	st.Reset()
	other.Reset()
}
