// Package logring keeps the last bytes of a log in memory, for readers that come later or follow.
package logring

import (
	"context"
	"sync"
)

const (
	// Size is how many bytes a Ring keeps.
	Size = 256 << 10
	// Piece bounds the bytes of one piece for a reader.
	Piece = 16 << 10
)

// Ring keeps the last Size bytes that were written. A write never waits for a reader: a reader that
// is too slow loses bytes and gets their number. The zero value is ready. Safe for concurrent use.
type Ring struct {
	mu sync.Mutex
	// buf is nil before the first write. Guarded by mu.
	buf []byte
	// end is the number of bytes so far; byte n is at n % Size. Guarded by mu.
	end uint64
	// more is closed at the next write; nil: no reader waits. Guarded by mu.
	more chan struct{}
}

// Write implements io.Writer, without an error.
func (r *Ring) Write(p []byte) (int, error) {
	n := len(p)
	if n == 0 {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buf == nil {
		r.buf = make([]byte, Size)
	}
	if skipped := n - Size; skipped > 0 {
		p, r.end = p[skipped:], r.end+uint64(skipped)
	}
	for len(p) > 0 {
		k := copy(r.buf[r.end%Size:], p)
		p, r.end = p[k:], r.end+uint64(k)
	}
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
	return n, nil
}

// Copy gives send the last lines of the ring, in pieces of at most Piece bytes; 0: all whole lines
// that are kept. With follow it continues with later bytes until ctx ends, and returns its cause.
// dropped is the number of bytes that were lost before data. send's error ends Copy, and data is
// valid only during the call.
func (r *Ring) Copy(ctx context.Context, lines int, follow bool, send func(dropped uint64, data []byte) error) error {
	at, stop := r.from(lines)
	piece := make([]byte, Piece)
	for {
		start, n, more := r.read(at, piece, follow)
		if n > 0 {
			if err := send(start-at, piece[:n]); err != nil {
				return err
			}
			at = start + uint64(n)
		}
		if !follow && at >= stop {
			return nil
		}
		if n > 0 {
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// read copies the bytes from position at, or from the oldest kept byte. Without any byte it
// returns a channel that the next write closes.
func (r *Ring) read(at uint64, piece []byte, wait bool) (start uint64, n int, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	start = max(at, r.oldestLocked())
	for n < len(piece) && start+uint64(n) < r.end {
		from := (start + uint64(n)) % Size
		k := copy(piece[n:], r.buf[from:min(Size, from+r.end-start-uint64(n))])
		n += k
	}
	if n == 0 && wait {
		if r.more == nil {
			r.more = make(chan struct{})
		}
		more = r.more
	}
	return start, n, more
}

func (r *Ring) oldestLocked() uint64 {
	if r.end < Size {
		return 0
	}
	return r.end - Size
}

// from returns the position of the last lines, and the present end.
func (r *Ring) from(lines int) (at, end uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.oldestLocked()
	if lines <= 0 {
		if oldest > 0 {
			// The first line that is kept is likely the rest of a longer one.
			for at := oldest; at < r.end; at++ {
				if r.buf[at%Size] == '\n' {
					return at + 1, r.end
				}
			}
		}
		return oldest, r.end
	}
	for at := r.end; at > oldest; at-- {
		// A newline at the very end belongs to the last line.
		if r.buf[(at-1)%Size] != '\n' || at == r.end {
			continue
		}
		if lines--; lines == 0 {
			return at, r.end
		}
	}
	return oldest, r.end
}
