package punch

import "time"

const (
	// believeTime is how long BBR believes a least round trip, and so the least
	// time that a connection with a wrong one is kept from it.
	believeTime = 10 * time.Second
	// lookTime is how often the connection is looked at then.
	lookTime = believeTime / 2
	// idleBytes is what the session's own pings and little more send in lookTime.
	idleBytes = 64 << 10
	// lossShare is the share of resent bytes, 1 in lossShare, from which cubic
	// gives less than a BBR that has to find out about the round trip first.
	lossShare = 200
	// maxPings is how many round trips have to be longer than the kernel's.
	maxPings = 4
)

// relief is how a connection whose least round trip is wrong gets around it.
type relief struct {
	timer  *time.Timer
	before string // the congestion control to go back to
	ping   time.Duration
	looks  int
	last   Info // what the last look saw
}

// CheckRTT compares the kernel's least round trip with ping, which measures one
// over the session on conn. Less than half of it comes from a handshake whose
// SYNs crossed. BBR then sends at a fraction of the rate for 10 s, so CheckRTT
// gives conn cubic, which does not ask for the round trip. It reports whether it
// has changed anything.
//
// A lost packet makes a round trip long, too, and where packets are lost cubic is
// far slower than BBR. So up to maxPings are measured, and the least of them
// counts: as soon as one is short enough, the kernel is right. Where much has been
// lost already, BBR stays whatever it believes.
//
// BBR comes back after 10 s or later, as soon as that does no harm: the kernel
// keeps the wrong round trip for 5 minutes and tells it to a BBR that begins
// within that time, which then too is slow for its first 10 s. See [relief.over].
//
// CheckRTT may be called at any time, by any goroutine, and ends with an error of
// ping. Close ends what it began.
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

// doubt measures until the kernel's least round trip may be right; ok tells that it
// cannot be, by what conn's Info and the least measured are.
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

// wrong tells whether the kernel's least round trip cannot be.
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

// over tells whether BBR may come back: the kernel has forgotten the wrong round
// trip, or nothing much is being sent and BBR can find out the right one
// unnoticed, or so much is lost that cubic is worse. What is lost until the first
// look is cubic's own doing, when it finds the rate.
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
