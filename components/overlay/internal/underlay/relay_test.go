package underlay

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// wire is one end of a relayed pair: each Write is a datagram at the other end.
type wire struct {
	in, out chan []byte
	once    sync.Once
	closed  chan struct{}
	far     *wire
}

func newWires() (a, b *wire) {
	x, y := make(chan []byte, 1024), make(chan []byte, 1024)
	a = &wire{in: x, out: y, closed: make(chan struct{})}
	b = &wire{in: y, out: x, closed: make(chan struct{}), far: a}
	a.far = b
	return a, b
}

func (w *wire) Read(b []byte) (int, error) {
	select {
	case p := <-w.in:
		return copy(b, p), nil
	case <-w.closed:
		return 0, net.ErrClosed
	}
}

func (w *wire) Write(b []byte) (int, error) {
	select {
	case w.out <- append([]byte(nil), b...):
	case <-w.closed:
		return 0, net.ErrClosed
	case <-w.far.closed: // the far end is gone: lost
	}
	return len(b), nil
}

func (w *wire) Close() error                     { w.once.Do(func() { close(w.closed) }); return nil }
func (w *wire) LocalAddr() net.Addr              { return &net.UDPAddr{} }
func (w *wire) RemoteAddr() net.Addr             { return &net.UDPAddr{} }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

var relayAt = netip.MustParseAddrPort("203.0.113.1:3478")

func joinRelay(a, b *Link, search string) (*wire, *wire) {
	x, y := newWires()
	key := secret(search[0])
	a.Add(Path{Search: search, Kind: Relay, Remote: relayAt, Relay: x, Key: key, Initiator: true})
	b.Add(Path{Search: search, Kind: Relay, Remote: relayAt, Relay: y, Key: key})
	return x, y
}

// QUIC's batches are cut to datagrams on the way into a relay, and a Link moves
// from the relay to a direct path and back without QUIC noticing.
func TestRelayPath(t *testing.T) {
	a, b := twoLinks(t)
	joinRelay(a, b, "relay")
	if e := waitEvent(t, a, PathUp); e.Path.Kind != Relay {
		t.Errorf("%+v", e)
	}
	near, far := quicPair(t, a.s.QUIC(), b.s.QUIC(), a.VirtualAddr())
	progress, stop := flow(t, near, far)
	defer stop()
	waitFor(t, "traffic over the relay", func() bool { return progress() > 200 })
	if st := a.s.Stats(); st.Dropped.Oversized != 0 {
		t.Errorf("not cut: %+v", st)
	}

	join(a, b, "one", at(b.s), at(a.s))
	if e := waitEvent(t, a, PathChanged); e.Path.Kind != Direct || e.Reason != "direct before relay" {
		t.Errorf("%+v", e)
	}
	n := progress()
	waitFor(t, "traffic on the direct path", func() bool { return progress() > n+200 })

	a.Forget("one")
	b.Forget("one")
	if e := waitEvent(t, a, PathChanged); e.Path.Kind != Relay {
		t.Errorf("%+v", e)
	}
	n = progress()
	waitFor(t, "traffic over the relay again", func() bool { return progress() > n+200 })
}

func TestRelayEnds(t *testing.T) {
	a, b := twoLinks(t)
	x, _ := joinRelay(a, b, "relay")
	waitEvent(t, a, PathUp)
	waitEvent(t, b, PathUp)
	_ = x.Close()
	waitEvent(t, a, PathsGone)
	if p := a.Paths(); len(p) != 0 {
		t.Errorf("paths %+v", p)
	}
	if n := len(*a.s.keys.Load()); n != 0 {
		t.Errorf("%d keys left", n)
	}
}

// The Link owns a path's relay from Add on, and closes it in every case.
func TestRelaysAreClosed(t *testing.T) {
	s := open(t)
	l := s.NewLink("x")
	var all []*wire
	add := func(search string, remote netip.AddrPort, kind Kind) {
		w, _ := newWires()
		all = append(all, w)
		l.Add(Path{Search: search, Kind: kind, Remote: remote, Relay: w, Key: secret(1)})
	}
	for range 6 {
		add("one", relayAt, Relay)
	}
	add("", relayAt, Relay)
	add("two", relayAt, Direct)
	if n := len(l.Paths()); n != 4 {
		t.Errorf("%d paths of one search, want 4", n)
	}
	for _, search := range []string{"three", "four", "five", "six", "seven"} {
		for range 4 {
			add(search, relayAt, Relay)
		}
	}
	if n := len(l.Paths()); n != 12 {
		t.Errorf("%d paths of one link, want 12", n)
	}
	l.Close()
	for i, w := range all {
		select {
		case <-w.closed:
		default:
			t.Errorf("relay %d is open", i)
		}
	}
	l.Add(Path{Search: "late", Kind: Direct, Remote: relayAt})
	l.Forget("late")
	l.Close()
}

// Where only the Peer uses a relay, its datagrams come from there to the socket: the
// path ranks as a relayed one for both.
func TestRelayOfThePeersAlone(t *testing.T) {
	a, b := twoLinks(t)
	key := secret('r')
	a.Add(Path{Search: "r", Kind: Relay, Remote: at(b.s), Key: key, Initiator: true})
	b.Add(Path{Search: "r", Kind: Direct, Remote: at(a.s), Key: key})
	if e := waitEvent(t, a, PathUp); e.Path.Kind != Relay {
		t.Errorf("%+v", e)
	}
	join(a, b, "direct", at(b.s), at(a.s))
	waitFor(t, "the direct path", func() bool {
		for _, p := range a.Paths() {
			if p.InUse && p.Kind == Direct {
				return true
			}
		}
		return false
	})
}

// A relay of the Peer's that shows up on its own is not taken for the Peer.
func TestProbeFromARelayOfThePeers(t *testing.T) {
	a, b := twoLinks(t)
	key := secret('r')
	nowhere := netip.MustParseAddrPort("127.0.0.1:9")
	a.Add(Path{Search: "r", Kind: Relay, Remote: nowhere, Relays: []netip.AddrPort{at(b.s)}, Key: key, Initiator: true})
	b.Add(Path{Search: "r", Kind: Direct, Remote: at(a.s), Key: key})
	waitEvent(t, a, PathUp)
	for _, p := range a.Paths() {
		if p.Remote == at(b.s) && p.Kind != Relay {
			t.Errorf("%+v", p)
		}
	}
}
