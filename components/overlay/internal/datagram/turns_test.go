package datagram

import (
	"testing"
	"time"
)

// Time, and not bytes, bounds the wait of other control streams: long frames are for
// paths that take them at once.
func TestTurnsAreLongOnFastPathsOnly(t *testing.T) {
	const gigabit = 8 * time.Nanosecond // a byte
	frame := func(tr *turns, perByte time.Duration) {
		n := tr.chunk()
		tr.took(n, time.Duration(n)*perByte)
	}
	var tr turns
	for i := range fastTurns {
		if tr.chunk() != shortChunk {
			t.Fatalf("frames are long after %d fast ones, want %d", i, fastTurns)
		}
		frame(&tr, gigabit)
	}
	for range 100 {
		if tr.chunk() != longChunk {
			t.Fatal("frames are short on a fast path")
		}
		frame(&tr, gigabit)
	}
	tr.took(100, 0)
	frame(&tr, 10*gigabit)
	if tr.chunk() != shortChunk {
		t.Error("frames are long after a slow frame")
	}
}

func TestTurnsStayShortOnSlowPaths(t *testing.T) {
	for name, took := range map[string]func(i int) (n int, d time.Duration){
		"steady": func(int) (int, time.Duration) { return shortChunk, time.Millisecond },
		// A pacer lets out 64 KiB at once, and then nothing for a while.
		"in bursts": func(i int) (int, time.Duration) {
			if i%5 == 4 {
				return shortChunk, time.Millisecond
			}
			return shortChunk, 10 * time.Microsecond
		},
		// QUIC buffers small frames, however slow the path.
		"small frames": func(int) (int, time.Duration) { return 1000, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			var tr turns
			for i := range 1000 {
				tr.took(took(i))
				if tr.chunk() != shortChunk {
					t.Fatalf("frames are long after frame %d", i)
				}
			}
		})
	}
}
