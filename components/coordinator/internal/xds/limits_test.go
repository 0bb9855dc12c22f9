package xds_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/xds"
)

// flooding is a Consul that sends on each stream without an end, as fast as the other side reads.
type flooding struct {
	mu    sync.Mutex
	sent  int           // guarded by mu; bytes of all streams
	ended chan struct{} // one value for each ended stream
}

func (f *flooding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() { f.ended <- struct{}{} }()
	w.Header().Set("Content-Type", "application/grpc")
	message := text(7, strings.Repeat("x", 4093))
	message = append([]byte{0, 0, 0, 0x10, 0}, message...)
	for r.Context().Err() == nil {
		if _, err := w.Write(message); err != nil {
			return
		}
		f.mu.Lock()
		f.sent += len(message)
		f.mu.Unlock()
	}
}

// silent is a Consul that answers nothing and counts its received bytes.
type silent struct {
	mu  sync.Mutex
	got int // guarded by mu
	// came gets a value for each received piece, if there is room, and opened for each stream.
	came, opened chan struct{}
}

func (s *silent) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	s.opened <- struct{}{}
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Body.Read(buf)
		s.mu.Lock()
		s.got += n
		s.mu.Unlock()
		select {
		case s.came <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// fakeTokens are tokens that no Consul knows.
type fakeTokens struct{}

func (fakeTokens) XDS(context.Context, tokens.Streams) (tokens.Token, error) {
	return tokens.Token{Accessor: "a", Secret: "s", ExpiresAt: time.Now().Add(time.Hour)}, nil
}
func (fakeTokens) XDSTokens(context.Context, string) ([]tokens.Owned, error) { return nil, nil }
func (fakeTokens) Revoke(context.Context, ...string) error                   { return nil }

// before returns a relay for a fake Consul, and a member's connection to it.
func before(t *testing.T, limits xds.Limits, backend http.Handler) (*world, *member) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: backend, Protocols: &protocols}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	w := &world{t: t, logged: &bytes.Buffer{}, gone: map[string]bool{}, proxies: map[string][]xds.Identity{"web": {{ID: "web-sidecar-proxy", Service: "web"}}}}
	w.serve(listener.Addr().String(), limits, fakeTokens{})
	m := &member{w: w, caller: xds.Caller{Group: "web", Slot: "web-0", Boot: "b"}}
	m.connect()
	return w, m
}

// TestThreat_DOR10_AStreamWithoutReadsIsEnded: until its end no data piles up for it, and another stream
// of the same coordinator continues.
func TestThreat_DOR10_AStreamWithoutReadsIsEnded(t *testing.T) {
	backend := &flooding{ended: make(chan struct{}, 16)}
	w, m := before(t, xds.Limits{Unread: 500 * time.Millisecond}, backend)
	other := &member{w: w, caller: xds.Caller{Group: "web", Slot: "web-1", Boot: "b"}}
	other.connect()
	slow, quick := m.open(m.own()), other.open(other.own())
	n := 0
	for over := false; !over || n < 1<<20; {
		select {
		case <-backend.ended: // the slow one
			over = true
		default:
		}
		a, err := quick.receive()
		if err != nil {
			t.Fatalf("a reading member is ended after %d bytes: %v", n, err)
		}
		n += a.size
	}
	backend.mu.Lock()
	unread := backend.sent - n
	backend.mu.Unlock()
	if unread > 1<<20 {
		t.Errorf("a reading member had %d bytes, and %d were on their way", n, unread)
	}
	quick.end()
	if err := slow.ended(); err == nil {
		t.Error("it goes on")
	}
	w.stop()
}

// TestThreat_DOR10_StreamsAreBounded: the bounds are per member, at once and per second, and for
// all.
func TestThreat_DOR10_StreamsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		limits xds.Limits
		want   string
	}{
		"of one":      {xds.Limits{Streams: 3}, "web-0 has 3 streams"},
		"of all":      {xds.Limits{AllStreams: 3}, "all members together have 3 streams"},
		"in a second": {xds.Limits{OpenedBurst: 3, Opened: 0.001}, "opened more than"},
	} {
		backend := &silent{opened: make(chan struct{}, 16)}
		w, m := before(t, c.limits, backend)
		for range 3 {
			m.open(m.own())
			<-backend.opened
		}
		if err := m.open(m.own()).ended(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if n := w.relay.Streams(); n != 3 {
			t.Errorf("%s: %d streams", name, n)
		}
		w.stop()
	}
}

// TestThreat_DOR10_ConnectionsAreBounded: an excess connection is closed, and an ended one makes
// room.
func TestThreat_DOR10_ConnectionsAreBounded(t *testing.T) {
	w, m := before(t, xds.Limits{Conns: 2}, http.NotFoundHandler())
	conn := func(c xds.Caller) (near net.Conn, over chan struct{}) {
		near, far := net.Pipe()
		over = make(chan struct{})
		w.closed.Go(func() { defer close(over); w.relay.Serve(t.Context(), c, far) })
		t.Cleanup(func() { _ = near.Close() })
		return near, over
	}
	first, over := conn(m.caller)
	second, _ := conn(m.caller)
	for _, open := range []net.Conn{first, second} {
		if _, err := open.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if third, _ := conn(m.caller); !closed(third) {
		t.Error("a third one is served")
	}
	if other, _ := conn(xds.Caller{Group: "web", Slot: "web-1", Boot: "b"}); closed(other) {
		t.Error("another member has no place")
	}
	_ = first.Close()
	<-over
	if again, _ := conn(m.caller); closed(again) {
		t.Error("the place of an ended connection is not free")
	}
	w.stop()
}

// closed reports that a connection ends before any byte arrives.
func closed(conn net.Conn) bool {
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err != nil
}

// TestThreat_DOR10_AFloodOfMessagesWaits: the flood is slowed down, not forwarded.
func TestThreat_DOR10_AFloodOfMessagesWaits(t *testing.T) {
	backend := &silent{came: make(chan struct{}, 1), opened: make(chan struct{}, 1)}
	w, m := before(t, xds.Limits{Sent: 0.001, SentBurst: 20}, backend)
	e := m.open(m.own())
	<-backend.came
	// The relay stops reading from a throttled member, so its writes block as well.
	flood := make(chan error, 1)
	go func() {
		one := append(text(2, typeCluster), text(3, strings.Repeat("x", 4000))...)
		for {
			if err := e.SendMsg(&one); err != nil {
				flood <- err
				return
			}
		}
	}()
	<-backend.came
	w.change(func() { w.gone["b"] = true })
	if err := e.ended(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("it ended with %v", err)
	}
	<-flood
	backend.mu.Lock()
	defer backend.mu.Unlock()
	if backend.got > 200<<10 {
		t.Errorf("%d bytes came to consul", backend.got)
	}
	w.stop()
}
