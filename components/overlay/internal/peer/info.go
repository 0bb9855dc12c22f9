package peer

import (
	"slices"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/session"
	pathstate "cadre.dev/overlay/internal/underlay/paths"
)

// Info describes the Link to one Peer at one moment.
type Info struct {
	Peer   identity.ID
	BootID string // of the Session in use, "" when there is none
	State  link.Phase
	// Since is when State began.
	Since time.Time
	// Path is how the Session in use travels; PathReason is why, and PathSince since
	// when. Local and Remote are its addresses, as far as they are known.
	Path          link.Kind
	PathReason    string
	PathSince     time.Time
	Local, Remote string
	// Carrier is "quic" or "tls".
	Carrier string
	// Standby are the kinds of the other Sessions that are kept.
	Standby []link.Kind
	// RTT is the last measured round trip, 0 before the first.
	RTT time.Duration
	// BytesIn and BytesOut count the traffic of the carrier of the Session in use.
	BytesIn, BytesOut uint64
	// PacketsSent and PacketsLost are the datagram carrier's; both 0 on a byte stream.
	PacketsSent, PacketsLost uint64
	// Streams is the number of open forwarded connections.
	Streams int
	// PathChanges counts the changes of Path; Searches counts the searches for paths.
	PathChanges, Searches uint64
	// Searching: a search is under way, or waits for its turn.
	Searching bool
	// Candidates are all validated datagram paths, best first.
	Candidates []Candidate
	// LastError is why the last try failed or the last Session ended.
	LastError string
}

// Candidate is one validated datagram path.
type Candidate struct {
	Kind   link.Kind
	Remote string
	RTT    time.Duration
	// Loss is the share of probes that were not answered lately, 0 to 1.
	Loss  float64
	InUse bool
}

// Info may be called at any time.
func (p *Peer) Info() Info {
	candidates, begun := p.candidates()
	v := p.View()
	_, class := v.State.InUse()
	searching, _ := v.State.Finding()
	info := Info{
		Peer: p.id, State: v.State.Phase(), Since: v.Since, Streams: p.forward.Stats().Open,
		Path: class.Kind(), PathChanges: v.Total, Searches: begun, Searching: searching,
		Candidates: candidates,
	}
	if n := len(v.Changes); n > 0 {
		info.PathReason, info.PathSince = v.Changes[n-1].Reason, v.Changes[n-1].At
	}
	if v.LastError != nil {
		info.LastError = v.LastError.Error()
	}
	used := v.used()
	for _, s := range v.Sessions {
		if c := v.State.Class(s.Number); s != used && c != link.NoClass {
			info.Standby = append(info.Standby, c.Kind())
		}
	}
	slices.Sort(info.Standby)
	if used != nil {
		info.describe(used)
	}
	return info
}

// describe adds the facts about the Session in use.
func (info *Info) describe(s *session.Session) {
	st := s.Stats()
	info.BootID, info.RTT = s.Who.BootID, st.RTT
	info.BytesIn, info.BytesOut = st.BytesIn, st.BytesOut
	info.PacketsSent, info.PacketsLost = st.PacketsSent, st.PacketsLost
	info.Carrier, info.Local, info.Remote = s.Path.Carrier, s.Path.Local, s.Path.Remote
	for _, c := range info.Candidates {
		if c.InUse && s.Datagrams() {
			info.Remote = c.Remote
		}
	}
}

// candidates describes the validated datagram paths, and returns the number of searches
// so far.
func (p *Peer) candidates() ([]Candidate, uint64) {
	if p.finder == nil {
		return nil, 0
	}
	var out []Candidate
	for _, path := range p.finder.Path().Paths() {
		if path.State != pathstate.Up {
			continue
		}
		out = append(out, Candidate{
			Kind: p.node.Field.Class(path).Kind(), Remote: path.Remote.String(), RTT: path.RTT, Loss: path.Loss, InUse: path.InUse,
		})
	}
	return out, p.finder.Begun()
}
