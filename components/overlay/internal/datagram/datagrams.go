package datagram

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cadre.dev/overlay/internal/frame"
	quic "github.com/apernet/quic-go"
)

// headerTime is how long the stream for large datagrams may take to say so.
const headerTime = 10 * time.Second

// prefix is the length before a queued datagram.
var prefix = frame.PrefixedSize(0)

func (s *session) SendDatagram(b []byte) {
	if s.outbox.Push(b) {
		s.spawn(s.sendDatagrams)
	}
}

// ReceiveDatagram waits for QUIC itself: a goroutine that did so for it would stand
// still most of the time.
func (s *session) ReceiveDatagram(buf []byte) ([]byte, error) {
	b, err := s.nextDatagram()
	if err != nil || len(b) > len(buf) {
		return b, err
	}
	return buf[:copy(buf, b)], nil
}

func (s *session) nextDatagram() ([]byte, error) {
	for {
		ctx := s.arrived.context()
		select {
		case b := <-s.inbox:
			return b, nil
		default:
		}
		b, err := s.raw.ReceiveDatagram(ctx)
		switch {
		case err == nil && (len(b) < frame.MinDatagram || len(b) > frame.MaxDatagram):
			s.Close(fmt.Errorf("%w: datagram of %d bytes, want %d to %d", frame.ErrInvalid, len(b), frame.MinDatagram, frame.MaxDatagram))
		case err == nil:
			s.hear()
			return b, nil
		case ctx.Err() != nil:
			continue
		}
		<-s.done // or just about to be
		return nil, fmt.Errorf("receive datagram: %w", s.closedError(nil))
	}
}

// sendDatagrams hands the queue to QUIC, which waits for congestion control.
func (s *session) sendDatagrams() {
	for buf, more := s.outbox.Pop(nil); more; buf, more = s.outbox.Pop(buf) {
		err := s.raw.SendDatagram(buf[prefix:])
		var large *quic.DatagramTooLargeError
		if errors.As(err, &large) {
			if s.large.Push(buf[prefix:]) {
				s.spawn(s.sendLarge)
			}
		} else if err != nil {
			return // the Session is over
		}
	}
}

// sendLarge carries the datagrams that no packet takes on a stream of their
// own, which begins with the first of them.
func (s *session) sendLarge() {
	err := s.openPipe()
	for buf, more := s.large.Pop(nil); more && err == nil; buf, more = s.large.Pop(buf) {
		_, err = s.pipe.Write(buf)
	}
	if err != nil {
		s.fail("send large datagrams", err)
	}
}

func (s *session) openPipe() error {
	if s.pipe != nil {
		return nil
	}
	pipe, err := s.raw.OpenUniStream()
	if err != nil {
		return err
	}
	s.pipe = pipe
	_, err = pipe.Write(frame.Header{Kind: frame.KindUDP}.Append(nil))
	return err
}

// receiveLarge reads the stream of large datagrams.
func (s *session) receiveLarge() {
	pipe, err := s.raw.AcceptUniStream(context.Background())
	if err != nil {
		return // the Session is over
	}
	_ = pipe.SetReadDeadline(time.Now().Add(headerTime))
	err = readLarge(pipe, func() { _ = pipe.SetReadDeadline(time.Time{}) }, func(b []byte) bool {
		s.hear()
		return s.keep(b)
	})
	if err != nil {
		s.fail("receive large datagrams", err)
	}
}

// readLarge reads the stream for large datagrams until arrived wants no more,
// and calls begun when it is known to be one. The stream has no end of its own.
func readLarge(r io.Reader, begun func(), arrived func([]byte) bool) error {
	h, err := frame.ReadHeader(r)
	if err != nil {
		return err
	}
	if h.Kind != frame.KindUDP {
		return fmt.Errorf("%w: one-way %s stream", frame.ErrInvalid, h.Kind)
	}
	begun()
	buf := make([]byte, frame.MaxDatagram)
	for {
		b, err := frame.ReadPrefixed(r, buf)
		if err != nil {
			return err
		}
		if !arrived(bytes.Clone(b)) {
			return nil
		}
	}
}

// keep holds a large datagram for the next receiver; false when the Session is over.
func (s *session) keep(b []byte) bool {
	select {
	case s.inbox <- b:
		s.arrived.ring()
		return true
	case <-s.done:
		return false
	}
}
