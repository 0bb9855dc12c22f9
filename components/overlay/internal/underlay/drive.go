package underlay

import (
	"net/netip"
	"time"

	"cadre.dev/overlay/internal/underlay/paths"
)

// soon has the driver tick the Link now. Cheap enough for the hot path.
func (l *Link) soon() {
	l.nextTick.Store(0)
	l.s.wake()
}

// tick samples the traffic, lets the State decide, and returns the time of its next call.
func (l *Link) tick(now time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stepLocked(now)
	return time.Duration(l.nextTick.Load())
}

// stepLocked reports the traffic to the State and executes the State's effects.
func (l *Link) stepLocked(now time.Duration) {
	if l.closed {
		l.nextTick.Store(int64(now + time.Hour))
		return
	}
	// From here on a first datagram wakes the driver again; should there have been
	// some just before, it is seen below and there is a tick to come anyway.
	l.busy.Store(false)
	busy := l.sampleLocked(now)
	for _, e := range l.state.Tick(now) {
		l.doLocked(now, e)
	}
	if busy || l.state.Active(now) {
		l.busy.Store(true)
	}
	l.resends.enable(l.state.Doubtful(now))
	next := l.state.Next(now)
	if at := time.Duration(l.nextTick.Load()); at != next {
		l.nextTick.Store(int64(next))
		l.s.wakeFor(at, next)
	}
}

// sampleLocked reports to the State the traffic of each path since the last sample.
func (l *Link) sampleLocked(now time.Duration) bool {
	busy := false
	for _, p := range l.paths {
		sent, received := p.sent.Load(), p.received.Load()
		if sent != p.seenSent || received != p.seenReceived {
			l.state.Traffic(now, p.id, sent != p.seenSent, received != p.seenReceived)
			busy = busy || sent != p.seenSent
			p.seenSent, p.seenReceived = sent, received
		}
	}
	return busy
}

// doLocked carries out one effect.
func (l *Link) doLocked(now time.Duration, e paths.Effect) {
	p := l.findLocked(e.Path)
	switch e.Do {
	case paths.SendProbe:
		if p != nil {
			l.probeLocked(now, p)
		}
	case paths.Accept:
		if p != nil {
			p.accepted.Store(true)
			l.publishLocked()
		}
	case paths.Use:
		l.out.Store(p)
		l.publishLocked()
	case paths.Drop:
		l.dropLocked(e.Path, string(e.Reason))
	case paths.ReportUp, paths.ReportChanged:
		if p != nil {
			l.resends.resend(p)
		}
		l.queueLocked(e)
	case paths.ReportQuiet, paths.ReportGone:
		l.queueLocked(e)
	}
}

// publishLocked brings this Link's part of the sources table up to date. Where
// two searches found the same address, the path in use gets the credit, else the
// newer one.
func (l *Link) publishLocked() {
	want := make(map[netip.AddrPort]*path)
	using := l.out.Load()
	for _, p := range l.paths {
		if p.relay != nil || !p.accepted.Load() {
			continue
		}
		at := *p.remote.Load()
		if want[at] != using || using == nil {
			want[at] = p
		}
	}
	changeTable(l.s, &l.s.sources, func(m map[netip.AddrPort]*path) {
		for at, p := range l.published {
			if m[at] != nil && m[at].link == p.link {
				delete(m, at)
			}
		}
		for at, p := range want {
			m[at] = p
		}
	})
	l.published = want
}

// probeLocked sends one probe.
func (l *Link) probeLocked(now time.Duration, p *path) {
	seq := p.search.seq
	p.search.seq++
	l.state.Sent(now, p.id, seq)
	var b [probeSize]byte
	p.search.out.seal(&b, probe{kind: probeAsk, key: p.search.key, seq: seq, flags: l.flagsLocked(p)})
	l.s.sendProbe(&b, p.relay, *p.remote.Load())
}

func (l *Link) flagsLocked(p *path) probeFlags {
	if l.state.InUse() == p.id {
		return flagInUse
	}
	return 0
}
