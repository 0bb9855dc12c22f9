package overlay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
)

const (
	// maxBenchGrant is how long a Peer may be allowed to begin a bench.
	maxBenchGrant = time.Minute
	// benchChunkSize is how much is written and read at once.
	benchChunkSize = 64 << 10
	// benchLastWords is how long the opener may take to read a count.
	benchLastWords = 5 * time.Second
)

// AllowBench lets a Peer that is no coordinator begin one bench with this node
// within d, at most a minute. A coordinator tells the node so over its control
// session; nobody else has a say. Coordinators of the map need no such permission.
func (n *Node) AllowBench(id ID, d time.Duration) error {
	if d <= 0 || d > maxBenchGrant {
		return fmt.Errorf("allow bench of %s: %v: want up to %v", id, d, maxBenchGrant)
	}
	l, err := n.link(id)
	if err != nil {
		return fmt.Errorf("allow bench of %s: %w", id, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.benchEnd = time.Now().Add(d)
	return nil
}

// mayBench tells whether the Peer may begin a bench now. A permission is spent by
// asking.
func (l *peerLink) mayBench() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peer.Coordinator {
		return true
	}
	ok := time.Now().Before(l.benchEnd)
	l.benchEnd = time.Time{}
	return ok
}

// serveBench takes part in a bench that the Peer began on st, within the bounds
// that every request has, one at a time.
func (l *peerLink) serveBench(st carrier.Stream) {
	_ = st.SetDeadline(time.Now().Add(headerTime))
	req, err := frame.ReadBenchRequest(st)
	if err != nil {
		if errors.Is(err, frame.ErrInvalid) {
			l.node.counts.invalidFrames.Add(1)
			forward.Refuse(st, frame.FrameInvalid)
		}
		st.Reset()
		return
	}
	if !l.mayBench() {
		l.node.counts.forbidden.Add(1)
		forward.Refuse(st, frame.BenchForbidden)
		return
	}
	if !l.node.beginBench() {
		forward.Refuse(st, frame.Overloaded)
		return
	}
	defer l.node.endBench()
	defer st.Reset()
	l.log.Info("bench begins", "direction", int(req.Direction), "time", req.Time)
	if _, err := st.Write(frame.AppendReply(nil, frame.Accepted)); err != nil {
		return
	}
	_ = st.SetDeadline(time.Now().Add(req.Time + benchSlack))
	if req.Direction == frame.BenchReceive {
		sendBench(st, req)
	} else {
		count, err := countBench(st, req)
		if err != nil {
			return
		}
		if _, err := st.Write(count.Append(nil)); err != nil {
			return
		}
	}
	// The opener ends the stream when it has what it wants: a reset of ours would
	// overtake that.
	_ = st.CloseWrite()
	_ = st.SetReadDeadline(time.Now().Add(benchLastWords))
	_, _ = io.Copy(io.Discard, st)
}

// sendBench writes until as much is written as the request allows or the other
// side has enough.
func sendBench(st carrier.Stream, req frame.BenchRequest) {
	chunk := make([]byte, benchChunkSize)
	for left := int(req.Bytes); left > 0; {
		n, err := st.Write(chunk[:min(left, len(chunk))])
		if err != nil {
			return
		}
		left -= n
	}
}

// countBench reads until the request's time is up, counted from the first byte, or
// its bytes are there, or the other side ends.
func countBench(st carrier.Stream, req frame.BenchRequest) (frame.BenchCount, error) {
	chunk := make([]byte, benchChunkSize)
	n, err := st.Read(chunk[:min(len(chunk), int(req.Bytes))])
	if err != nil {
		return frame.BenchCount{}, fmt.Errorf("first bytes: %w", err)
	}
	begin := time.Now()
	_ = st.SetReadDeadline(begin.Add(req.Time))
	total := n
	for total < int(req.Bytes) && time.Since(begin) < req.Time {
		n, err := st.Read(chunk[:min(len(chunk), int(req.Bytes)-total)])
		total += n
		if err != nil {
			if !timedOut(err) && !errors.Is(err, io.EOF) {
				return frame.BenchCount{}, fmt.Errorf("after %d bytes: %w", total, err)
			}
			break
		}
	}
	return frame.BenchCount{Bytes: uint32(total), Took: min(time.Since(begin), MaxBenchTime)}, nil
}

// timedOut tells a deadline from everything else, for both carriers.
func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
