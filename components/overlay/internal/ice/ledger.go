package ice

import (
	"net/netip"
	"sync"
	"time"
)

// maxLearned bounds the addresses that a search learns from authentic checks, in addition
// to the MaxCandidates of signaling.
const maxLearned = 16

// ledger records a search's knowledge of its Peer's addresses. It is pure except for its
// lock: times are arguments.
type ledger struct {
	mu      sync.Mutex
	remotes map[netip.AddrPort]*remote
	learned int
}

type remote struct {
	kind   string // as signaled; until it is, typePrflx or typeRelay
	named  bool   // by signaling
	sent   int    // checks
	last   time.Time
	heard  bool // an authentic message came from it
	valid  bool // a check of ours was answered
	rtt    time.Duration
	mapped netip.AddrPort // our address as the Peer sees it
}

func newLedger() *ledger { return &ledger{remotes: make(map[netip.AddrPort]*remote)} }

// signaled notes an address the Peer named; the first name counts.
func (l *ledger) signaled(addr netip.AddrPort, kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.remotes[addr]
	if r == nil {
		l.remotes[addr] = &remote{kind: kind, named: true}
		return
	}
	if !r.named {
		r.kind, r.named = kind, true
		l.learned--
	}
}

// heardFrom records an authentic check; kind is the check's kind for an address that was
// not signaled. It returns false when the address is one too many to learn: the check
// must then be dropped.
func (l *ledger) heardFrom(addr netip.AddrPort, kind string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.remotes[addr]
	if r == nil {
		if l.learned >= maxLearned {
			return false
		}
		l.learned++
		r = &remote{kind: kind}
		l.remotes[addr] = r
	}
	r.heard = true
	return true
}

// mayCheck reports whether a check may go to addr now, and records it. An address that
// sent an authentic message gets every check. A silent address gets ten at the agent's
// pace and then ever fewer. So a Peer that names a victim makes us send at most some 4
// KiB to it (OVL-09).
func (l *ledger) mayCheck(addr netip.AddrPort, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.remotes[addr]
	if r == nil {
		return false
	}
	if !r.heard {
		wait, more := silentPause(r.sent)
		if !more || !r.last.IsZero() && now.Sub(r.last) < wait {
			return false
		}
	}
	r.sent++
	r.last = now
	return true
}

// silentPause is the least time between two checks to an address that was never
// heard, after so many; more is false when that is enough.
func silentPause(sent int) (pause time.Duration, more bool) {
	switch {
	case sent < 10:
		return 10 * time.Millisecond, true
	case sent < 18:
		return 50 * time.Millisecond, true
	case sent < 26:
		return 100 * time.Millisecond, true
	case sent < 40:
		return 250 * time.Millisecond, true
	default:
		return 0, false
	}
}

// answered notes an authentic answer to a check. It reports whether that made
// the address valid, or much better known.
func (l *ledger) answered(addr netip.AddrPort, rtt time.Duration, mapped netip.AddrPort) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.remotes[addr]
	if r == nil {
		return false
	}
	first := !r.valid
	r.valid, r.heard, r.mapped = true, true, mapped
	// An answer may have waited for the Peer to learn our credentials: the least
	// is the truest.
	if first || rtt < r.rtt {
		r.rtt = rtt
	}
	return first
}

// valid lists the addresses that answered.
func (l *ledger) valid() map[netip.AddrPort]remote {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make(map[netip.AddrPort]remote)
	for addr, r := range l.remotes {
		if r.valid {
			list[addr] = *r
		}
	}
	return list
}

// named reports whether signaling named addr.
func (l *ledger) named(addr netip.AddrPort) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.remotes[addr]
	return r != nil && r.named
}

func (l *ledger) kindOf(addr netip.AddrPort) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.remotes[addr]; r != nil {
		return r.kind
	}
	return typePrflx
}
