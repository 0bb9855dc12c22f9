package carriertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
)

func datagramSizes(t *testing.T, pair Pair) {
	d, a := pair(t)
	for _, dir := range [][2]carrier.Session{{d, a}, {a, d}} {
		for _, size := range []int{frame.MinDatagram, 100, 1100, 1200, 1400, 9000, frame.MaxDatagram} {
			msg := bytes.Repeat([]byte{7}, size)
			got := deliver(t, dir[0], dir[1], msg)
			if !bytes.Equal(got, msg) {
				t.Errorf("datagram of %d bytes: got %d", size, len(got))
			}
		}
		before := dir[0].Stats().DatagramsDropped
		dir[0].SendDatagram(make([]byte, frame.MaxDatagram+1))
		if got := dir[0].Stats().DatagramsDropped; got != before+1 {
			t.Errorf("a datagram above all bounds: %d dropped, want 1", got-before)
		}
	}
}

// deliver sends msg until one like it in size arrives: datagrams may get lost.
func deliver(t *testing.T, from, to carrier.Session, msg []byte) []byte {
	t.Helper()
	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		again := time.NewTicker(500 * time.Millisecond)
		defer again.Stop()
		for {
			from.SendDatagram(msg)
			select {
			case <-again.C:
			case <-stop:
				return
			}
		}
	})
	defer sending.Wait()
	defer close(stop)
	buf := make([]byte, frame.MaxDatagram)
	for {
		got, err := to.ReceiveDatagram(buf)
		if err != nil {
			t.Fatalf("receive datagram of %d bytes: %v", len(msg), err)
		}
		if len(got) == len(msg) {
			return got
		}
	}
}

// datagramFlood sends more than the queues hold without a receiver, and then checks that
// the newest datagrams get through, in order.
func datagramFlood(t *testing.T, pair Pair) {
	d, a := pair(t)
	msg := make([]byte, 1000)
	number := uint32(0)
	send := func() {
		number++
		binary.BigEndian.PutUint32(msg, number)
		d.SendDatagram(msg)
	}
	for range 20_000 {
		send()
	}
	roundTrip(t, side{Session: d}, side{Session: a})
	if d.Stats().DatagramsDropped == 0 {
		t.Error("nothing was dropped")
	}
	flood := number
	buf := make([]byte, frame.MaxDatagram)
	for last := uint32(0); last <= flood; {
		send() // a datagram that waits for a receiver hides the datagrams behind it
		got, err := a.ReceiveDatagram(buf)
		if err != nil || len(got) != len(msg) {
			t.Fatalf("got %d bytes, error %v", len(got), err)
		}
		n := binary.BigEndian.Uint32(got)
		if n <= last {
			t.Fatalf("datagram %d after %d", n, last)
		}
		last = n
	}
}

func endReachesAll(t *testing.T, pair Pair) {
	d, a := pair(t)
	near, far := side{Session: d}, side{Session: a}
	type result struct {
		call string
		err  error
	}
	results := make(chan result, 32)
	calls := 0
	blocked := func(name string, call func() error) {
		calls++
		go func() { results <- result{name, call()} }()
	}
	var streams []carrier.Stream
	for _, kind := range []string{"stream", "control"} {
		near.kind = kind
		st, other := near.ends(t, far)
		full, _ := near.ends(t, far)
		streams = append(streams, st, other)
		for _, s := range []carrier.Stream{st, other, full} {
			_ = s.SetDeadline(time.Time{})
		}
		blocked("read here", func() error { _, err := st.Read(make([]byte, 1)); return err })
		blocked("read there", func() error { _, err := other.Read(make([]byte, 1)); return err })
		blocked("write", func() error {
			for {
				if _, err := full.Write(make([]byte, 1<<20)); err != nil {
					return err
				}
			}
		})
	}
	for _, s := range []carrier.Session{d, a} {
		blocked("accept", func() error { _, err := s.AcceptStream(); return err })
		blocked("receive", func() error { _, err := s.ReceiveDatagram(make([]byte, frame.MaxDatagram)); return err })
	}
	if err := d.Err(); err != nil {
		t.Errorf("a live session has the error %v", err)
	}
	reason := errors.New("had enough")
	d.Close(reason)
	for range calls {
		r := <-results
		wantIs(t, r.call, r.err, carrier.ErrClosed)
	}
	for name, s := range map[string]carrier.Session{"closing side": d, "other side": a} {
		<-s.Done()
		s.Wait()
		wantIs(t, name, s.Err(), carrier.ErrClosed)
		_, err := s.OpenStream()
		wantIs(t, name+" opens", err, carrier.ErrClosed)
		_, err = s.OpenControl()
		wantIs(t, name+" opens control", err, carrier.ErrClosed)
		_, err = s.AcceptStream()
		wantIs(t, name+" accepts", err, carrier.ErrClosed)
		_, err = s.ReceiveDatagram(make([]byte, frame.MaxDatagram))
		wantIs(t, name+" receives", err, carrier.ErrClosed)
		s.SendDatagram(make([]byte, 10)) // goes nowhere
		_ = s.Stats()
		s.Close(errors.New("again"))
	}
	for _, st := range streams {
		_, err := st.Read(make([]byte, 1))
		wantIs(t, "read after the end", err, carrier.ErrClosed)
		_, err = st.Write(make([]byte, 1))
		wantIs(t, "write after the end", err, carrier.ErrClosed)
		st.Reset()
	}
	if !strings.Contains(d.Err().Error(), reason.Error()) {
		t.Errorf("session closed for %q has the error %q", reason, d.Err())
	}
}

func firstReason(t *testing.T, pair Pair) {
	d, _ := pair(t)
	d.Close(io.EOF) // must not look like a clean end to anybody
	d.Close(errors.New("second"))
	<-d.Done()
	wantIs(t, "session", d.Err(), carrier.ErrClosed)
	if text := d.Err().Error(); !strings.Contains(text, "EOF") || strings.Contains(text, "second") {
		t.Errorf("session's error is %q, want the first reason", text)
	}
}

func statistics(t *testing.T, pair Pair) {
	d, a := pair(t)
	bulk(t, side{Session: d}, side{Session: a})
	for name, s := range map[string]carrier.Session{"dialer": d, "acceptor": a} {
		eventually(t, name+" to count its bytes and measure a round trip", func() bool {
			st := s.Stats()
			return st.BytesIn > 16<<20 && st.BytesOut > 16<<20 && st.RTT > 0
		})
	}
}
