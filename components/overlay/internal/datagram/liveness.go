package datagram

import (
	"fmt"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

// hear notes that the far side lives. Only what came through the connection's
// encryption counts: anybody can send packets to an address.
func (s *session) hear() { s.heard.Store(int64(time.Since(s.start))) }

// silence is how long nothing has been heard.
func (s *session) silence() time.Duration {
	return time.Since(s.start) - time.Duration(s.heard.Load())
}

// deadMan ends the Session when nothing comes from the far side for too long.
// The ping needs an answer from the far side's control multiplexer, so it also
// notices a Session whose window is used up by readers that have stalled.
func (s *session) deadMan() {
	tick := time.NewTicker(s.limits.ping)
	defer tick.Stop()
	var pinging atomic.Bool
	var hole <-chan struct{}
	if s.sizes != nil {
		hole = s.sizes.hole
	}
	for {
		if pinging.CompareAndSwap(false, true) {
			if !s.spawn(func() {
				defer pinging.Store(false)
				_, _ = s.mux.Ping()
			}) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-hole:
			s.Close(errBlackHole)
			return
		case <-s.done:
			return
		}
		if quiet := s.silence(); quiet > s.limits.quiet {
			s.Close(fmt.Errorf("%w for %v", carrier.ErrDead, quiet.Round(time.Millisecond)))
			return
		}
	}
}
