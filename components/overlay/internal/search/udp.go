// The UDP part of a search: one ICE agent (package ice) finds a path, the shared
// socket (package underlay) checks and keeps it, QUIC opens a Session over it.

package search

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	pion "github.com/pion/ice/v3"

	"cadre.dev/overlay/internal/ice"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/signal"
	pathstate "cadre.dev/overlay/internal/underlay/paths"
)

// startICE begins to gather, where datagram paths may be used.
func (s *search) startICE(ctx context.Context) error {
	field := s.f.field
	direct, relay := field.Allows(link.DirectUDP), field.Allows(link.Relay)
	if !direct && !relay {
		return nil
	}
	servers := field.servers(relay)
	agent, err := ice.Start(ctx, ice.Config{
		Mux: field.ICE, Controlling: s.find.Controlling, Servers: servers, Roots: field.Roots,
		RelayOnly: !direct, Private: !field.PublicOnly, AllowLoopback: field.Loopback, Log: s.f.log,
	})
	if err != nil {
		return fmt.Errorf("start ICE: %w", err)
	}
	s.ice = agent
	return nil
}

// closeICE ends the agent, unless a relayed path of its own may be in use.
func (s *search) closeICE() {
	if s.ice == nil {
		return
	}
	if s.relayed.Load() {
		s.f.keepRelay(&relayOwner{Search: s.ice, name: s.name, begun: time.Now()})
		return
	}
	_ = s.ice.Close()
}

// connectICE begins the checks, now that the Peer's credentials are known.
func (s *search) connectICE(ctx context.Context, m signal.Message) error {
	if s.ice == nil {
		return nil
	}
	key, err := s.pathKey()
	if err != nil {
		return err
	}
	if m.Ufrag == "" {
		// The Peer uses no datagrams.
		s.ended <- part{name: "udp"}
		return nil
	}
	if err := s.ice.SetRemote(m.Ufrag, m.Pwd); err != nil {
		return fmt.Errorf("start checks: %w", err)
	}
	s.addICE(s.early)
	s.early = nil
	s.wg.Go(func() { s.ended <- part{name: "udp", err: s.findDatagrams(ctx, key)} })
	return nil
}

// addICE takes the Peer's candidates. A refused candidate harms only its sender.
func (s *search) addICE(lines []string) {
	if s.ice == nil {
		return
	}
	if s.remoteKey == nil {
		s.early = append(s.early, lines[:min(len(lines), signal.MaxCandidates-min(len(s.early), signal.MaxCandidates))]...)
		return
	}
	for _, c := range lines {
		if err := s.ice.AddRemote(c); err != nil {
			s.f.log.Debug("candidate refused", "search", s.find.Epoch, "error", err)
		} else {
			s.noteRelay(c)
		}
	}
}

// noteRelay remembers the address of a candidate that is a relay of the Peer's. Paths to
// it rank as relayed, whichever side found them.
func (s *search) noteRelay(line string) {
	c, err := pion.UnmarshalCandidate(line)
	if err != nil || c.Type() != pion.CandidateTypeRelay {
		return
	}
	addr, err := netip.ParseAddr(c.Address())
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remoteRelay = append(s.remoteRelay, netip.AddrPortFrom(addr, uint16(c.Port())))
}

// findDatagrams waits for a path, gives it to the shared socket and, on the side
// that dials, makes a Session over it where none is.
func (s *search) findDatagrams(ctx context.Context, key [32]byte) error {
	found, err := s.ice.Wait(ctx)
	if err != nil {
		return err
	}
	up := s.f.pathUp()
	s.addAll(found, key)
	s.wg.Go(func() { s.better(ctx, key) })
	select {
	case <-up:
	case <-ctx.Done():
		return fmt.Errorf("the path to %s was not validated: %w", found.Remote, context.Cause(ctx))
	}
	if !s.find.Controlling {
		return nil
	}
	return s.f.dialDatagrams(ctx, s.find.Boot)
}

// redial makes a Session over a path that still works, while a search goes on or
// before one does.
func (f *Finder) redial(ctx context.Context, boot string) {
	select {
	case <-f.pathUp():
	default:
		return
	}
	within, cancel := context.WithTimeoutCause(ctx, redialLimit, errSlowDial)
	defer cancel()
	if err := f.dialDatagrams(within, boot); err != nil && ctx.Err() == nil {
		f.log.Debug("no session over the existing path", "error", err)
	}
}

// errSlowDial ends the making of a Session that does not get on.
var errSlowDial = errors.New("dial took too long")

// redialLimit is the time within which an existing path has to carry a new Session. The
// result of a search waits for a Redial over a path that has just died.
const redialLimit = 3 * time.Second

// dialDatagrams makes a Session over UDP with the Peer as boot, on the dialing side and
// unless one exists. If a direct stream exists, the path is kept as an immediate
// fallback.
func (f *Finder) dialDatagrams(ctx context.Context, boot string) error {
	select {
	case f.dialing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-f.dialing }()
	if f.owner.HasDatagrams() || f.owner.Has(link.DirectTCP) {
		return nil
	}
	return f.owner.DialDatagrams(ctx, boot)
}

// A search has four places at the socket: two for direct paths, one for our relay, and
// one for the Peer's. Without the path of our relay, no reader takes the Peer's datagrams
// there.
const (
	maxDirect    = 2
	maxPeerRelay = 1
)

// addAll adds a path and the others that answered. Only one goroutine calls it.
func (s *search) addAll(found ice.Found, key [32]byte) {
	for _, f := range append([]ice.Found{found}, found.Alternates...) {
		if f.Relay == nil {
			places, most := &s.direct, maxDirect
			if f.Kind == ice.Relay {
				places, most = &s.peerRelays, maxPeerRelay
			}
			if !slices.Contains(*places, f.Remote) {
				if len(*places) == most {
					continue
				}
				*places = append(*places, f.Remote)
			}
		}
		s.add(f, key)
	}
}

// better takes the paths that are found later.
func (s *search) better(ctx context.Context, key [32]byte) {
	for {
		select {
		case f, ok := <-s.ice.Better():
			if !ok {
				return
			}
			s.addAll(f, key)
		case <-ctx.Done():
			return
		}
	}
}

// pathUp closes when a datagram path comes up from now on, and is closed where one
// works already.
func (f *Finder) pathUp() <-chan struct{} {
	f.mu.Lock()
	up := f.up
	f.mu.Unlock()
	for _, p := range f.path.Paths() {
		if p.InUse && p.State == pathstate.Up {
			done := make(chan struct{})
			close(done)
			return done
		}
	}
	return up
}
