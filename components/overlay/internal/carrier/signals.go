package carrier

import (
	"slices"
	"sync"
	"time"

	"cadre.dev/overlay/internal/frame"
	"github.com/hashicorp/yamux"
)

// earlyLimit bounds the memory for a far side's signals about unknown streams.
const earlyLimit = 2 * acceptBacklog

// outbox holds signals until the connection takes them. It is bounded by the
// number of streams: each causes at most one reset and one answer.
type outbox struct {
	mu      sync.Mutex
	buf     []byte // guarded by mu
	emptied bool   // sendSignals is at it; guarded by mu
}

// push reports whether the outbox has no reader.
func (o *outbox) push(sig frame.Signal) (start bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = sig.Append(o.buf)
	start = !o.emptied
	o.emptied = true
	return start
}

// take gives everything, nil when there is nothing.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.buf
	o.buf, o.emptied = nil, len(b) > 0
	return b
}

// signal sends a signal as soon as the connection takes it.
func (s *session) signal(sig frame.Signal) {
	if s.outbox.push(sig) {
		s.spawn(s.sendSignals)
	}
}

// register makes a raw stream known to the signals about it.
func (s *session) register(raw *yamux.Stream) *stream {
	st := &stream{raw: raw, s: s}
	id := raw.StreamID()
	s.mu.Lock()
	s.streams[id] = st
	at := slices.Index(s.early, id)
	if at >= 0 {
		s.early = slices.Delete(s.early, at, at+1)
	}
	s.mu.Unlock()
	if at >= 0 {
		s.wasReset(st)
	}
	return st
}

// forget drops a stream that both sides have let go of.
func (s *session) forget(id uint32) {
	s.mu.Lock()
	delete(s.streams, id)
	s.mu.Unlock()
}

// signalReset sends the far side a reset of a stream. yamux drops the stream when both
// sides have closed it: the far side closes on the reset, and this side closes on the far
// side's answer. Closing first would let the far side read a clean end before it hears of
// the reset.
func (s *session) signalReset(id uint32) {
	s.signal(frame.Signal{Kind: frame.SignalReset, Stream: id})
}

func (s *session) sendSignals() {
	for buf := s.outbox.take(); buf != nil; buf = s.outbox.take() {
		if _, err := s.signals.Write(buf); err != nil {
			s.Close(ErrStalled)
			return
		}
	}
}

func (s *session) receiveSignals() {
	for {
		sig, err := frame.ReadSignal(s.signals)
		if err != nil {
			s.Close(err)
			return
		}
		s.mu.Lock()
		st := s.streams[sig.Stream]
		if st == nil && sig.Kind == frame.SignalReset && !s.ours(sig.Stream) {
			// Either not accepted yet, or over on our side; only time decides.
			s.early = append(s.early, sig.Stream)
			if len(s.early) > earlyLimit {
				s.early = slices.Delete(s.early, 0, 1)
			}
		}
		s.mu.Unlock()
		switch {
		case st == nil:
			if sig.Kind == frame.SignalReset {
				s.signal(frame.Signal{Kind: frame.SignalResetDone, Stream: sig.Stream})
			}
		case sig.Kind == frame.SignalReset:
			s.wasReset(st)
		case st.reset.Load():
			s.spawn(func() { s.let(st) })
		}
	}
}

// ours reports whether this side opened the stream: dialers count odd.
func (s *session) ours(id uint32) bool {
	return (id%2 == 1) == s.dialer
}

// wasReset drops a stream that the far side reset.
func (s *session) wasReset(st *stream) {
	st.reset.Store(true)
	st.release()
	// Closing writes to the connection and may wait for it.
	s.spawn(func() {
		s.let(st)
		s.signal(frame.Signal{Kind: frame.SignalResetDone, Stream: st.raw.StreamID()})
	})
}

// let hands a reset stream back to yamux.
func (s *session) let(st *stream) {
	begin := time.Now()
	_ = st.raw.Close()
	if time.Since(begin) >= writeTimeout {
		s.Close(ErrStalled)
	}
	s.forget(st.raw.StreamID())
}
