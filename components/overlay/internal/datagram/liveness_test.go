package datagram

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

func TestSilentPeerIsNoticed(t *testing.T) {
	d, a, p := pairThrough(t, limits{ping: 20 * time.Millisecond, quiet: 500 * time.Millisecond})
	p.mute.Store(true)
	for name, s := range map[string]*session{"dialer": d, "acceptor": a} {
		<-s.Done()
		s.Wait()
		if err := s.Err(); !errors.Is(err, carrier.ErrClosed) || !strings.Contains(err.Error(), carrier.ErrDead.Error()) {
			t.Errorf("%s: session ended with %v, want %v", name, err, carrier.ErrDead)
		}
	}
}

// Packets that nothing vouches for are no sign of life.
func TestSilentPeerIsNoticedBehindForgeries_OVL13(t *testing.T) {
	d, _, p := pairThrough(t, limits{ping: 20 * time.Millisecond, quiet: 500 * time.Millisecond})
	p.mute.Store(true)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	to := d.raw.LocalAddr().(*net.UDPAddr)
	forged := make([]byte, 100)
	forged[0] = 0x40
	for {
		select {
		case <-tick.C:
			if _, err := p.front.WriteToUDP(forged, to); err != nil {
				t.Fatal(err)
			}
			continue
		case <-d.Done():
		}
		return
	}
}

// A Session outlives a path that is dead for a while, with data under way.
func TestOutageIsOutlived(t *testing.T) {
	d, a, p := pairThrough(t, limits{})
	const size = 8 << 20
	got := make(chan int64, 1)
	go func() {
		st, err := a.AcceptStream()
		if err != nil {
			got <- -1
			return
		}
		n, _ := io.Copy(io.Discard, st)
		got <- n
	}()
	st, err := d.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	outage := time.NewTimer(600 * time.Millisecond)
	defer outage.Stop()
	chunk := make([]byte, 64<<10)
	for sent := 0; sent < size; sent += len(chunk) {
		if sent == size/2 {
			p.mute.Store(true)
			go func() { <-outage.C; p.mute.Store(false) }()
		}
		if _, err := st.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n := <-got; n != size {
		t.Errorf("%d bytes arrived of %d", n, size)
	}
	for _, s := range []*session{d, a} {
		if err := s.Err(); err != nil {
			t.Errorf("session ended: %v", err)
		}
	}
}

// An idle Session pings, and lives for as long as both ends do.
func TestIdleSessionLives(t *testing.T) {
	d, a := pair(t, limits{ping: 5 * time.Millisecond, quiet: 2 * time.Second})
	before := a.Stats().BytesIn
	eventually(t, "pings to be counted", func() bool { return a.Stats().BytesIn > before+2000 })
	for _, s := range []*session{d, a} {
		if err := s.Err(); err != nil {
			t.Errorf("idle session ended: %v", err)
		}
	}
}
