package paths

import (
	"slices"
	"time"
)

const (
	// PerSearch and PerLink bound the paths of one search and of a Link.
	PerSearch = 4
	PerLink   = 12
)

// Reason says why something was decided.
type Reason string

const (
	ReasonFirst    Reason = "first validated"
	ReasonSilent   Reason = "nothing came back"
	ReasonOneWay   Reason = "probes are not answered"
	ReasonDirect   Reason = "direct before relay"
	ReasonFaster   Reason = "shorter round trip for 3 s"
	ReasonOnlyOne  Reason = "the only one left"
	ReasonQuiet    Reason = "the one in use is quiet"
	ReasonRemoved  Reason = "the one in use is gone"
	ReasonNever    Reason = "never answered"
	ReasonConsent  Reason = "no answer for 30 s"
	ReasonReturned Reason = "answers again"
)

// Do is the request of an Effect. Every value names its path.
type Do string

const (
	// SendProbe sends one probe and reports it with Sent.
	SendProbe Do = "probe"
	// Accept lets in datagrams from the path.
	Accept Do = "accept"
	// Use sends traffic over the path; path 0 leaves nowhere to send to.
	Use Do = "use"
	// Drop forgets the path; the State has already done so.
	Drop Do = "drop"
	// ReportUp, ReportChanged, ReportQuiet and ReportGone inform the Link's owner: a path works,
	// another path is in use, the path in use went quiet, no working path is left.
	ReportUp      Do = "report up"
	ReportChanged Do = "report changed"
	ReportQuiet   Do = "report quiet"
	ReportGone    Do = "report gone"
)

// Effect is one thing to do.
type Effect struct {
	Do     Do
	Path   ID
	Reason Reason
}

// State is the paths of one Link. Its zero value has none. It is not safe for
// concurrent use.
type State struct {
	paths []*path // by ID
	inUse ID
	why   Reason
	// working: the owner's last notification said that a path works.
	working bool
	// moved is when a path was last left although it worked.
	moved   time.Duration
	effects []Effect
}

// InUse gives the path that traffic goes over, 0 for none.
func (s *State) InUse() ID { return s.inUse }

// Room reports whether a path of search can be added, and which path has to be removed
// for it first, 0 for none.
func (s *State) Room(search string) (evict ID, ok bool) {
	mine := 0
	for _, p := range s.paths {
		if p.search == search {
			mine++
		}
	}
	if mine < PerSearch && len(s.paths) < PerLink {
		return 0, true
	}
	var found *path
	for _, p := range s.paths {
		if p.id == s.inUse || mine >= PerSearch && p.search != search {
			continue
		}
		switch {
		case p.state != Up && (found == nil || found.state == Up):
			found = p
		case found == nil && p.search != search:
			found = p // all are up: the oldest of another search makes way
		}
	}
	if found == nil {
		return 0, false
	}
	return found.id, true
}

// Add takes a path that has not been probed yet. The caller has seen to Room.
func (s *State) Add(now time.Duration, id ID, search string, kind Kind) {
	s.paths = append(s.paths, &path{
		id: id, search: search, kind: kind, added: now,
		state: Probing, since: now, lastHeard: now, baseSince: now,
	})
}

// Remove forgets a path.
func (s *State) Remove(id ID) {
	s.paths = slices.DeleteFunc(s.paths, func(p *path) bool { return p.id == id })
}

// Traffic reports the traffic of a path since the last call for that path.
func (s *State) Traffic(now time.Duration, id ID, sent, received bool) {
	p := s.find(id)
	if p == nil || !sent && !received {
		return
	}
	p.lastTraffic, p.traffic = now, true
	if received {
		p.alive(now)
	} else {
		p.wait(now)
	}
}

// Sent reports a probe.
func (s *State) Sent(now time.Duration, id ID, seq uint64) {
	p := s.find(id)
	if p == nil {
		return
	}
	p.probes[p.count%ringSize] = sent{seq: seq, at: now}
	p.count++
	p.lastSent, p.urgent = now, false
	p.wait(now)
	p.probesSince++
	p.recount(now)
}

// Heard reports an authentic probe of the Peer's; uses: the Peer sends its traffic over
// the path.
func (s *State) Heard(now time.Duration, id ID, uses bool) {
	p := s.find(id)
	if p == nil {
		return
	}
	p.peerUses = uses
	p.alive(now)
	// Only an answer to a probe of our own counts, so ask at once.
	p.urgent = p.urgent || p.state != Up
}

// Ask has the path probed at once.
func (s *State) Ask(id ID) {
	if p := s.find(id); p != nil {
		p.urgent = true
	}
}

// Echo reports an authentic answer; false when it answers no probe that is open.
func (s *State) Echo(now time.Duration, id ID, seq uint64) bool {
	p := s.find(id)
	if p == nil {
		return false
	}
	i := slices.IndexFunc(p.probes[:min(p.count, ringSize)], func(s sent) bool { return s.seq == seq && !s.answered })
	if i < 0 {
		return false
	}
	p.probes[i].answered = true
	p.loss -= p.loss * lossGain
	p.measure(now, now-p.probes[i].at)
	s.up(now, p)
	return true
}

// Proven reports that the Peer answered at the path's present address, with the round
// trip rtt. Measurements at the old address are void.
func (s *State) Proven(now time.Duration, id ID, rtt time.Duration) {
	p := s.find(id)
	if p == nil {
		return
	}
	for i := range p.probes {
		p.probes[i].answered = true
	}
	p.srtt, p.variance, p.base, p.older, p.baseSince = 0, 0, 0, 0, now
	p.measure(now, rtt)
	s.up(now, p)
}

func (s *State) up(now time.Duration, p *path) {
	p.lastEcho = now
	p.alive(now)
	p.recount(now)
	p.urgent = false
	if p.state != Up {
		p.state, p.since = Up, now
	}
}

// Rebound returns the direct path of search that moves to an address which answered a
// challenge begun at since. It is a path without a sign of life after since, preferably
// the path in use.
func (s *State) Rebound(search string, since time.Duration) (ID, bool) {
	var found *path
	for _, p := range s.paths {
		if p.search != search || p.kind != Direct || p.lastHeard >= since {
			continue
		}
		if found == nil || p.id == s.inUse || found.id != s.inUse && p.lastHeard > found.lastHeard {
			found = p
		}
	}
	if found == nil {
		return 0, false
	}
	return found.id, true
}

func (s *State) find(id ID) *path {
	for _, p := range s.paths {
		if p.id == id {
			return p
		}
	}
	return nil
}

// Info describes a path.
type Info struct {
	Search string
	Kind   Kind
	State  PathState
	Since  time.Duration // of the state
	InUse  bool
	// Why is the reason for which the path is in use; "" for an unused path.
	Why                 Reason
	RTT, RTTVar, MinRTT time.Duration // 0 when never measured
	Loss                float64       // of probes and their answers, 0 to 1
	PeerUses            bool          // the Peer sends its traffic over it
	LastHeard           time.Duration
}

// Info describes a path; false when there is no such.
func (s *State) Info(id ID) (Info, bool) {
	p := s.find(id)
	if p == nil {
		return Info{}, false
	}
	i := Info{
		Search: p.search, Kind: p.kind, State: p.state, Since: p.since, InUse: p.id == s.inUse,
		RTT: p.srtt, RTTVar: p.variance, MinRTT: p.rtt(), Loss: p.loss, PeerUses: p.peerUses, LastHeard: p.lastHeard,
	}
	if i.InUse {
		i.Why = s.why
	}
	return i, true
}

// Active reports whether a path carried traffic within the last second.
func (s *State) Active(now time.Duration) bool {
	return slices.ContainsFunc(s.paths, func(p *path) bool { return p.active(now) })
}
