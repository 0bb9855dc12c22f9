package datagram

import (
	"fmt"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

// hear records that the far side lives. Only data that passed the connection's encryption
// counts: any sender can send packets to an address.
func (s *session) hear() { s.heard.Store(int64(time.Since(s.start))) }

// silence is how long nothing has been heard.
func (s *session) silence() time.Duration {
	return time.Since(s.start) - time.Duration(s.heard.Load())
}

// beat comes every limits.ping. It is the dead-man timer: it ends the Session when
// nothing comes from the far side for too long. Between beats it is no goroutine. The
// ping goes over the first stream and back. So beat also notices a Session with a window
// that stalled readers have used up.
func (s *session) beat() {
	if quiet := s.silence(); quiet > s.limits.quiet {
		s.Close(fmt.Errorf("%w for %v", carrier.ErrDead, quiet.Round(time.Millisecond)))
		return
	}
	s.mu.Lock()
	if !s.ended {
		s.timer = time.AfterFunc(s.limits.ping, func() { s.spawn(s.beat) })
	}
	s.mu.Unlock()
	if s.pinging.CompareAndSwap(false, true) {
		defer s.pinging.Store(false)
		s.frames.send(s.pings.ask(nil))
	}
}
