// A search is one run of looking for paths to one Peer, over UDP and TCP at once. This file has its
// course and its messages, udp.go its UDP part, tcp.go its TCP part, outbox.go its sending.
// searcher.go decides when a search may run. Its epoch numbers a search, its name is known to both
// ends. Package ice is narrower: the ICE agent of one search.

package search

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/overlay/internal/ice"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/punch"
	"cadre.dev/overlay/internal/signal"
	"cadre.dev/overlay/internal/underlay"
	pathstate "cadre.dev/overlay/internal/underlay/paths"
)

const (
	// searchLimit bounds one search; lingering answers of the Peer's are served so
	// long too.
	searchLimit = 12 * time.Second
	// lingerLimit is the time for which the following side still answers checks after it has found
	// its paths: the other side may need these answers.
	lingerLimit = 4 * time.Second
	// standbyLimit is the time that a search waits for a relayed path in addition to a direct one.
	standbyLimit = 3 * time.Second
	// standbyPoll is the interval of that wait: the socket reports paths that come into use, and
	// does not report a standby.
	standbyPoll = 20 * time.Millisecond
)

// search is one search on one side: ICE over the shared UDP socket and direct TCP,
// side by side, with messages through the mailboxes.
//
//	controlling                           controlled
//	offer (ICE credentials, key)  ──────►
//	                              ◄──────  answer (ICE credentials, key)
//	candidates (ICE), trickled    ◄─────►  candidates (ICE), trickled
//	candidates (TCP)              ──────►  opens TCP at once, and sends its own
//	opens TCP a way later (5b)    ◄──────  candidates (TCP)
type search struct {
	f      *Finder
	find   link.Find
	name   string // at both ends; "" until it is known
	key    []byte // our share of the path key
	ice    *ice.Search
	wg     sync.WaitGroup
	giveUp context.CancelCauseFunc // ends it, from any goroutine

	// The known facts about the Peer's side; only the loop's goroutine uses them.
	remoteKey []byte
	early     []string // candidates that came before the credentials
	remoteTCP []punch.Candidate
	remoteWay time.Duration
	local     *punch.Local
	punching  bool
	// localTCP: this side may find direct TCP; tcpOver: it is decided.
	localTCP, tcpOver bool

	gathered chan *punch.Local // nil when there is none
	ended    chan part         // each part that is over
	outbox   chan signal.Message
	relayed  atomic.Bool // a relayed path of ours was found
	// welcoming: a direct stream stands and becomes a Session of the Peer's.
	welcoming atomic.Bool

	direct, peerRelays []netip.AddrPort // given to the socket; of addAll alone

	mu          sync.Mutex
	remoteRelay []netip.AddrPort // the Peer's relays; guarded by mu
}

// partTCP names the part that looks for direct TCP.
const partTCP = "tcp"

// part is one way of looking.
type part struct {
	name string
	err  error
}

// search runs w when it may, to its end. It returns nil when every way that may be used
// was found; Sessions that it makes are handed to the Link at once.
func (f *Finder) search(parent context.Context, w wanted) error {
	ctx, giveUp := context.WithCancelCause(parent)
	s := &search{
		f: f, find: w.Find, key: make([]byte, signal.KeyLen), giveUp: giveUp,
		localTCP: f.field.Allows(link.DirectTCP), gathered: make(chan *punch.Local, 1), ended: make(chan part, 4), outbox: make(chan signal.Message, outboxLen),
	}
	defer s.wg.Wait()
	defer giveUp(nil)
	if w.Controlling { // which needs neither a rendezvous nor a turn
		s.wg.Go(func() { f.redial(ctx, w.Boot) })
	}
	over, err := f.awaitTurn(ctx, w)
	if err != nil {
		return err
	}
	defer over()
	_, _ = rand.Read(s.key)
	if w.Controlling {
		var id [signal.SearchLen / 2]byte
		_, _ = rand.Read(id[:])
		s.name = hex.EncodeToString(id[:])
	}
	var sender sync.WaitGroup
	sending, stopSending := context.WithCancel(parent)
	defer stopSending()
	sender.Go(func() { s.sendAll(sending) })
	err = s.attend(ctx, w)
	// The queued last messages are still sent, for a moment.
	close(s.outbox)
	flush := time.AfterFunc(flushLimit, stopSending)
	defer flush.Stop()
	sender.Wait()
	return err
}

// attend runs the search within its time limit, and releases its resources.
func (s *search) attend(ctx context.Context, w wanted) error {
	limit := time.Now().Add(searchLimit)
	if !w.Controlling {
		limit = w.since.Add(searchLimit) // when the Peer gives up
	}
	within, cancel := context.WithDeadlineCause(ctx, limit, errSlowSearch)
	defer cancel()
	err := s.run(within, w.inbox)
	s.giveUp(nil)
	s.wg.Wait()
	s.closeTCP()
	s.closeICE()
	return err
}

// errSlowSearch ends a search that does not get on.
var errSlowSearch = errors.New("search took too long")

func (s *search) run(ctx context.Context, inbox <-chan signal.Message) error {
	if err := s.startICE(ctx); err != nil {
		return err
	}
	s.startGather(ctx)
	if s.find.Controlling {
		s.post(s.opening(signal.Offer))
		s.postNoTCP()
	}
	var candidates <-chan string
	if s.ice != nil && s.find.Controlling {
		candidates = s.ice.Candidates()
	}
	waiting, failed := s.parts(), []error(nil)
	for waiting > 0 {
		select {
		case m := <-inbox:
			done, err := s.message(ctx, m)
			if err != nil || done {
				return err
			}
			if s.ice != nil && s.remoteKey != nil {
				candidates = s.ice.Candidates()
			}
		case c, more := <-candidates:
			if !more {
				candidates = nil
				continue
			}
			s.post(signal.Message{Type: signal.Candidates, Candidates: drain([]string{c}, candidates)})
		case local := <-s.gathered:
			s.local = local
			if local == nil {
				s.localTCP = false
				s.postNoTCP()
				s.endTCP(nil)
				continue
			}
			if s.find.Controlling {
				s.postTCP()
			}
			s.startPunch(ctx)
		case p := <-s.ended:
			waiting--
			if p.err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", p.name, p.err))
			}
		case <-ctx.Done():
			return errors.Join(append(failed, context.Cause(ctx))...)
		}
	}
	if !s.find.Controlling {
		s.linger(ctx, inbox)
	} else {
		s.awaitStandby(ctx)
		s.post(signal.Message{Type: signal.Bye})
	}
	return errors.Join(failed...)
}

// parts is how many ways there are to look.
func (s *search) parts() int {
	n := 0
	if s.ice != nil {
		n++
	}
	if s.f.field.Allows(link.DirectTCP) {
		n++
	}
	return n
}

// awaitStandby waits for a relayed path if the search has no other fallback. A relayed path takes
// longer to find than a direct one, and after the death of the direct path the search for it comes
// too late.
func (s *search) awaitStandby(ctx context.Context) {
	if s.ice == nil || !s.f.field.Allows(link.Relay) || s.f.owner.Has(link.Gateway) || s.f.owner.Has(link.DirectTCP) {
		return
	}
	limit := time.NewTimer(standbyLimit)
	defer limit.Stop()
	tick := time.NewTicker(standbyPoll)
	defer tick.Stop()
	for !s.hasStandby() {
		select {
		case <-tick.C:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hasStandby reports whether a relayed path works and this side holds an allocation: a path over
// only the Peer's allocation dies with the Peer's search.
func (s *search) hasStandby() bool {
	s.f.mu.Lock()
	kept := s.f.relay != nil
	s.f.mu.Unlock()
	return (kept || s.relayed.Load()) && s.f.hasRelayedPath()
}

// hasRelayedPath reports whether a relayed path works, in use or not.
func (f *Finder) hasRelayedPath() bool {
	for _, p := range f.path.Paths() {
		if p.Kind == underlay.Relay && p.State == pathstate.Up {
			return true
		}
	}
	return false
}

// linger answers the other side's checks until it says that it is done.
func (s *search) linger(ctx context.Context, inbox <-chan signal.Message) {
	limit := time.NewTimer(lingerLimit)
	defer limit.Stop()
	for {
		select {
		case m := <-inbox:
			if m.Type == signal.Bye {
				return
			}
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// drain takes all ready candidates, so that one message carries several.
func drain(out []string, more <-chan string) []string {
	for len(out) < signal.MaxCandidates {
		select {
		case c, ok := <-more:
			if !ok {
				return out
			}
			out = append(out, c)
		default:
			return out
		}
	}
	return out
}

// opening is an offer or an answer.
func (s *search) opening(t signal.Type) signal.Message {
	m := signal.Message{Type: t, Key: s.key}
	if s.ice != nil {
		m.Ufrag, m.Pwd = s.ice.Local()
		// Candidates that are known already go along and spare a message.
		m.Candidates = drain(nil, s.ice.Candidates())
	}
	return m
}

// message takes one of the Peer's; done ends the search.
func (s *search) message(ctx context.Context, m signal.Message) (done bool, err error) {
	if s.name == "" && m.Type == signal.Offer {
		s.name = m.Search
	}
	if m.Search != s.name {
		return false, nil // of a search that lost against this one
	}
	switch m.Type {
	case signal.Bye:
		s.awaitWelcome(ctx)
		return true, nil
	case signal.Offer, signal.Answer:
		if (m.Type == signal.Answer) != s.find.Controlling || s.remoteKey != nil {
			return false, nil
		}
		if len(m.Key) != signal.KeyLen {
			return false, fmt.Errorf("%s without a key", m.Type)
		}
		s.remoteKey = m.Key
		if m.Type == signal.Offer {
			s.post(s.opening(signal.Answer))
			s.postNoTCP()
		}
		if err := s.connectICE(ctx, m); err != nil {
			return false, err
		}
	case signal.Candidates, signal.Nudge:
	}
	s.addICE(m.Candidates)
	if m.Last && len(m.TCP) == 0 && !s.punching {
		s.endTCP(errNoPeerTCP)
	}
	if len(m.TCP) > 0 {
		s.remoteTCP = nil // the whole list each time: a message may come twice
		for _, c := range m.TCP[:min(len(m.TCP), punch.MaxCandidates)] {
			s.remoteTCP = append(s.remoteTCP, punch.Candidate{Kind: punch.Kind(c.Kind), Addr: c.Addr})
		}
		s.remoteWay = time.Duration(m.OneWayMicros) * time.Microsecond
		s.startPunch(ctx)
	}
	return false, nil
}

// pathKey is the secret that authenticates the probes of this search's paths.
func (s *search) pathKey() ([32]byte, error) {
	if s.find.Controlling {
		return signal.PathKey(s.key, s.remoteKey, s.name)
	}
	return signal.PathKey(s.remoteKey, s.key, s.name)
}

// add gives a path that ICE has validated to the shared socket.
func (s *search) add(f ice.Found, key [32]byte) {
	p := underlay.Path{
		Search: s.name, Kind: underlay.Direct, Remote: f.Remote, Relays: s.relays(), Answered: f.RTT, Key: key, Initiator: s.find.Controlling,
	}
	if f.Kind == ice.Relay {
		p.Kind = underlay.Relay
	}
	if f.Relay != nil {
		p.Relay = f.Relay
		s.relayed.Store(true)
	}
	s.f.path.Add(p)
}

// relays are the relays that the Peer has named.
func (s *search) relays() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.remoteRelay)
}
