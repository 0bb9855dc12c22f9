package carrier

import (
	"fmt"

	"cadre.dev/overlay/internal/frame"
)

func (s *session) SendDatagram(b []byte) {
	if s.queue.Push(b) {
		s.spawn(s.sendDatagrams)
	}
}

func (s *session) ReceiveDatagram(buf []byte) ([]byte, error) {
	b, err := frame.ReadPrefixed(s.datagrams, buf)
	if err != nil {
		s.Close(err)
		return nil, fmt.Errorf("receive datagram: %w", s.closedError())
	}
	return b, nil
}

// sendDatagrams writes the queued datagrams, many in one go.
func (s *session) sendDatagrams() {
	for buf := s.queue.Take(nil); buf != nil; buf = s.queue.Take(buf) {
		for rest := buf; len(rest) > 0; {
			n := min(len(rest), s.join.chunk())
			if _, err := s.datagrams.Write(rest[:n]); err != nil {
				s.Close(ErrStalled)
				return
			}
			rest = rest[n:]
		}
	}
}
