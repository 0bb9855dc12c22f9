package underlay

import (
	"net/netip"
	"slices"
	"time"
)

const (
	// challengesKept bounds the strange addresses of a search that are challenged at a
	// time, and challengeFor bounds the time of one challenge.
	challengesKept = 4
	challengeFor   = 3 * time.Second
)

// challenge is a strange address that sent a genuine probe. The Peer's mapping may have
// moved there, or an attacker may have copied the probe. A question to this address
// decides: only a sender with the secret that receives packets there can answer.
type challenge struct {
	from  netip.AddrPort
	begin time.Duration
	last  time.Duration
	// asked are the newest questions, by time.
	asked [4]struct {
		seq uint64
		at  time.Duration
		ok  bool
	}
	n int
}

// probed handles a probe that came from an address or over the relay of path via. An
// unauthenticated sender gets no answer. An authenticated sender gets at most one
// datagram of the same size (OVL-09, OVL-13).
func (s *Socket) probed(b []byte, from netip.AddrPort, via *path, now time.Duration) {
	p, ok := parseProbe(b)
	if !ok {
		s.counts.malformed.Add(1)
		return
	}
	a := (*s.keys.Load())[p.key]
	if a == nil {
		s.counts.unknownKey.Add(1)
		return
	}
	if !a.in.genuine(b) {
		s.counts.forged.Add(1)
		return
	}
	l := a.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || a.released || via != nil && via.search != a {
		s.counts.forged.Add(1)
		return
	}
	on := via
	if via == nil {
		i := slices.IndexFunc(l.paths, func(o *path) bool {
			return o.search == a && o.relay == nil && *o.remote.Load() == from
		})
		if i >= 0 {
			on = l.paths[i]
		}
	}
	if p.kind == probeAsk {
		ok = l.askedLocked(now, a, on, from, p)
	} else {
		ok = l.answeredLocked(now, a, on, from, p)
	}
	if !ok {
		s.counts.replayed.Add(1)
		return
	}
	l.authentic.Store(int64(now))
	l.stepLocked(now)
}

// askedLocked answers a genuine question; false when it was seen before.
func (l *Link) askedLocked(now time.Duration, a *search, on *path, from netip.AddrPort, p probe) bool {
	if !a.window.fresh(p.seq) {
		return false
	}
	if on == nil {
		l.challengeLocked(now, a, from)
		return true
	}
	l.state.Heard(now, on.id, p.flags&flagInUse != 0)
	var b [probeSize]byte
	a.out.seal(&b, probe{kind: probeEcho, key: a.key, seq: p.seq, flags: l.flagsLocked(on)})
	l.s.sendProbe(&b, on.relay, from)
	return true
}

// answeredLocked takes a genuine answer; false when it answers nothing.
func (l *Link) answeredLocked(now time.Duration, a *search, on *path, from netip.AddrPort, p probe) bool {
	if on == nil {
		return l.provenLocked(now, a, from, p.seq)
	}
	if !l.state.Echo(now, on.id, p.seq) {
		return false
	}
	// Another Link may have had the address and given it up.
	if on.relay == nil && on.accepted.Load() && (*l.s.sources.Load())[*on.remote.Load()] == nil {
		l.publishLocked()
	}
	return true
}

// challengeLocked puts one question to a strange address. The probe from there gets no
// answer in addition: the address must not get more than it sent.
func (l *Link) challengeLocked(now time.Duration, a *search, from netip.AddrPort) {
	a.pending = slices.DeleteFunc(a.pending, func(c challenge) bool { return now-c.last > challengeFor })
	i := slices.IndexFunc(a.pending, func(c challenge) bool { return c.from == from })
	if i < 0 {
		if len(a.pending) == challengesKept {
			return
		}
		a.pending = append(a.pending, challenge{from: from, begin: now})
		i = len(a.pending) - 1
	}
	c := &a.pending[i]
	q := &c.asked[c.n%len(c.asked)]
	c.n++
	q.seq, q.at, q.ok = a.seq, now, true
	c.last = now
	a.seq++
	var b [probeSize]byte
	a.out.seal(&b, probe{kind: probeAsk, key: a.key, seq: q.seq})
	l.s.sendProbe(&b, nil, from)
}

// provenLocked handles the answer to a challenge: the path that has been silent since the
// challenge began moves to the address. Without such a path the address becomes another
// path.
func (l *Link) provenLocked(now time.Duration, a *search, from netip.AddrPort, seq uint64) bool {
	i := slices.IndexFunc(a.pending, func(c challenge) bool { return c.from == from })
	if i < 0 {
		return false
	}
	c := a.pending[i]
	for _, q := range c.asked {
		if !q.ok || q.seq != seq {
			continue
		}
		a.pending = slices.Delete(a.pending, i, i+1)
		l.sampleLocked(now)
		kind := Direct
		if slices.Contains(a.relays, from) {
			kind = Relay
		}
		if id, ok := l.state.Rebound(a.name, c.begin); ok && kind == Direct {
			p := l.findLocked(id)
			l.log.Info("peer's address changed", "search", a.name, "path", p.name(), "to", from)
			p.remote.Store(&from)
			l.state.Proven(now, id, now-q.at)
			l.publishLocked()
			return true
		}
		if p := l.addLocked(a, Path{Kind: kind, Remote: from}); p != nil {
			l.state.Proven(now, p.id, now-q.at)
		}
		return true
	}
	return false
}
