package overlay

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/peer"
	"cadre.dev/overlay/internal/session"
)

type controlled struct {
	done  <-chan struct{} // of the control pair's context
	peer  Peer
	conns ControlConns
}

// withControl collects control pairs; each lasts as long as its Session.
func withControl(got chan<- controlled) func(*Config) {
	return func(c *Config) {
		c.OnControl = func(ctx context.Context, p Peer, conns ControlConns) {
			got <- controlled{ctx.Done(), p, conns}
			<-ctx.Done()
		}
	}
}

func TestControlPair(t *testing.T) {
	w := newWorld(t)
	atA, atC := make(chan controlled, 4), make(chan controlled, 4)
	a := w.node("db", "a", 1, withControl(atA))
	c := w.node(CoordinatorGroup, "coordinator-0", 2, withControl(atC))
	connect(a, c, nil, nil)
	ac, cc := <-atA, <-atC

	if !ac.conns.Dialer || cc.conns.Dialer {
		t.Errorf("dialer: worker %v, coordinator %v; workers dial", ac.conns.Dialer, cc.conns.Dialer)
	}
	if got, want := cc.conns.First.RemoteAddr(), (Addr{ID: a.id, BootID: a.bootID(), PublicKey: string(a.cert.Leaf.RawSubjectPublicKeyInfo)}); got != want {
		t.Errorf("coordinator sees %v, want %v", got, want)
	}
	if got, want := ac.conns.Second.RemoteAddr(), (Addr{ID: c.id, BootID: c.bootID(), PublicKey: string(c.cert.Leaf.RawSubjectPublicKeyInfo)}); got != want {
		t.Errorf("worker sees %v, want %v", got, want)
	}
	// First meets first, second meets second, and both are full at once.
	var wg sync.WaitGroup
	for i, pair := range [][2]net.Conn{
		{ac.conns.First, cc.conns.First}, {cc.conns.First, ac.conns.First},
		{ac.conns.Second, cc.conns.Second}, {cc.conns.Second, ac.conns.Second},
	} {
		const size = 8 << 20
		wg.Go(func() {
			b := make([]byte, size)
			for at := 0; at < size; at += 4 {
				binary.BigEndian.PutUint32(b[at:], uint32(at*(i+1)))
			}
			if _, err := pair[0].Write(b); err != nil {
				t.Errorf("direction %d: write: %v", i, err)
			}
		})
		wg.Go(func() {
			b := make([]byte, size)
			if _, err := io.ReadFull(pair[1], b); err != nil {
				t.Errorf("direction %d: read: %v", i, err)
			}
			for at := 0; at < size; at += 4 {
				if binary.BigEndian.Uint32(b[at:]) != uint32(at*(i+1)) {
					t.Errorf("direction %d: wrong byte near %d", i, at)
					return
				}
			}
		})
	}
	wg.Wait()

	// Closing either connection makes a new Session, with a new pair.
	cc.conns.Second.Close()
	<-ac.done
	<-cc.done
	if again := <-atC; again.peer.ID != a.id {
		t.Errorf("next pair is with %s, want %s", again.peer.ID, a.id)
	}
	<-atA
}

func TestNoControlBetweenWorkers_CTL17(t *testing.T) {
	w := newWorld(t)
	never := func(c *Config) {
		c.OnControl = func(context.Context, Peer, ControlConns) { t.Error("control between workers") }
	}
	a, b := w.node("db", "a", 1, never), w.node("db", "b", 2, never)
	connect(a, b, nil, nil)
	a.session(t, b)

	// Not even when the other side opens one.
	s, err := a.maker.Dial(t.Context(), session.Target{ID: b.id, Boot: b.bootID()}, b.instance)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close(peer.ErrStopped); s.Wait() }()
	st, err := s.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	defer st.Reset()
	if _, err := st.Write(frame.Header{Kind: frame.KindControl1}.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if code, err := frame.ReadReply(st); code != frame.PortForbidden {
		t.Errorf("control stream of a worker: %v, error %v, want %v", code, err, frame.PortForbidden)
	}
}

// A peer that speaks nonsense on a stream hurts that stream alone.
func TestNonsenseOnAStream_OVL16(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("db", "a", 1), w.node("db", "b", 2)
	b.SetPeers([]Peer{b.sees(a, nil, nil)})
	s, err := a.maker.Dial(t.Context(), session.Target{ID: b.id, Boot: b.bootID()}, b.instance)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close(peer.ErrStopped); s.Wait() }()
	for name, header := range map[string][]byte{
		"unknown version": {9, byte(frame.KindTCP), 0, 80},
		"unknown kind":    {1, 99, 0, 80},
		"port 0":          {1, byte(frame.KindTCP), 0, 0},
		"second signal":   {1, byte(frame.KindSignal), 0, 0},
	} {
		st, err := s.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Write(header); err != nil {
			t.Fatal(err)
		}
		if code, err := frame.ReadReply(st); code != frame.FrameInvalid {
			t.Errorf("%s: got %v, error %v, want %v", name, code, err, frame.FrameInvalid)
		}
		st.Reset()
	}
	if got := b.Stats().InvalidFrames; got != 4 {
		t.Errorf("counted %d invalid frames, want 4", got)
	}
	if s.Err() != nil {
		t.Errorf("the session ended: %v", s.Err())
	}
}

func TestStreamsOfOnePeerAreBounded_OVL17(t *testing.T) {
	w := newWorld(t)
	a := w.node("db", "a", 1)
	b := w.node("db", "b", 2, func(c *Config) { c.limits.streams = 8 })
	b.SetPeers([]Peer{b.sees(a, nil, nil)})
	s, err := a.maker.Dial(t.Context(), session.Target{ID: b.id, Boot: b.bootID()}, b.instance)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close(peer.ErrStopped); s.Wait() }()
	for range 20 { // connections without a header
		if _, err := s.OpenStream(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the rest turned away", func() bool { return b.Stats().LinkLimit == 12 })
}
