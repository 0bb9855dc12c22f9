package labtest

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"cadre.dev/lab/natlab"
	"cadre.dev/overlay"
	"cadre.dev/overlay/labtest/overlaynode"
)

// number is that of an environment variable, or less.
func number(t *testing.T, name string, less int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return less
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestManyPeersAtOnce has many Peers begin with one node at the same moment:
// LABTEST_PEERS of them, 20 when it is not set.
func TestManyPeersAtOnce(t *testing.T) {
	count := number(t, "LABTEST_PEERS", 20)
	w := newWorld(t)
	w.rendezvousAt("rendezvous", natlab.Link{})
	host, err := w.lab.Behind("hub", natlab.PortRestricted, natlab.Link{})
	w.must(err)
	far, err := w.lab.Behind("peers", natlab.PortRestricted, natlab.Link{})
	w.must(err)
	hub := w.place("db-000", host)
	var all []*node
	for i := range count {
		p := w.place(fmt.Sprintf("db-%03d", i+1), far)
		p.knows, p.quiet = []*node{hub}, true
		all = append(all, p)
	}
	hub.quiet = true
	for _, p := range all {
		p.run()
	}
	hub.run()
	alone := hub.ask(overlaynode.Request{Verb: overlaynode.Stats})
	begin := time.Now()
	for _, p := range all {
		hub.await(p, "direct TCP", time.Minute, func(s overlay.SessionInfo) bool { return s.Path == overlay.PathDirectTCP })
	}
	took := time.Since(begin)
	for _, p := range all {
		works(hub, p)
	}
	for _, p := range all {
		hub.await(p, "rest", time.Minute, func(s overlay.SessionInfo) bool { return !s.Searching })
	}
	w.pause(time.Second)
	r := hub.ask(overlaynode.Request{Verb: overlaynode.Stats})
	t.Logf("%d peers direct in %v; per peer %d KiB and %d goroutines", count, took.Round(time.Millisecond),
		int64(r.HeapBytes-min(alone.HeapBytes, r.HeapBytes))/int64(count)/1024, (r.Goroutines-alone.Goroutines)/count)
}

// TestManyReconnects makes and ends the same Link again and again, LABTEST_RECONNECTS
// times, 25 when it is not set: nothing is left behind.
func TestManyReconnects(t *testing.T) {
	count := number(t, "LABTEST_RECONNECTS", 25)
	w := newWorld(t)
	a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, natlab.Link{})
	a.quiet, b.quiet = true, true
	w.both(a, b, overlay.PathDirectTCP)
	cycle := func() {
		a.ask(overlaynode.Request{Verb: overlaynode.SetPeers})
		b.awaitPath(a, overlay.PathNone)
		a.ask(overlaynode.Request{Verb: overlaynode.SetPeers, Peers: a.peers()})
		a.awaitPath(b, overlay.PathDirectTCP)
		a.ask(overlaynode.Request{Verb: overlaynode.Dial, Addr: a.echo(b), For: 10 * time.Second, Limit: time.Second})
	}
	stats := func() (int, uint64) {
		r, s := a.ask(overlaynode.Request{Verb: overlaynode.Stats}), b.ask(overlaynode.Request{Verb: overlaynode.Stats})
		return r.Goroutines + s.Goroutines, r.HeapBytes + s.HeapBytes
	}
	for range 3 {
		cycle()
	}
	// Only time shows that the rest of a cycle is gone. If too little time has passed here,
	// the check below is only too lax.
	w.pause(4 * time.Second)
	goroutines, heap := stats()
	for range count {
		cycle()
	}
	after, heapAfter := stats()
	gone := func() bool { return after <= goroutines+10 && heapAfter <= heap+heap/2+(4<<20) }
	for limit := time.Now().Add(time.Minute); !gone() && time.Now().Before(limit); after, heapAfter = stats() {
		w.pause(100 * time.Millisecond)
	}
	text := fmt.Sprintf("%d reconnects: %d goroutines before, %d after; %d KiB before, %d after", count, goroutines, after, heap/1024, heapAfter/1024)
	if !gone() {
		t.Errorf("something stays behind: %s", text)
	}
	t.Log(text)
}

// TestOVL03_RestartsOfBothEndsConverge is the predecessor's flap: both ends restart at
// the same moment, each with another Boot.
func TestOVL03_RestartsOfBothEndsConverge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, natlab.Link{})
	var worst time.Duration
	var searches uint64
	for i := range number(t, "LABTEST_RESTARTS", 20) {
		if i > 0 {
			a.Kill()
			b.Kill()
			a.renew()
			b.renew()
		}
		begin := time.Now()
		a.run()
		b.run()
		s := a.awaitPath(b, overlay.PathDirectTCP)
		b.awaitPath(a, overlay.PathDirectTCP)
		worst, searches = max(worst, time.Since(begin)), max(searches, s.Searches)
		works(a, b)
	}
	t.Logf("direct at the latest %v after the start, after %d searches", worst.Round(time.Millisecond), searches)
}

// TestOVL15_RevokedPeerLosesItsSession removes a busy Peer from the map.
func TestOVL15_RevokedPeerLosesItsSession(t *testing.T) {
	t.Parallel()
	for name, paths := range map[string][]overlay.PathKind{"tcp": nil, "udp": withoutTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.pair(natlab.PortRestricted, natlab.PortRestricted, natlab.Link{})
			a.paths, b.paths = paths, paths
			kind := overlay.PathDirectTCP
			if paths != nil {
				kind = overlay.PathDirectUDP
			}
			w.both(a, b, kind)
			busy := b.begin(overlaynode.Request{Verb: overlaynode.Watch, Addr: b.echo(a), For: 6 * time.Second, Every: time.Millisecond, Limit: time.Second})
			w.pause(200 * time.Millisecond)
			begin := time.Now()
			a.ask(overlaynode.Request{Verb: overlaynode.SetPeers})
			b.await(a, "end of the session", 20*time.Second, func(s overlay.SessionInfo) bool { return s.State != overlay.SessionUp })
			t.Logf("over %v after the revocation", time.Since(begin).Round(time.Millisecond))
			again := overlaynode.Request{Verb: overlaynode.Watch, Addr: b.echo(a), For: 2 * time.Second, Every: time.Millisecond, Limit: time.Second}
			if r, err := b.Ask(again); err == nil {
				t.Errorf("%d echoes after the end of the session", r.Echoes)
			}
			if r := busy(); r.Reconnects == 0 {
				t.Errorf("the busy connection went on: %+v", r)
			}
			if s := b.session(a); s.State == overlay.SessionUp {
				t.Errorf("the revoked peer has a session again: %+v", s)
			}
		})
	}
}

// TestStalledReader stalls one stream while others go on, on both carriers.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rendezvousAt("rendezvous", natlab.Link{})
	left, err := w.lab.Behind("left", natlab.PortRestricted, wan)
	w.must(err)
	right, err := w.lab.Behind("right", natlab.PortRestricted, wan)
	w.must(err)
	for _, paths := range [][]overlay.PathKind{nil, withoutTCP} {
		d := w.duo(left, right, paths)
		kind := overlay.PathDirectTCP
		if paths != nil {
			kind = overlay.PathDirectUDP
		}
		w.both(d.a, d.b, kind)
		clog := d.a.begin(overlaynode.Request{Verb: overlaynode.Clog, Addr: netip.AddrPortFrom(d.b.vip, stallPort), For: 4 * time.Second})
		w.pause(500 * time.Millisecond)
		watch := watching(d.a, d.b, 2*time.Second)
		bulk := d.a.bulk(d.b, time.Second)
		r := watch()
		report(t, string(kind)+", during a stalled stream", r)
		t.Logf("%s: parallel bulk %.0f Mbps, the stalled stream took %d KiB", kind, mbps(bulk), clog().Bytes/1024)
		if r.Reconnects > 0 || r.Echoes < 2 {
			t.Errorf("%s: a stalled stream held others up: %+v", kind, r)
		}
		d.stop()
	}
}
