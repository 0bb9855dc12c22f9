package punch

import "time"

const (
	// believeTime is how long BBR believes a least round trip, and so the least
	// time that a connection with a wrong one is kept from it.
	believeTime = 10 * time.Second
	// lookTime is how often the connection is looked at then.
	lookTime = believeTime / 2
	// idleBytes is the traffic of the session's own pings and little more in lookTime.
	idleBytes = 64 << 10
	// lossShare is the share of resent bytes, 1 in lossShare, from which cubic
	// gives less than a BBR that has to find out about the round trip first.
	lossShare = 200
	// maxPings is how many round trips have to be longer than the kernel's.
	maxPings = 4
)

// relief works around a wrong least round trip of a connection.
type relief struct {
	timer  *time.Timer
	before string // the congestion control to go back to
	ping   time.Duration
	looks  int
	last   Info // the values of the last check
}

// CheckRTT compares the kernel's least round trip with ping, which measures the round
// trip over the session on conn. A value below half of the measured one comes from a
// handshake with crossed SYNs. BBR then sends at a fraction of the rate for 10 s, so
// CheckRTT gives conn cubic, which does not use the round trip. It reports whether it has
// changed anything.
//
// A lost packet makes a round trip long, too, and where packets are lost cubic is
// far slower than BBR. So up to maxPings are measured, and the least of them
// counts: as soon as one is short enough, the kernel is right. Where much has been
// lost already, BBR stays in any case.
//
// BBR comes back after 10 s or later, as soon as that does no harm. The kernel keeps the
// wrong round trip for 5 minutes. A BBR that begins within that time reads it and is too
// slow for its first 10 s. See [relief.over].
//
// CheckRTT may be called at any time, by any goroutine, and ends with an error of ping.
// Close ends its goroutine.
func CheckRTT(conn *Conn, ping func() (time.Duration, error)) bool {
	in, least, ok := doubt(conn, ping)
	if !ok {
		return false
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if conn.closed || conn.relief != nil || setCongestion(conn.tcp, "cubic") != nil {
		return false
	}
	r := &relief{before: in.Congestion, ping: least, last: in}
	r.timer = time.AfterFunc(lookTime, func() { conn.look(r) })
	conn.relief = r
	return true
}

// doubt measures until the kernel's least round trip may be right. ok means that it is
// wrong; in and least are the evidence, conn's Info and the least measured round trip.
func doubt(conn *Conn, ping func() (time.Duration, error)) (in Info, least time.Duration, ok bool) {
	for tries := range maxPings {
		rtt, err := ping()
		if err != nil {
			return Info{}, 0, false
		}
		if tries == 0 || rtt < least {
			least = rtt
		}
		in, err = info(conn.tcp)
		if err != nil || in.Congestion != "bbr" || !wrong(in, least) || in.Resent*lossShare > in.Sent {
			return Info{}, 0, false
		}
	}
	return in, least, true
}

// wrong reports whether the kernel's least round trip is impossible.
func wrong(in Info, ping time.Duration) bool { return in.MinRTT > 0 && in.MinRTT < ping/2 }

// look ends r once that is right.
func (c *Conn) look(r *relief) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.relief != r {
		return
	}
	now, err := info(c.tcp)
	if err != nil {
		c.relief = nil
		return
	}
	r.looks++
	if r.over(now) {
		_ = setCongestion(c.tcp, r.before)
		c.relief = nil
		return
	}
	r.last = now
	r.timer.Reset(lookTime)
}

// over reports whether BBR may come back, for one of three reasons. The kernel has
// forgotten the wrong round trip. Or the traffic is so small that BBR can find the right
// one unnoticed. Or the loss is so high that cubic is worse. Losses before the first
// check are cubic's own doing, when it finds the rate.
func (r *relief) over(now Info) bool {
	sent, resent := now.Sent-r.last.Sent, now.Resent-r.last.Resent
	switch {
	case time.Duration(r.looks)*lookTime < believeTime:
		return false
	case !wrong(now, r.ping):
		return true
	case sent < idleBytes && now.NotSent == 0:
		return true
	}
	return resent*lossShare > sent
}
