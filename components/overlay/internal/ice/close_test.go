package ice

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// silentServer is an address that takes datagrams and connections and never
// answers.
func silentServer(t *testing.T) (udp, tcp string) {
	t.Helper()
	pc := loopbackConn(t)
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pc.Close(), ln.Close() })
	return pc.LocalAddr().String(), ln.Addr().String()
}

func TestCloseAtEveryStage(t *testing.T) {
	udp, tcp := silentServer(t)
	s := newRelayServer(t)
	silent := []Server{
		{URL: "stun:" + udp},
		{URL: "turn:" + udp + "?transport=udp", Username: "u", Password: "p"},
		{URL: "turn:" + tcp + "?transport=tcp", Username: "u", Password: "p"},
		{URL: "turns:" + tcp + "?transport=tcp", Username: "u", Password: "p"},
	}
	ours := []Server{s.server("udp"), s.server("tcp"), {URL: s.stunURL()}}
	for _, test := range []struct {
		name    string
		servers []Server
		reach   func(t *testing.T, a, b *Search)
	}{
		{"started", ours, func(*testing.T, *Search, *Search) {}},
		{"servers silent", silent, func(_ *testing.T, a, _ *Search) { <-a.Candidates() }},
		{"gathered", ours, func(_ *testing.T, a, _ *Search) {
			for range a.Candidates() {
			}
		}},
		{"checking no peer", ours, func(t *testing.T, a, b *Search) { credentials(t, b, a) }},
		{"checking", silent, introduceOnly},
		{"found", ours, func(t *testing.T, a, b *Search) { introduceOnly(t, a, b); wait(t, a) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			ma, mb := testMux(t, loopbackConn(t)), testMux(t, loopbackConn(t))
			a, b := begin(t, testConfig(ma, true, test.servers...)), begin(t, testConfig(mb, false, test.servers...))
			test.reach(t, a, b)
			for _, x := range []*Search{a, b, a} {
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := a.Wait(testContext(t)); !errors.Is(err, ErrClosed) {
				t.Errorf("wait after close: %v", err)
			}
			if err := a.SetRemote(b.Local()); !errors.Is(err, ErrClosed) {
				t.Errorf("set remote after close: %v", err)
			}
			if err := a.AddRemote("h0 1 udp 1 10.0.0.1 9 typ host"); !errors.Is(err, ErrClosed) {
				t.Errorf("add remote after close: %v", err)
			}
			for range a.Better() { // ends
			}
			for range a.Candidates() { // ends
			}
			if n := ma.Stats().Searches; n != 0 {
				t.Errorf("%d searches left at the mux", n)
			}
			if len(ma.pending) != 0 {
				t.Errorf("%d checks left at the mux", len(ma.pending))
			}
			_, _ = ma.Close(), mb.Close()
			// The relay server is in this process. An allocation that it grants after this side
			// has stopped waiting is the server's own until it expires. An answer that its
			// client processes at that moment leaks one goroutine of the client: pion hands the
			// answer to the waiter, without a check that the waiter is still there.
			goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/pion/turn/v3/internal/allocation.(*Allocation).packetHandler"),
				goleak.IgnoreTopFunction("github.com/pion/turn/v3/internal/client.(*Transaction).WriteResult"))
		})
	}
}

func introduceOnly(t *testing.T, a, b *Search) {
	t.Helper()
	credentials(t, a, b)
	credentials(t, b, a)
	for _, way := range [][2]*Search{{a, b}, {b, a}} {
		if err := way[1].AddRemote(<-way[0].Candidates()); err != nil {
			t.Error(err)
		}
	}
}

func TestWaitEndsWithItsContextAndTheSearches(t *testing.T) {
	m := testMux(t, loopbackConn(t))
	a := begin(t, testConfig(m, true))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more patience")
	cancel(why)
	if _, err := a.Wait(ctx); !errors.Is(err, why) {
		t.Errorf("wait: %v, want %v", err, why)
	}

	search, stop := context.WithCancelCause(t.Context())
	b, err := Start(search, testConfig(m, false))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close() //nolint:errcheck // its end is not tested
	credentials(t, a, b)
	stop(why)
	if _, err := b.Wait(testContext(t)); !errors.Is(err, why) {
		t.Errorf("wait: %v, want %v", err, why)
	}
}

func TestMuxClosesUnderSearches(t *testing.T) {
	ma, mb := testMux(t, loopbackConn(t)), testMux(t, loopbackConn(t))
	a, b := begin(t, testConfig(ma, true)), begin(t, testConfig(mb, false))
	introduce(t, a, b)
	wait(t, a)
	for range 2 {
		if err := ma.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Start(t.Context(), testConfig(ma, true)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("start on a closed mux: %v", err)
	}
}

// Memory and goroutines after many searches are as before.
func TestThousandSearchesLeaveNothing(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	ma, mb := testMux(t, loopbackConn(t)), testMux(t, loopbackConn(t))
	round := func() {
		a, err := Start(t.Context(), testConfig(ma, true))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Start(t.Context(), testConfig(mb, false))
		if err != nil {
			t.Fatal(err)
		}
		introduceOnly(t, a, b)
		wait(t, a)
		_, _ = a.Close(), b.Close()
	}
	measure := func() (goroutines int, heap uint64) {
		until(t, func() bool { return !strings.Contains(stacks(), "pion/ice") })
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	for range 20 {
		round()
	}
	goroutines, heap := measure()
	start := time.Now()
	for range rounds {
		round()
	}
	t.Logf("%v for two searches up to their first pair and closed", time.Since(start)/time.Duration(rounds))
	after, heapAfter := measure()
	if after > goroutines {
		t.Errorf("%d goroutines, before %d", after, goroutines)
	}
	if heapAfter > heap+1<<20 {
		t.Errorf("%d bytes in use, before %d", heapAfter, heap)
	}
	if len(ma.ports) != 0 || len(ma.pending) != 0 || len(mb.ports) != 0 || len(mb.pending) != 0 {
		t.Error("the mux still knows searches")
	}
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// until polls a condition.
func until(t testing.TB, ok func() bool) {
	t.Helper()
	late := testContext(t).Done()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("condition not met")
		}
	}
}
