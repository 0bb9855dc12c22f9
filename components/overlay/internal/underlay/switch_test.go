package underlay

import (
	"io"
	"sync/atomic"
	"testing"
	"time"
)

// flow keeps bytes flowing over a QUIC stream until stop, and checks that each
// arrives, in order.
func flow(tb testing.TB, from io.Writer, to io.Reader) (progress func() int, stop func()) {
	tb.Helper()
	var n atomic.Int64
	quit, done := make(chan struct{}), make(chan error, 2)
	go func() {
		b := make([]byte, 8<<10)
		for i := 0; ; i++ {
			select {
			case <-quit:
				done <- nil
				return
			default:
			}
			for j := range b {
				b[j] = byte(i)
			}
			if _, err := from.Write(b); err != nil {
				done <- err
				return
			}
		}
	}()
	last := make(chan struct{})
	go func() {
		defer close(last)
		b := make([]byte, 8<<10)
		for i := 0; ; i++ {
			if _, err := io.ReadFull(to, b); err != nil {
				return
			}
			if b[0] != byte(i) || b[len(b)-1] != byte(i) {
				done <- io.ErrUnexpectedEOF
				return
			}
			n.Add(1)
		}
	}()
	return func() int { return int(n.Load()) }, func() {
		close(quit)
		if err := <-done; err != nil {
			tb.Errorf("stream broke: %v", err)
		}
		if c, ok := from.(io.Closer); ok {
			_ = c.Close()
		}
		<-last
	}
}

// The test has two paths, each through a box, and black-holes the path in use under a
// busy QUIC stream. The stream goes on over the other path, and the Link reports the
// change.
func TestPathSwitchUnderQUIC(t *testing.T) {
	a, b := twoLinks(t)
	one, two := newBox(t, a.s, b.s), newBox(t, a.s, b.s)
	join(a, b, "one", one.nearAddr(), one.farAddr())
	waitEvent(t, a, PathUp)
	waitEvent(t, b, PathUp)
	join(a, b, "two", two.nearAddr(), two.farAddr())
	waitFor(t, "second path", func() bool { return validated(a) == 2 && validated(b) == 2 })
	near, far := quicPair(t, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
	progress, stop := flow(t, near, far)
	defer stop()
	waitFor(t, "traffic", func() bool { return progress() > 100 })
	boxes := map[bool]*box{true: one, false: two}
	for range 2 {
		dead := boxes[using(a) == "one"]
		begin := time.Now()
		dead.dark.Store(true)
		quiet := waitEvent(t, a, PathQuiet)
		if quiet.Path.Remote != dead.nearAddr() {
			t.Errorf("quiet: %+v", quiet)
		}
		changed := waitEvent(t, a, PathChanged)
		switched := time.Since(begin)
		at := progress()
		waitFor(t, "traffic on the other path", func() bool { return progress() > at+100 })
		t.Logf("switched %v after the black hole, traffic again after %v: %s", switched, time.Since(begin), changed.Reason)
		dead.dark.Store(false)
		waitFor(t, "the first path again", func() bool { return validated(a) == 2 && validated(b) == 2 })
	}
}

// Only one direction dies: received traffic must not hide that sent traffic is lost.
func TestOneWayBlackHole(t *testing.T) {
	a, b := twoLinks(t)
	one, two := newBox(t, a.s, b.s), newBox(t, a.s, b.s)
	join(a, b, "one", one.nearAddr(), one.farAddr())
	waitEvent(t, a, PathUp)
	waitEvent(t, b, PathUp)
	join(a, b, "two", two.nearAddr(), two.farAddr())
	waitFor(t, "second path", func() bool { return validated(a) == 2 && validated(b) == 2 })
	near, far := quicPair(t, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
	progress, stop := flow(t, near, far)
	defer stop()
	waitFor(t, "traffic", func() bool { return progress() > 100 })
	one.mute.Store(true)
	two.mute.Store(false)
	waitFor(t, "b on the other path", func() bool { return using(b) == "two" })
	waitFor(t, "a on the other path", func() bool { return using(a) == "two" })
	at := progress()
	waitFor(t, "traffic on the other path", func() bool { return progress() > at+100 })
}

// The only path dies for a while and comes back; the stream lives.
func TestOutageEnds(t *testing.T) {
	a, b := twoLinks(t)
	one := newBox(t, a.s, b.s)
	join(a, b, "one", one.nearAddr(), one.farAddr())
	waitEvent(t, a, PathUp)
	near, far := quicPair(t, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
	progress, stop := flow(t, near, far)
	defer stop()
	waitFor(t, "traffic", func() bool { return progress() > 100 })
	one.dark.Store(true)
	waitEvent(t, a, PathQuiet)
	waitEvent(t, a, PathsGone)
	one.dark.Store(false)
	begin := time.Now()
	waitEvent(t, a, PathUp)
	at := progress()
	waitFor(t, "traffic", func() bool { return progress() > at+100 })
	t.Logf("traffic %v after the outage", time.Since(begin))
}

// The Peer's mapping moves to another port: probes from there start a challenge,
// and its answer moves the path.
func TestOVL13_RebindingIsChallengedThenFollowed(t *testing.T) {
	a, b := twoLinks(t)
	nat := newBox(t, a.s, b.s)
	join(a, b, "one", nat.nearAddr(), nat.farAddr())
	waitEvent(t, a, PathUp)
	waitEvent(t, b, PathUp)
	near, far := quicPair(t, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
	progress, stop := flow(t, near, far)
	defer stop()
	for range 3 {
		at := progress()
		waitFor(t, "traffic", func() bool { return progress() > at+100 })
		begin := time.Now()
		nat.move(t)
		to := nat.farAddr()
		waitFor(t, "the new address in use", func() bool {
			p := b.out.Load()
			return p != nil && *p.remote.Load() == to
		})
		at = progress()
		waitFor(t, "traffic from the new address", func() bool { return progress() > at+100 })
		t.Logf("followed in %v", time.Since(begin))
	}
	// An answer that was still under way when the mapping moved makes the new
	// address a path of its own; the old one then falls quiet until consent ends.
	waitFor(t, "one path that works", func() bool { return validated(b) == 1 })
}

func validated(l *Link) int {
	n := 0
	for _, p := range l.Paths() {
		if p.State == "up" {
			n++
		}
	}
	return n
}

// using is the search of the path in use.
func using(l *Link) string {
	for _, p := range l.Paths() {
		if p.InUse {
			return p.Search
		}
	}
	return ""
}
