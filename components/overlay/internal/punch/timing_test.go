package punch

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestFirstSYN(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		controlling bool
		oneWay      time.Duration
		kind        Kind
		want        time.Duration
	}{
		{false, 20 * ms, Mapped, 0},
		{true, 20 * ms, Mapped, 25 * ms},
		{true, 80 * ms, Mapped, 90 * ms},
		{true, 0, Mapped, minMargin},
		{true, -time.Hour, Mapped, minMargin},
		{true, time.Hour, Mapped, maxOneWay + maxOneWay/8},
		{true, 20 * ms, Host, 0},
		{true, 20 * ms, Listen, 0},
	} {
		if got := newTiming(c.controlling, c.oneWay).first(c.kind); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// With any round trip, a candidate that keeps refusing gets a bounded number of SYNs in a
// bounded time. The SYNs last long enough that a far side that begins late meets one.
func TestOVL09_RefusedCandidatesAreTriedBoundedly(t *testing.T) {
	for _, rtt := range []time.Duration{0, time.Millisecond, 40 * time.Millisecond, 400 * time.Millisecond} {
		for _, jitter := range []float64{0.25, 0.5, 0.75} {
			since, syns := rtt, 1
			for {
				wait, ok := timing{}.again(syns, since, jitter)
				if !ok {
					break
				}
				if wait < minGap/2 || wait > refusedTime/10 {
					t.Fatalf("waits %v", wait)
				}
				since += wait + rtt
				syns++
			}
			if syns > refusedTries || since > refusedTime+time.Second {
				t.Errorf("round trip %v: %d SYNs in %v", rtt, syns, since)
			}
			if since < 300*time.Millisecond {
				t.Errorf("round trip %v, jitter %v: given up after %v", rtt, jitter, since)
			}
			t.Logf("round trip %v, jitter %v: %d SYNs in %v", rtt, jitter, syns, since)
		}
	}
}

func TestReliefEnds(t *testing.T) {
	const ms = time.Millisecond
	bad := Info{MinRTT: 9 * ms, Sent: 1 << 20, Resent: 1000}
	busy := func(sent, resent uint64) Info {
		return Info{MinRTT: 9 * ms, Sent: bad.Sent + sent, Resent: bad.Resent + resent, NotSent: 1}
	}
	for name, c := range map[string]struct {
		looks int
		now   Info
		want  bool
	}{
		"too early":                  {1, Info{MinRTT: 40 * ms, Sent: bad.Sent, Resent: bad.Resent}, false},
		"round trip renewed":         {2, Info{MinRTT: 40 * ms, Sent: 1 << 30, Resent: bad.Resent}, true},
		"idle":                       {2, Info{MinRTT: 9 * ms, Sent: bad.Sent + 100, Resent: bad.Resent}, true},
		"stuck":                      {2, busy(100, 0), false},
		"busy":                       {2, busy(100<<20, 0), false},
		"busy and losing a little":   {9, busy(100<<20, 100<<10), false},
		"busy and losing too much":   {2, busy(100<<20, 1<<20), true},
		"lossy while finding a rate": {1, busy(100<<20, 1<<20), false},
	} {
		r := &relief{ping: 40 * ms, looks: c.looks, last: bad}
		if got := r.over(c.now); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestCheckRTTLeavesGoodConnectionsAlone(t *testing.T) {
	a, b := pair(t, Config{})
	x, y := connect(t.Context(), t, a, b.Candidates(), true), connect(t.Context(), t, b, a.Candidates(), false)
	conn, far := await(t, x), await(t, y)
	exchange(t, conn, far)
	in, err := conn.Info()
	if err != nil {
		t.Fatal(err)
	}
	if CheckRTT(conn, pings(in.MinRTT)) {
		t.Fatal("changed a connection whose round trip is right")
	}
	if CheckRTT(conn, pings(time.Hour, time.Hour, in.MinRTT)) {
		t.Fatal("took lost packets for a crossed handshake")
	}
	if CheckRTT(conn, func() (time.Duration, error) { return 0, io.EOF }) {
		t.Fatal("changed a connection that nothing is known of")
	}
	if in.Congestion != "bbr" {
		t.Skip("without BBR there is nothing to relieve: " + in.Congestion)
	}
	if !CheckRTT(conn, pings(time.Hour)) || CheckRTT(conn, pings(time.Hour)) {
		t.Fatal("want one change")
	}
	if in, _ := conn.Info(); in.Congestion != "cubic" {
		t.Fatalf("got %s", in.Congestion)
	}
	conn.look(conn.relief)
	if in, _ := conn.Info(); in.Congestion != "cubic" {
		t.Fatalf("got %s", in.Congestion)
	}
	conn.look(conn.relief) // idle
	if in, _ := conn.Info(); in.Congestion != "bbr" {
		t.Fatalf("got %s", in.Congestion)
	}
	if !CheckRTT(conn, pings(time.Hour)) {
		t.Fatal("may be checked again")
	}
	conn.Close()
	conn.Close()
	if CheckRTT(conn, pings(time.Hour)) || conn.relief != nil {
		t.Fatal("a closed connection must hold no timer")
	}
}

func TestReflectorThatAnswersGarbage(t *testing.T) {
	for name, text := range map[string]string{
		"HTTP":        "HTTP/1.1 400 Bad Request\r\n\r\n",
		"endless":     "\x01\x01\xff\xfc\x21\x12\xa4\x42" + strings.Repeat("x", 1<<16),
		"no address":  "\x01\x01\x00\x00\x21\x12\xa4\x42" + strings.Repeat("x", 12),
		"odd length":  "\x01\x01\x00\x03\x21\x12\xa4\x42" + strings.Repeat("x", 15),
		"end at once": "",
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = far.Read(make([]byte, 1024))
				_, _ = far.Write([]byte(text))
				far.Close()
			}()
			addr, _, err := mappedAddress(t.Context(), near)
			near.Close()
			<-done
			if err == nil {
				t.Fatalf("got %v", addr)
			}
		})
	}
}

func FuzzReadMessage(f *testing.F) {
	f.Add("\x01\x01\x00\x0c\x21\x12\xa4\x42abcdefghijkl\x00\x20\x00\x08\x00\x01\x11\x22\x33\x44\x55\x66")
	f.Fuzz(func(t *testing.T, s string) {
		r := strings.NewReader(s)
		if m, err := readMessage(r); err == nil && len(s)-r.Len() != stunHeader+int(m.Length) {
			t.Fatalf("read %d bytes for a message of %d", len(s)-r.Len(), m.Length)
		}
	})
}
