package datagram

import (
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
)

// A Session without control streams pings, and has no multiplexer.
func TestNoMultiplexerWithoutControlStreams(t *testing.T) {
	d, a := pair(t, limits{})
	for range 3 {
		for _, s := range []*session{d, a} {
			if _, err := s.Ping(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	st, err := d.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	defer st.Reset()
	if d.muxer.peek() != nil || a.muxer.peek() != nil {
		t.Error("a session without control streams multiplexes them")
	}
	if n := len(d.pings.waiting) + len(a.pings.waiting); n != 0 {
		t.Errorf("%d pings wait for their answers", n)
	}
}

// Both sides may want the multiplexer at any moment, with pings under way.
func TestMultiplexerBeginsAmidPings(t *testing.T) {
	for range 20 {
		d, a := pair(t, limits{})
		var all sync.WaitGroup
		for _, s := range []*session{d, a} {
			for range 4 {
				all.Go(func() {
					for range 20 {
						if _, err := s.Ping(testContext(t)); err != nil {
							t.Errorf("ping: %v", err)
							return
						}
					}
				})
			}
			all.Go(func() { sayHello(t, s) })
			all.Go(func() { hearHello(t, s) })
		}
		all.Wait()
		if n := len(d.pings.waiting) + len(a.pings.waiting); n != 0 {
			t.Fatalf("%d pings wait for their answers", n)
		}
	}
}

var hello = slices.Repeat([]byte("hello"), 10_000)

func sayHello(t *testing.T, s *session) {
	st, err := s.OpenControl()
	if err == nil {
		_, err = st.Write(hello)
	}
	if err == nil {
		err = st.CloseWrite()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, st)
	}
	if err != nil {
		t.Errorf("say hello: %v", err)
	}
}

func hearHello(t *testing.T, s *session) {
	st, err := s.AcceptStream()
	if err != nil {
		t.Errorf("accept: %v", err)
		return
	}
	b, err := io.ReadAll(st)
	if err != nil || !slices.Equal(b, hello) {
		t.Errorf("heard %d bytes, error %v", len(b), err)
	}
	if err := st.CloseWrite(); err != nil {
		t.Errorf("end: %v", err)
	}
}

// A sender of pings that reads no answers does not make a node hold all of them.
func TestPingsWithoutEndAreRefused_OVL17(t *testing.T) {
	d, _ := pair(t, limits{})
	d.frames.mu.Lock() // no answer gets out
	for id := range uint32(maxAnswers + 1) {
		h := makeHeader(yamuxPing, yamuxSYN, 0, id)
		d.frames.found(&h)
	}
	<-d.Done()
	d.frames.mu.Unlock()
	if err := d.Err(); !errors.Is(err, carrier.ErrClosed) {
		t.Errorf("session ended with %v", err)
	}
	if _, err := d.OpenControl(); !errors.Is(err, carrier.ErrClosed) {
		t.Errorf("control stream of a session that is over: %v", err)
	}
}

// Small and large datagrams come on two ways, and a receiver gets both.
func TestDatagramsOfBothKindsAreReceived(t *testing.T) {
	d, a := pair(t, limits{})
	sizes := []int{frame.MinDatagram, frame.MaxDatagram, 100, frame.MaxDatagram - 1}
	got := make(chan int)
	go func() {
		defer close(got)
		buf := make([]byte, 200)
		for {
			b, err := a.ReceiveDatagram(buf)
			if err != nil {
				return
			}
			got <- len(b)
		}
	}()
	for range 20 {
		for _, size := range sizes {
			d.SendDatagram(make([]byte, size))
			if n := <-got; n != size {
				t.Fatalf("a datagram of %d bytes, want %d", n, size)
			}
		}
	}
	d.Close(errors.New("test is over"))
	for range got {
	}
}
