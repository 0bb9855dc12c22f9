package underlay

import (
	"net/netip"
	"time"

	"cadre.dev/overlay/internal/underlay/paths"
)

// PathInfo describes a path for people.
type PathInfo struct {
	Search string
	Kind   Kind
	Remote netip.AddrPort
	State  paths.PathState
	// Since is for how long it has been in that State.
	Since time.Duration
	// InUse reports that this side sends over the path, PeerUses that the Peer does. The
	// two may be different paths.
	InUse, PeerUses bool
	// Why is the reason for which the path is in use; "" for an unused path.
	Why string
	// RTT and its mean deviation, and the least of the last half minute; 0 when
	// never measured.
	RTT, RTTVar, MinRTT time.Duration
	// Loss of probes and their answers together, 0 to 1.
	Loss float64
	// Heard is for how long nothing came.
	Heard time.Duration
	// Datagrams and bytes of QUIC's, either way.
	DatagramsIn, DatagramsOut, BytesIn, BytesOut uint64
}

// Paths describes every path, the oldest first.
func (l *Link) Paths() []PathInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]PathInfo, 0, len(l.paths))
	for _, p := range l.paths {
		all = append(all, l.infoLocked(p))
	}
	return all
}

func (l *Link) infoLocked(p *path) PathInfo {
	now := l.s.now()
	i, _ := l.state.Info(p.id)
	return PathInfo{
		Search: p.search.name, Kind: p.kind, Remote: *p.remote.Load(), State: i.State, Since: now - i.Since,
		InUse: i.InUse, PeerUses: i.PeerUses, Why: string(i.Why),
		RTT: i.RTT, RTTVar: i.RTTVar, MinRTT: i.MinRTT, Loss: i.Loss, Heard: now - i.LastHeard,
		DatagramsIn: p.received.Load(), DatagramsOut: p.sent.Load(),
		BytesIn: p.bytesIn.Load(), BytesOut: p.bytesOut.Load(),
	}
}

// Alive is the time since the last genuine probe or answer. Without any it is the age of
// the Link. QUIC's packets do not count, since only QUIC can authenticate them.
func (l *Link) Alive() time.Duration {
	return l.s.now() - max(l.made, time.Duration(l.authentic.Load()))
}
