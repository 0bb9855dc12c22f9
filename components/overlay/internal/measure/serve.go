package measure

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/counters"
	"cadre.dev/overlay/internal/forward"
	"cadre.dev/overlay/internal/frame"
)

const (
	// requestTime is the time within which the opener has to send its request.
	requestTime = 10 * time.Second
	// chunkSize is how much is written and read at once.
	chunkSize = 64 << 10
	// lastWords is how long the opener may take to read a count.
	lastWords = 5 * time.Second
)

// Part is how a node takes part in the benches that its Peers begin. Constant.
type Part struct {
	Place    *Place
	Counters *counters.Counters
}

// Serve answers a bench that a Peer began on st, within the bounds of every request, one
// at a time. may reports whether the Peer may begin one now; it is called once, for a
// valid request.
func (p *Part) Serve(st carrier.Stream, may func() bool, log *slog.Logger) {
	_ = st.SetDeadline(time.Now().Add(requestTime))
	req, err := frame.ReadBenchRequest(st)
	if err != nil {
		if errors.Is(err, frame.ErrInvalid) {
			p.Counters.InvalidFrames.Add(1)
			forward.Refuse(st, frame.FrameInvalid)
		}
		st.Reset()
		return
	}
	if !may() {
		p.Counters.Forbidden.Add(1)
		forward.Refuse(st, frame.BenchForbidden)
		return
	}
	if !p.Place.Take() {
		forward.Refuse(st, frame.Overloaded)
		return
	}
	defer p.Place.Give()
	defer st.Reset()
	log.Info("bench begins", "direction", int(req.Direction), "time", req.Time)
	if _, err := st.Write(frame.AppendReply(nil, frame.Accepted)); err != nil {
		return
	}
	_ = st.SetDeadline(time.Now().Add(req.Time + benchSlack))
	if req.Direction == frame.BenchReceive {
		send(st, req)
	} else {
		count, err := receive(st, req)
		if err != nil {
			return
		}
		if _, err := st.Write(count.Append(nil)); err != nil {
			return
		}
	}
	// The opener ends the stream when it has its result: a reset of ours would overtake
	// the result.
	_ = st.CloseWrite()
	_ = st.SetReadDeadline(time.Now().Add(lastWords))
	_, _ = io.Copy(io.Discard, st)
}

// send writes until as much is written as the request allows or the other
// side has enough.
func send(st carrier.Stream, req frame.BenchRequest) {
	chunk := make([]byte, chunkSize)
	for left := int(req.Bytes); left > 0; {
		n, err := st.Write(chunk[:min(left, len(chunk))])
		if err != nil {
			return
		}
		left -= n
	}
}

// receive reads until the request's time is up, counted from the first byte, or
// its bytes are there, or the other side ends.
func receive(st carrier.Stream, req frame.BenchRequest) (frame.BenchCount, error) {
	chunk := make([]byte, chunkSize)
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

// timedOut distinguishes a deadline from other errors, for both carriers.
func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
