package carriertest

import (
	"errors"
	"io"
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

// Pair makes both ends of a Session. The Session ends with the test.
type Pair func(t *testing.T) (dialer, acceptor carrier.Session)

// Run runs the contract, each clause on Sessions of its own.
func Run(t *testing.T, pair Pair) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, near, far side)
	}{
		{"bytes go both ways and end cleanly", roundTrip},
		{"one direction ends before the other", halfClose},
		{"large transfers go both ways at once", bulk},
		{"a reset ends blocked calls", resetBlocked},
		{"a reset overtakes data", resetOvertakes},
		{"a reset before the first byte", resetUnused},
		{"a reset after a clean end changes nothing", resetAfterEnd},
		{"a reset after the own end ends the other side's writes", resetAfterCloseWrite},
		{"a refusal is read before the reset", refusal},
		{"deadlines pass and can be moved", deadlines},
		{"stalled readers stall no other stream", stalled},
		{"streams end and free their places", manyStreams},
		{"streams are reset in any order", storm},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, a := pair(t)
			for _, kind := range []string{"stream", "control"} {
				dialer, acceptor := side{Session: d, kind: kind}, side{Session: a, kind: kind}
				t.Run("dialer's "+kind, func(t *testing.T) { c.test(t, dialer, acceptor) })
				t.Run("acceptor's "+kind, func(t *testing.T) { c.test(t, acceptor, dialer) })
			}
		})
	}
	t.Run("pings are answered during bulk data", func(t *testing.T) { pings(t, pair) })
	t.Run("datagrams of every size", func(t *testing.T) { datagramSizes(t, pair) })
	t.Run("sending datagrams never waits", func(t *testing.T) { datagramFlood(t, pair) })
	t.Run("the end reaches every call", func(t *testing.T) { endReachesAll(t, pair) })
	t.Run("the first reason counts", func(t *testing.T) { firstReason(t, pair) })
	t.Run("statistics", func(t *testing.T) { statistics(t, pair) })
}

// patience is how long anything here may take on a busy machine.
const patience = 20 * time.Second

// side is one end of a Session, with the kind of stream to open.
type side struct {
	carrier.Session
	kind string
}

func (s side) open(t testing.TB) carrier.Stream {
	t.Helper()
	open := s.OpenStream
	if s.kind == "control" {
		open = s.OpenControl
	}
	st, err := open()
	if err != nil {
		t.Fatalf("open %s: %v", s.kind, err)
	}
	return st
}

// ends gives both ends of one stream that s opens. A stream may not be there
// for the other side before its first byte is: that is sent and read already.
func (s side) ends(t testing.TB, far side) (carrier.Stream, carrier.Stream) {
	t.Helper()
	near := s.open(t)
	if _, err := near.Write([]byte{42}); err != nil {
		t.Fatal(err)
	}
	other, err := far.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []carrier.Stream{near, other} {
		if err := st.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	var first [1]byte
	if _, err := io.ReadFull(other, first[:]); err != nil || first[0] != 42 {
		t.Fatalf("first byte %v, error %v", first, err)
	}
	return near, other
}

// finish ends a completed stream, in both directions.
func finish(t testing.TB, near, far carrier.Stream) {
	t.Helper()
	for _, st := range []carrier.Stream{near, far} {
		if err := st.CloseWrite(); err != nil {
			t.Errorf("half-close: %v", err)
		}
	}
	for _, st := range []carrier.Stream{near, far} {
		wantEOF(t, st)
	}
}

func wantEOF(t testing.TB, st carrier.Stream) {
	t.Helper()
	if b, err := io.ReadAll(st); err != nil || len(b) != 0 {
		t.Errorf("got %d bytes and %v, want a clean end", len(b), err)
	}
}

// wantReset reads and writes until both fail, as they must.
func wantReset(t testing.TB, st carrier.Stream) {
	t.Helper()
	_ = st.SetDeadline(time.Now().Add(patience))
	buf := make([]byte, 32<<10)
	for {
		if _, err := st.Read(buf); err != nil {
			wantIs(t, "read", err, carrier.ErrReset)
			break
		}
	}
	for {
		if _, err := st.Write(buf); err != nil {
			wantIs(t, "write", err, carrier.ErrReset)
			break
		}
	}
	wantIs(t, "half-close", st.CloseWrite(), carrier.ErrReset)
}

func wantIs(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || errors.Is(err, io.EOF) {
		t.Errorf("%s ended with %v, want %v", what, err, want)
	}
}

// eventually waits for a condition that nothing signals.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited too long for: %s", what)
		}
	}
}
