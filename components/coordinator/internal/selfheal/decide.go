package selfheal

import "time"

const (
	// stoppedFor is how long a coordinator must be reported as stopped without a break. Three listings
	// fit in, and so does the stop of an operator who starts the CVM again at once.
	stoppedFor = time.Minute
	// gap is the longest time between two evaluations of one observation. A process that was paused
	// longer has old news, and observes again from the beginning.
	gap = time.Minute
	// leaderlessFor is how long the records must name no living leader before a coordinator without the
	// Lease acts. A change of leaders takes at most twice the time of a Consul session, 20 s.
	leaderlessFor = time.Minute
	// bootLimit is how long a started coordinator may take until a Session reaches it. Only one is
	// started at a time, so that a fault of the platform's hosts meets one boot and not all of them.
	bootLimit = 5 * time.Minute
	// backoffFirst is the wait after the first start, doubled after each further one up to backoffMost.
	backoffFirst = 2 * time.Minute
	backoffMost  = time.Hour
	// wellFor is how long a coordinator must be connected until its earlier starts no longer count.
	wellFor = 10 * time.Minute
)

// Member is one coordinator of the cluster as this coordinator sees it.
type Member struct {
	Slot string
	// VMUUID names the CVM on the platform.
	VMUUID string
	// Stopped: the platform reports a CVM that stays down and works on no call for it.
	Stopped bool
	// Connected: a Session of the overlay is open to it.
	Connected bool
}

// Evaluation is all that one decision reads.
type Evaluation struct {
	// Self is the Slot of this coordinator.
	Self string
	// Leader holds the Lease by the records; "": the records cannot be read or name no leader.
	Leader string
	// Frozen: an operator froze the whole cluster. Nothing is started then.
	Frozen bool
	// Members are all coordinators that the listing names, ordered by ordinal.
	Members []Member
}

// State remembers the earlier evaluations. The zero State knows nothing. It is kept in memory only: a
// coordinator that starts again counts the starts again, which costs at most a few early calls.
type State struct {
	last       time.Time
	leaderless time.Time
	members    map[string]*history
}

// history is the result of the evaluations about one coordinator.
type history struct {
	stopped, connected time.Time // since when without a break; zero: not now
	started            time.Time // the last start; zero: none that counts
	starts             int       // in a row
}

// Next takes an evaluation and returns the coordinator to start now. The caller makes the call in every
// case, also after a failed call. A failed attempt counts as a start.
func (s *State) Next(e Evaluation, now time.Time) (start Member, ok bool) {
	if s.members == nil {
		s.members = map[string]*history{}
	}
	if now.Sub(s.last) > gap {
		s.forget()
	}
	s.last = now
	s.observe(e, now)
	if e.Frozen || !s.acts(e, now) || s.booting(e, now) {
		return Member{}, false
	}
	for _, m := range e.Members {
		h := s.members[m.Slot]
		if m.Slot == e.Self || !h.due(now) {
			continue
		}
		h.started = now
		h.starts++
		return m, true
	}
	return Member{}, false
}

// Starts is how many starts in a row a coordinator has had without being well in between.
func (s *State) Starts(slot string) int {
	if h := s.members[slot]; h != nil {
		return h.starts
	}
	return 0
}

// forget drops every observation, and keeps the starts: they were made.
func (s *State) forget() {
	s.leaderless = time.Time{}
	for _, h := range s.members {
		h.stopped, h.connected = time.Time{}, time.Time{}
	}
}

func (s *State) observe(e Evaluation, now time.Time) {
	s.leaderless = since(s.leaderless, !leaderLives(e), now)
	for _, m := range e.Members {
		h := s.members[m.Slot]
		if h == nil {
			h = &history{}
			s.members[m.Slot] = h
		}
		h.stopped = since(h.stopped, m.Stopped && !m.Connected, now)
		h.connected = since(h.connected, m.Connected, now)
		if !h.connected.IsZero() && now.Sub(h.connected) >= wellFor {
			h.started, h.starts = time.Time{}, 0
		}
	}
}

// leaderLives reports whether the records name a leader that the platform does not report as stopped.
// The records of a cluster without quorum name the last leader.
func leaderLives(e Evaluation) bool {
	for _, m := range e.Members {
		if m.Slot == e.Leader && m.Stopped && !m.Connected {
			return false
		}
	}
	return e.Leader != ""
}

// acts reports whether this coordinator is the one to act: the leader, or while there is none the first
// coordinator that is connected.
func (s *State) acts(e Evaluation, now time.Time) bool {
	if leaderLives(e) {
		return e.Leader == e.Self
	}
	if now.Sub(s.leaderless) < leaderlessFor {
		return false
	}
	for _, m := range e.Members {
		if m.Slot == e.Self {
			return true
		}
		if m.Connected {
			return false
		}
	}
	return false // a listing without this coordinator itself is not believed
}

// booting reports whether a coordinator that was started may still come up. A listing may show it as
// stopped for a while after the call, so that alone does not end the wait.
func (s *State) booting(e Evaluation, now time.Time) bool {
	for _, m := range e.Members {
		h, limit := s.members[m.Slot], bootLimit
		if m.Stopped {
			limit = backoffFirst
		}
		if !m.Connected && !h.started.IsZero() && now.Sub(h.started) < limit {
			return true
		}
	}
	return false
}

// due reports whether the coordinator has been stopped for long enough and its back-off is over.
func (h *history) due(now time.Time) bool {
	if h.stopped.IsZero() || now.Sub(h.stopped) < stoppedFor {
		return false
	}
	return h.starts == 0 || now.Sub(h.started) >= backoff(h.starts)
}

// backoff is the wait after so many starts in a row.
func backoff(starts int) time.Duration {
	wait := backoffFirst
	for range starts - 1 {
		if wait *= 2; wait >= backoffMost {
			return backoffMost
		}
	}
	return wait
}

// since keeps from when a condition has held without a break.
func since(was time.Time, holds bool, now time.Time) time.Time {
	switch {
	case !holds:
		return time.Time{}
	case was.IsZero():
		return now
	}
	return was
}
