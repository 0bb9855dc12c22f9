package underlay

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"cadre.dev/overlay/internal/underlay/paths"
)

// forgeries is the number of forged datagrams; the full figure of the row is
// 1,000,000, which OVERLAY_FORGERIES asks for.
func forgeries() int {
	if n, err := strconv.Atoi(os.Getenv("OVERLAY_FORGERIES")); err == nil && n > 0 {
		return n
	}
	return 7_000
}

// spied gives two joined Links, and the last datagrams on the wire to one of them.
func spied(t *testing.T) (a, b *Link, seen func(to *Link) [][]byte) {
	t.Helper()
	a, b = joined(t)
	return a, b, func(to *Link) [][]byte {
		from := a
		if to == a {
			from = b
		}
		from.mu.Lock()
		defer from.mu.Unlock()
		att := from.searches["one"]
		var raw [][]byte
		for i := range uint64(3) {
			// The same sealer makes the bytes on the wire from the same numbers.
			for _, kind := range []probeKind{probeAsk, probeEcho} {
				var p [probeSize]byte
				seq := att.seq - 1 - i
				if kind == probeEcho {
					seq = to.searches["one"].seq - 1 - i
				}
				att.out.seal(&p, probe{kind: kind, key: att.key, seq: seq})
				raw = append(raw, slices.Clone(p[:]))
			}
		}
		return raw
	}
}

type snapshot struct {
	using *path
	ids   []paths.ID
	at    []netip.AddrPort
}

func snap(l *Link) snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := snapshot{using: l.out.Load()}
	for _, p := range l.paths {
		s.ids = append(s.ids, p.id)
		s.at = append(s.at, *p.remote.Load())
	}
	return s
}

func (s snapshot) same(o snapshot) bool {
	return s.using == o.using && slices.Equal(s.ids, o.ids) && slices.Equal(s.at, o.at)
}

// Forged, replayed and strange datagrams change nothing. The Link answers none of them
// and passes none on.
func TestOVL13_ForgedPacketsChangeNothing(t *testing.T) {
	a, b, seen := spied(t)
	before := snap(b)
	attacker := udp(t)
	defer attacker.Close()
	// A reader of QUIC that must see none of the datagrams.
	gotQUIC := make(chan []byte, 1)
	go func() {
		buf := make([]byte, 2048)
		if n, _, err := b.s.QUIC().ReadFrom(buf); err == nil {
			gotQUIC <- buf[:n]
		}
	}()

	r := rand.New(rand.NewPCG(13, 13))
	replays := seen(b)
	keys := make([]byte, probeSize)
	b.mu.Lock()
	b.searches["one"].out.seal((*[probeSize]byte)(keys), probe{kind: probeAsk, key: b.searches["one"].key, seq: 1 << 62})
	b.mu.Unlock()
	n, to := forgeries(), b.s.LocalAddr()
	for i := range n {
		var p []byte
		switch i % 7 {
		case 0: // the right key's name, a wrong MAC
			p = slices.Clone(keys)
			p[macked+r.IntN(macSize)] ^= 1 << r.IntN(8)
		case 1: // one bit of a genuine one changed
			p = slices.Clone(replays[r.IntN(len(replays))])
			p[1+r.IntN(probeSize-1)] ^= 1 << r.IntN(8)
		case 2: // b's own probe sent back to it
			p = keys
		case 3: // QUIC from an unknown sender
			p = make([]byte, 40+r.IntN(1200))
			for j := range p {
				p[j] = byte(r.Uint32())
			}
			p[0] |= 0x40
		case 4: // neither
			p = make([]byte, 1+r.IntN(100))
			p[0] = 0x30
		case 5: // a probe of another length
			p = append(slices.Clone(replays[0]), 0)
		case 6: // a key of the forger's own
			other := secret(byte(i))
			other[0]++
			p = make([]byte, probeSize)
			newSealer(other, true).seal((*[probeSize]byte)(p), probe{kind: probeAsk, key: keyID(other), seq: uint64(i)})
		}
		if _, err := attacker.WriteToUDP(p, to); err != nil {
			t.Fatal(err)
		}
	}
	d := b.s.Stats().Dropped
	waitFor(t, "count of the forged", func() bool {
		d = b.s.Stats().Dropped
		return d.Forged > 0 && d.UnknownKey > 0 && d.Unvalidated > 0 && d.Unknown > 0 && d.Malformed > 0
	})
	if after := snap(b); !before.same(after) {
		t.Errorf("paths changed: %+v, were %+v", after, before)
	}
	_ = attacker.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, _, err := attacker.ReadFromUDP(make([]byte, 2048)); err == nil {
		t.Errorf("the attacker was sent %d bytes", n)
	}
	if d.Replayed != 0 {
		t.Errorf("%d counted as replayed", d.Replayed)
	}
	select {
	case p := <-gotQUIC:
		t.Errorf("QUIC was given %x", p)
	default:
	}
	if !up(a) || !up(b) {
		t.Error("a link went down")
	}
	t.Logf("%d sent, dropped %+v", n, d)
}

// A genuine probe seen on the wire is worth nothing when sent again, from its own
// address or from another.
func TestOVL13_ReplayedProbesChangeNothing(t *testing.T) {
	_, b, seen := spied(t)
	before := snap(b)
	attacker := udp(t)
	defer attacker.Close()
	replays := seen(b)
	replayed := b.s.counts.replayed.Load()
	const rounds = 200
	for range rounds {
		for _, p := range replays {
			if p[1] == byte(probeAsk) {
				b.s.probed(p, attacker.LocalAddr().(*net.UDPAddr).AddrPort(), nil, b.s.now())
			}
		}
	}
	if after := snap(b); !before.same(after) {
		t.Errorf("paths changed: %+v, were %+v", after, before)
	}
	if got := b.s.counts.replayed.Load() - replayed; got < rounds {
		t.Errorf("%d replays counted, want at least %d", got, rounds)
	}
}

// An attacker that copies a probe before it arrives makes the Link ask at the attacker's
// address once. The attacker cannot answer, so no path moves. The attacker gets no more
// bytes than it sent (OVL-09).
func TestOVL13_StolenProbeMovesNothing(t *testing.T) {
	a, b := joined(t)
	before := snap(b)
	thief := udp(t)
	defer thief.Close()
	from := thief.LocalAddr().(*net.UDPAddr).AddrPort()
	for range 10 {
		a.mu.Lock()
		att := a.searches["one"]
		var p [probeSize]byte
		att.out.seal(&p, probe{kind: probeAsk, key: att.key, seq: att.seq})
		att.seq++
		a.mu.Unlock()
		b.s.probed(p[:], from, nil, b.s.now())
		// He sends the question back, as if it were his own.
		buf := make([]byte, 2048)
		_ = thief.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, _, err := thief.ReadFromUDP(buf)
		if err != nil {
			t.Fatal(err)
		}
		b.s.probed(buf[:n], from, nil, b.s.now())
	}
	if after := snap(b); !before.same(after) {
		t.Errorf("paths changed: %+v, were %+v", after, before)
	}
	if (*b.s.sources.Load())[from] != nil {
		t.Error("the thief's address was validated")
	}
}

func TestOVL09_NoMoreOutThanInToUnvalidatedAddress(t *testing.T) {
	a, b := joined(t)
	victim := udp(t)
	defer victim.Close()
	from := victim.LocalAddr().(*net.UDPAddr).AddrPort()
	sent := 0
	for range 500 {
		a.mu.Lock()
		att := a.searches["one"]
		var p [probeSize]byte
		att.out.seal(&p, probe{kind: probeAsk, key: att.key, seq: att.seq})
		att.seq++
		a.mu.Unlock()
		b.s.probed(p[:], from, nil, b.s.now())
		sent += len(p)
	}
	got := 0
	buf := make([]byte, 2048)
	for {
		_ = victim.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		n, _, err := victim.ReadFromUDP(buf)
		if err != nil {
			break
		}
		got += n
	}
	if got == 0 || got > sent {
		t.Errorf("%d bytes out for %d in", got, sent)
	}
	t.Logf("%d bytes out for %d in", got, sent)
}
