package underlay

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestProbeRoundTrip(t *testing.T) {
	key := secret(7)
	init, resp := newSealer(key, true), newSealer(key, false)
	var b [probeSize]byte
	for _, p := range []probe{
		{kind: probeAsk, key: keyID(key), seq: 0},
		{kind: probeEcho, key: keyID(key), seq: 1<<64 - 1, flags: flagInUse},
	} {
		init.seal(&b, p)
		got, ok := parseProbe(b[:])
		if !ok || got != p {
			t.Errorf("parsed %+v %v, want %+v", got, ok, p)
		}
		if !init.genuine(b[:]) {
			t.Error("the same direction refuses it")
		}
		if resp.genuine(b[:]) {
			t.Error("the other direction takes it")
		}
		if newSealer(secret(8), true).genuine(b[:]) {
			t.Error("another key takes it")
		}
	}
	for i := range b {
		bad := b
		bad[i] ^= 0x80
		if _, ok := parseProbe(bad[:]); ok && init.genuine(bad[:]) {
			t.Errorf("byte %d is not covered", i)
		}
	}
	if classify(b[:]) != classProbe {
		t.Error("a probe is not sorted as one")
	}
}

// The window is compared with a set that forgets nothing.
func TestWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var w window
		seen := map[uint64]bool{}
		base, top := r.Uint64()>>1, uint64(0)
		for range 3000 {
			seq := base + uint64(r.IntN(1<<r.IntN(14)))
			base += uint64(r.IntN(4))
			want := !seen[seq] && (len(seen) == 0 || seq > top || top-seq < windowSize)
			if got := w.fresh(seq); got != want {
				t.Fatalf("fresh(%d) = %v, want %v; top %d", seq, got, want, top)
			}
			if want {
				seen[seq] = true
				top = max(top, seq)
			}
		}
	}
}

func FuzzProbe(f *testing.F) {
	key := secret(7)
	seal, other := newSealer(key, true), newSealer(key, false)
	var b [probeSize]byte
	for _, p := range []probe{{kind: probeAsk, key: keyID(key), seq: 5}, {kind: probeEcho, seq: 6, flags: flagInUse}} {
		seal.seal(&b, p)
		f.Add(bytes.Clone(b[:]))
	}
	f.Add([]byte{probeMark})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := parseProbe(b)
		if !ok {
			return
		}
		var again [probeSize]byte
		seal.seal(&again, p)
		if !bytes.Equal(again[:macked], b[:macked]) {
			t.Errorf("%x parsed as %+v, which is %x", b, p, again)
		}
		if seal.genuine(b) && !bytes.Equal(again[:], b) {
			t.Errorf("%x is taken for genuine", b)
		}
		if other.genuine(b) {
			t.Errorf("%x is taken for the other direction's", b)
		}
	})
}

func FuzzControlMessages(f *testing.F) {
	f.Add([]byte{})
	for _, b := range ecnControl {
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		segmentSize(b)
		withoutSegmentSize(b)
	})
}
