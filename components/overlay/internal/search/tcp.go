// The TCP part of a search: both ends learn how their ports look from outside and open
// to each other at the same time (package punch).

package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/punch"
	"cadre.dev/overlay/internal/signal"
)

// startGather learns how this host's TCP port looks from outside.
func (s *search) startGather(ctx context.Context) {
	field := s.f.field
	if !field.Allows(link.DirectTCP) {
		return
	}
	// A direct Session does not end the search of the following side. That Session may
	// have lost its other end, and the Peer waits for our addresses.
	if s.find.Controlling && s.f.owner.Has(link.DirectTCP) {
		s.gathered <- nil
		return
	}
	s.wg.Go(func() {
		local, err := punch.Gather(ctx, punch.Config{
			Reflectors: field.Box.Reflectors(), Hosts: !field.PublicOnly, Allow: field.allowCandidate(), Log: s.f.log,
		})
		if err != nil {
			s.f.log.Debug("no direct TCP from here", "search", s.find.Epoch, "error", err)
			local = nil
		}
		s.gathered <- local
	})
}

// closeTCP releases the port and drops addresses that were gathered too late.
func (s *search) closeTCP() {
	select {
	case local := <-s.gathered:
		s.local = local
	default:
	}
	if s.local != nil {
		_ = s.local.Close()
	}
}

// postTCP sends the Peer our TCP addresses.
func (s *search) postTCP() {
	m := signal.Message{Type: signal.Candidates, OneWayMicros: s.local.OneWay().Microseconds()}
	for _, c := range s.local.Candidates() {
		m.TCP = append(m.TCP, signal.TCPCandidate{Kind: string(c.Kind), Addr: c.Addr})
	}
	s.post(m)
}

// errNoPeerTCP: the Peer has nothing to connect to.
var errNoPeerTCP = errors.New("the peer offers no direct TCP")

// postNoTCP reports that this side has no TCP address, so that the Peer does not wait for
// one. Before the search has a name, no Peer can be addressed.
func (s *search) postNoTCP() {
	if !s.localTCP && s.name != "" {
		s.post(signal.Message{Type: signal.Candidates, Last: true})
	}
}

// endTCP decides the TCP part, once.
func (s *search) endTCP(err error) {
	if s.tcpOver || !s.f.field.Allows(link.DirectTCP) {
		return
	}
	s.tcpOver = true
	s.ended <- part{name: partTCP, err: err}
}

// startPunch connects once both sides' addresses are known. The following side sends its
// own addresses only now, so that the other side's wait begins after the follower's first
// SYN.
func (s *search) startPunch(ctx context.Context) {
	if s.local == nil || len(s.remoteTCP) == 0 || s.punching || s.tcpOver {
		return
	}
	s.punching = true
	if !s.find.Controlling {
		s.postTCP()
	}
	local, remote, way := s.local, s.remoteTCP, s.local.OneWay()+s.remoteWay
	if s.find.Controlling {
		// The other side's addresses came the longer way, by the rendezvous, and it
		// began when it sent them: its first SYN is here already.
		way = 0
	}
	s.wg.Go(func() { s.ended <- part{name: partTCP, err: s.connectTCP(ctx, local, remote, way)} })
}

// directTime is the time within which an open direct stream has to become a Session.
// After lost SYNs, TCP assumes a round trip of seconds, and repeats the next lost segment
// only after 9 s. A new stream is faster.
const directTime = 4 * time.Second

// errNoDirect: a direct stream stood and did not become a Session.
var errNoDirect = errors.New("direct stream is unusable")

// lossOnly reports whether packet loss alone may explain err, so that another search may
// find direct TCP. The stream existed, a reflector did not answer on either side, or the
// time expired.
func lossOnly(err error) bool {
	return errors.Is(err, errNoDirect) || errors.Is(err, punch.ErrNoCandidates) || errors.Is(err, errSlowSearch)
}

func (s *search) connectTCP(ctx context.Context, local *punch.Local, remote []punch.Candidate, way time.Duration) error {
	conn, err := local.Connect(ctx, remote, s.find.Controlling, way)
	if err != nil {
		return err
	}
	if !s.find.Controlling {
		s.welcoming.Store(true)
		defer s.welcoming.Store(false)
		return s.f.owner.Welcome(ctx, conn)
	}
	within, cancel := context.WithTimeoutCause(ctx, directTime, errSlowDial)
	defer cancel()
	if err := s.f.owner.DialDirect(within, conn, s.find.Boot); err != nil {
		return fmt.Errorf("%w: %w", errNoDirect, err)
	}
	return nil
}

// awaitWelcome waits until an open direct stream has become a Session. The Peer's bye may
// come before the last handshake message, which a lost packet delays. Without the wait,
// the bye would end a Session that the Peer already uses.
func (s *search) awaitWelcome(ctx context.Context) {
	if !s.welcoming.Load() {
		return
	}
	limit := time.NewTimer(lingerLimit)
	defer limit.Stop()
	for {
		select {
		case p := <-s.ended:
			if p.name == partTCP {
				return
			}
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
