package connpause

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// world is a Pauser in front of a target that a test plays.
type world struct {
	t      *testing.T
	pauser *Pauser
	at     string
	target *net.TCPListener
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, target: listen(t, "127.0.0.1:0")}
	free := listen(t, "127.0.0.1:0")
	w.at = free.Addr().String()
	w.pauser = New(Config{
		Route: "db", Address: w.at, Target: w.target.Addr().String(), Log: slog.New(slog.DiscardHandler),
		Listen: func(context.Context, string, string) (net.Listener, error) { return free, nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.pauser.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := w.pauser.Counters(); got.OpenNow != 0 || got.PausedNow != 0 {
			t.Errorf("after the end: %+v", got)
		}
	})
	return w
}

func listen(t *testing.T, at string) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*net.TCPListener)
}

func (w *world) dial() *net.TCPConn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.at)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c.(*net.TCPConn)
}

// refused dials and wants a reset, which may come before the dial is over.
func (w *world) refused(when string) {
	w.t.Helper()
	c, err := net.Dial("tcp", w.at)
	if err == nil {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		w.t.Errorf("%s the client sees %v, want a reset", when, err)
	}
}

func (w *world) accept() *net.TCPConn {
	w.t.Helper()
	_ = w.target.SetDeadline(time.Now().Add(30 * time.Second))
	c, err := w.target.AcceptTCP()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// unreached fails the test when a connection has reached the target.
func (w *world) unreached(why string) {
	w.t.Helper()
	_ = w.target.SetDeadline(time.Now().Add(time.Millisecond))
	if c, err := w.target.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Fatalf("%s: a connection reached the target: %v %v", why, c, err)
	}
}

// until waits for the Pauser's counters.
func (w *world) until(what string, is func(Counters) bool) {
	w.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !is(w.pauser.Counters()) {
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("not within 30s: %s: %+v", what, w.pauser.Counters())
		}
	}
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

func hearEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("got %d bytes and %v, want the end", n, err)
	}
}

func TestCarriesBothWaysWithHalfClose(t *testing.T) {
	w := newWorld(t)
	app := w.dial()
	srv := w.accept()
	say(t, app, "question")
	hear(t, srv, "question")
	if err := app.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	hearEnd(t, srv)
	say(t, srv, "answer")
	_ = srv.Close()
	hear(t, app, "answer")
	hearEnd(t, app)
	w.until("the connection's end", func(c Counters) bool { return c.OpenNow == 0 })
}

func TestAResetTravelsThrough(t *testing.T) {
	w := newWorld(t)
	app := w.dial()
	srv := w.accept()
	say(t, app, "x")
	hear(t, srv, "x")
	reset(srv)
	if _, err := app.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client sees %v, want a reset", err)
	}
}

func TestHoldsNewConnectionsAndLeavesOldOnes(t *testing.T) {
	w := newWorld(t)
	old := w.dial()
	oldAt := w.accept()
	w.pauser.Pause(time.Hour)
	a, b := w.dial(), w.dial()
	say(t, a, "early")
	w.until("two paused", func(c Counters) bool { return c.PausedNow == 2 })
	w.unreached("while paused")
	say(t, old, "still")
	hear(t, oldAt, "still")

	if n := w.pauser.Resume(); n != 2 {
		t.Errorf("released %d, want 2", n)
	}
	say(t, b, "after") // both may now speak, in any order
	var heard []string
	for range 2 {
		c := w.accept()
		text := make([]byte, 5)
		if _, err := io.ReadFull(c, text); err != nil {
			t.Fatal(err)
		}
		heard = append(heard, string(text))
		say(t, c, "+"+string(text))
	}
	slices.Sort(heard)
	if !slices.Equal(heard, []string{"after", "early"}) {
		t.Errorf("the target heard %q", heard)
	}
	hear(t, a, "+early")
	hear(t, b, "+after")
	if got := w.pauser.Counters(); got.Paused != 2 || got.Resumed != 2 || got.Expired != 0 || got.PausedNow != 0 {
		t.Errorf("%+v", got)
	}
	if n := w.pauser.Resume(); n != 0 {
		t.Errorf("a second release found %d", n)
	}
	w.dial()
	w.accept() // at once
}

func TestAHoldEndsByItsLimit(t *testing.T) {
	w := newWorld(t)
	w.pauser.Pause(time.Hour)
	app := w.dial()
	say(t, app, "x")
	w.until("one paused", func(c Counters) bool { return c.PausedNow == 1 })
	w.pauser.Pause(10 * time.Millisecond) // the same pause, with less time
	hear(t, w.accept(), "x")
	if got := w.pauser.Counters(); got.Expired != 1 || got.Resumed != 0 {
		t.Errorf("%+v", got)
	}
	if n := w.pauser.Resume(); n != 0 {
		t.Errorf("a release after the limit found %d", n)
	}
}

func TestTooManyAreRefusedAndAPlaceIsFreeAgain(t *testing.T) {
	w := newWorld(t)
	w.pauser.Pause(time.Hour)
	first := w.dial()
	var rest sync.WaitGroup
	for range 8 {
		rest.Go(func() {
			for range (maxPaused - 1) / 8 {
				w.dial()
			}
		})
	}
	rest.Wait()
	for range (maxPaused - 1) % 8 {
		w.dial()
	}
	w.until("all places taken", func(c Counters) bool { return c.PausedNow == maxPaused })
	w.refused("as one too many")
	_ = first.Close() // it has sent nothing
	w.until("a place free", func(c Counters) bool { return c.PausedNow == maxPaused-1 && c.Left == 1 })
	w.dial()
	w.until("it is taken", func(c Counters) bool { return c.PausedNow == maxPaused })
	if got := w.pauser.Counters(); got.Refused != 1 || got.Paused != maxPaused+1 {
		t.Errorf("%+v", got)
	}
}

func TestAClientThatGoesAwayFreesItsPlace(t *testing.T) {
	w := newWorld(t)
	w.pauser.Pause(time.Hour)
	for name, tc := range map[string]struct {
		leave func(*net.TCPConn)
		left  bool
	}{
		"closes with nothing sent": {func(c *net.TCPConn) { _ = c.Close() }, true},
		"is reset":                 {func(c *net.TCPConn) { say(t, c, "x"); reset(c) }, true},
		// It may only be done with sending, as HTTP clients of the simple kind are.
		"has sent, and ends its side": {func(c *net.TCPConn) { say(t, c, "x"); _ = c.CloseWrite() }, false},
	} {
		before := w.pauser.Counters()
		c := w.dial()
		w.until(name, func(c Counters) bool { return c.Paused == before.Paused+1 })
		tc.leave(c)
		if tc.left {
			w.until(name, func(c Counters) bool { return c.Left == before.Left+1 && c.PausedNow == before.PausedNow })
		}
	}
	w.pauser.Resume()
	c := w.accept() // the half closed connection
	hear(t, c, "x")
	hearEnd(t, c)
	w.unreached("the closed connections")
}

// TestAFailedDialIsRetriedDuringThePause: also that of a connection which came before.
func TestAFailedDialIsRetriedDuringThePause(t *testing.T) {
	w := newWorld(t)
	at := w.target.Addr().String()
	_ = w.target.Close()
	w.refused("without a pause")
	w.pauser.Pause(time.Hour)
	app := w.dial()
	say(t, app, "once")
	w.until("one paused", func(c Counters) bool { return c.PausedNow == 1 })
	w.pauser.Resume() // while no client waits
	w.pauser.Pause(time.Hour)
	w.until("paused again, by the next pause", func(c Counters) bool { return c.PausedNow == 1 && c.Paused == 2 })
	w.pauser.Resume()
	w.target = listen(t, at) // still inside the first pause's limit
	srv := w.accept()
	hear(t, srv, "once")
	_ = app.CloseWrite()
	hearEnd(t, srv) // said once, not twice
	if got := w.pauser.Counters(); got.Failed != 1 {
		t.Errorf("%+v", got)
	}
}

func TestAfterTheLimitADialThatFailsIsAnError(t *testing.T) {
	w := newWorld(t)
	_ = w.target.Close()
	w.pauser.Pause(10 * time.Millisecond)
	w.refused("after the limit")
}

func TestTheEndEndsEverything(t *testing.T) {
	w := newWorld(t)
	w.dial()
	w.accept()
	w.pauser.Pause(time.Hour)
	w.dial()
	w.until("one carried, one paused", func(c Counters) bool { return c.OpenNow == 2 && c.PausedNow == 1 })
	// newWorld's cleanup waits for Run.
}

func TestASocketThatCannotBeHad(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	g := New(Config{
		Route: "db", Address: taken.Addr().String(), Target: "127.0.0.1:1",
		Listen: (&net.ListenConfig{}).Listen, Log: slog.New(slog.DiscardHandler),
	})
	if err := g.Run(t.Context()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want that the address is in use", err)
	}
}
