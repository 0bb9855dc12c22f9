package rendezvous

import (
	"errors"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"cadre.dev/overlay/internal/mailbox"
)

func TestOneSourceTakesNotAllPlaces(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newBounded(ln, 10, 2)
	defer b.Close()
	accepted := make(chan net.Conn)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := b.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	third := dial()
	_ = third.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := third.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a third connection is served: %v", err)
	}
	first.Close()
	first.Close() // counts once
	dial()
	(<-accepted).Close()
	second.Close()
	b.Close()
	<-ended
	if len(b.sources) != 0 || len(b.slots) != 0 {
		t.Errorf("%d sources and %d places are left, want none", len(b.sources), len(b.slots))
	}
}

func TestHealthKeepsNoConnection(t *testing.T) {
	w := newWorld(t)
	s := w.server()
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+mailbox.PathHealth, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.http(t, nil).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if !resp.Close {
		t.Error("the unauthenticated connection goes on")
	}
}
