package search

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cadre.dev/overlay/internal/ice"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/internal/underlay"
)

// Field holds the resources that all Finders of a node share. Its fields are constant;
// [Field.Init] makes the places for searches.
type Field struct {
	// Socket is shared by ICE and by QUIC; ICE is the former's part of it.
	Socket *underlay.Socket
	ICE    *ice.Mux
	// Box are the mailboxes at the rendezvous.
	Box *mailbox.Client
	// Roots vouch for TURN over TLS; nil means the system's.
	Roots *x509.CertPool
	// Allows reports whether a class of path may be used.
	Allows func(link.Class) bool
	// PublicOnly excludes addresses of private networks from the sent and the accepted
	// candidates.
	PublicOnly bool
	// Loopback permits loopback addresses as candidates, for tests.
	Loopback bool
	Log      *slog.Logger

	// begins and follows have the places for our own searches and for the searches that
	// Peers begin. With a single set of places, two nodes that have begun enough searches
	// would wait for each other.
	begins, follows *turns
	nudges          *turns
}

// Init makes the places. searches is the number of searches that this node begins at
// once, and of the nudges that it sends at once. Peers may begin twice as many, since
// Peers space their searches too.
func (f *Field) Init(searches int) {
	f.begins, f.follows, f.nudges = newTurns(searches), newTurns(2*searches), newTurns(searches)
}

// Load counts the running and the waiting work of a [Field].
type Load struct{ Begins, Follows, Nudges LimiterLoad }

// Load may be called at any time.
func (f *Field) Load() Load {
	return Load{Begins: f.begins.load(), Follows: f.follows.load(), Nudges: f.nudges.load()}
}

// Occupy takes every place until release is called, as so many searches and nudges of
// other Links would. For tests.
func (f *Field) Occupy(ctx context.Context) (release func()) {
	var taken []*turns
	for _, t := range []*turns{f.begins, f.follows, f.nudges} {
		for range t.load().Free {
			if t.take(ctx, func() bool { return true }) == nil {
				taken = append(taken, t)
			}
		}
	}
	return func() {
		for _, t := range taken {
			t.give()
		}
	}
}

// servers returns the servers of the rendezvous, with or without relays. A TCP relay is
// used over TLS where the rendezvous offers it: TLS passes the same firewalls as the
// mailbox, which is HTTPS. A third allocation per search would spend the quota.
func (f *Field) servers(relays bool) []ice.Server {
	var out []ice.Server
	for _, s := range f.Box.ICEServers() {
		if strings.HasPrefix(s.URL, "turns:") {
			out = slices.DeleteFunc(out, func(o ice.Server) bool {
				return o.Username == s.Username && strings.HasSuffix(o.URL, "?transport=tcp")
			})
		}
		if relays || s.Username == "" {
			out = append(out, ice.Server{URL: s.URL, Username: s.Username, Password: s.Password})
		}
	}
	return out
}

// Connected reports whether any rendezvous answers.
func (f *Field) Connected() bool {
	return slices.ContainsFunc(f.Box.Status(), func(s mailbox.ServerStatus) bool { return s.Connected })
}

// warmEvery is how often the mapped addresses are asked for while no search does.
const warmEvery = 10 * time.Second

// Warm learns the socket's mapped addresses before the first search needs them, and
// keeps them fresh, until ctx ends.
func (f *Field) Warm(ctx context.Context) {
	for {
		changed := f.Box.Changed()
		if servers := f.servers(true); len(servers) > 0 {
			within, cancel := context.WithTimeout(ctx, warmEvery)
			if err := f.ICE.Warm(within, servers, !f.PublicOnly); err != nil {
				f.Log.Debug("mapped address not learned", "error", err)
			}
			cancel()
		}
		again := time.NewTimer(warmEvery)
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// Class ranks a datagram path. A path at a rendezvous server's address counts as relayed,
// even with another candidate type: the Peer's relay may send before the message that
// names the relay arrives.
func (f *Field) Class(p underlay.PathInfo) link.Class {
	if p.Kind == underlay.Relay || f.Box.Offers(p.Remote.Addr()) {
		return link.Relay
	}
	return link.DirectUDP
}

// allowCandidate is the filter of TCP addresses, nil for the ordinary one.
func (f *Field) allowCandidate() func(netip.Addr, bool) error {
	if !f.Loopback {
		return nil
	}
	return func(a netip.Addr, private bool) error {
		if a.IsLoopback() {
			return nil
		}
		return ice.AllowedCandidate(a, private)
	}
}

// errNoServer: without a rendezvous there is no mailbox, and this side cannot send its
// addresses.
var errNoServer = errors.New("no rendezvous server answers")

// awaitServer waits until a rendezvous answers, or fails after limit.
func (f *Field) awaitServer(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNoServer)
	defer cancel()
	for {
		changed := f.Box.Changed()
		if f.Connected() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
