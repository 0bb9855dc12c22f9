package mailbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/signal"
)

// ErrNoServer reports that no rendezvous is connected.
var ErrNoServer = errors.New("no rendezvous is connected")

// ErrUnknown reports that no rendezvous has a Boot of the recipient with a certificate
// that verifies.
var ErrUnknown = errors.New("no rendezvous knows the recipient")

// Server is one rendezvous.
type Server struct {
	// URL is https://host[:port].
	URL string
	// CA has the roots of its certificate, PEM; empty: the system's roots.
	CA []byte
}

// Identity is this node's present identity.
type Identity struct {
	ID identity.ID
	// Certificate is the SVID with its P-256 key.
	Certificate tls.Certificate
	// Roots is the cluster CA.
	Roots *x509.CertPool
}

// Config configures a [Client].
type Config struct {
	// Servers are tried all at once and kept all. None is allowed: every Send
	// then fails with ErrNoServer.
	Servers []Server
	// Identity gives the present credentials; false while there are none. It is called
	// for each connection, and now and then: a renewed certificate gets new connections.
	// Safe for concurrent use.
	Identity func() (Identity, bool)
	// Log may be nil.
	Log *slog.Logger
	// Now is the wall clock; nil means time.Now. It stamps and judges envelopes and
	// credentials, since other parties set their times; no wait depends on it.
	Now func() time.Time
}

// Incoming is one message of a proven sender, delivered once.
type Incoming struct {
	From    identity.Verified
	Message signal.Message
}

// ServerStatus is the state of one rendezvous, for operators.
type ServerStatus struct {
	URL       string
	Connected bool
	// Since is when it connected, or was lost.
	Since time.Time
	// RTT is the smoothed round trip of its connection.
	RTT time.Duration
	// Sent and Received count messages; Duplicates counts messages that arrived before,
	// from any server; Forged counts messages that no Peer made.
	Sent, Received, Duplicates, Forged uint64
	// Error is why the last connection ended.
	Error string
}

// Client keeps a connection to each rendezvous. Its methods are safe for
// concurrent use.
type Client struct {
	identity func() (Identity, bool)
	log      *slog.Logger
	now      func() time.Time
	servers  []*server
	changed  change
	incoming chan Incoming
	guard    signal.Guard

	mu      sync.Mutex
	running bool
	sends   sync.WaitGroup // sends that outlive the call that made them
	seq     uint64
	revoked []string
	revokes bool       // Revoke was called
	deliver sync.Mutex // orders guard and incoming
}

// waiting is how many messages may wait for the owner of a Client. Further messages stay
// at the rendezvous and are sent again.
const waiting = 64

// New checks c. It connects nothing: Run does.
func New(c Config) (*Client, error) {
	if c.Identity == nil {
		return nil, errors.New("mailbox client without an identity")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	client := &Client{
		identity: c.Identity, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)), now: c.Now,
		incoming: make(chan Incoming, waiting),
		// A later Client of the same Boot must go on above an earlier one.
		seq: uint64(c.Now().UnixMicro()),
	}
	var errs []error
	for _, s := range c.Servers {
		one, err := newServer(client, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("rendezvous %q: %w", s.URL, err))
			continue
		}
		client.servers = append(client.servers, one)
	}
	return client, errors.Join(errs...)
}

// Run keeps the connections until ctx ends, and gives nil then. Call it once.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.running {
		c.mu.Unlock()
		return errors.New("mailbox client runs already")
	}
	c.running = true
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range c.servers {
		wg.Go(func() { s.run(ctx) })
	}
	<-ctx.Done()
	wg.Wait()
	c.mu.Lock()
	c.running = false
	c.mu.Unlock()
	c.sends.Wait()
	return nil
}

// Messages returns the Peers' messages: opened, authenticated, each once. The reader
// checks which Boot of a Slot is admitted. It is never closed.
func (c *Client) Messages() <-chan Incoming { return c.incoming }

// Changed gives a channel that closes when a server connects, is lost or offers
// something else after this call. Take it before looking at [Client.Status],
// [Client.ICEServers] or [Client.Reflectors]: then no change is missed.
func (c *Client) Changed() <-chan struct{} { return c.changed.wait() }

// Revoke sets the list of the cluster's ended Boots. Each rendezvous gets it now and
// whenever it is connected again, since it keeps nothing on disk. The servers accept it
// only from a coordinator. The list, of at most MaxRevoked, replaces the previous list: a
// Boot that is missing from it is let in again.
func (c *Client) Revoke(boots []string) error {
	if len(boots) > MaxRevoked {
		return fmt.Errorf("%d boots to revoke, at most %d", len(boots), MaxRevoked)
	}
	for _, b := range boots {
		if !isBoot(b) {
			return fmt.Errorf("boot %.20q: want 64 lower-case hex digits", b)
		}
	}
	c.mu.Lock()
	c.revoked, c.revokes = slices.Clone(boots), true
	c.mu.Unlock()
	for _, s := range c.servers {
		s.wakeRevoker()
	}
	return nil
}

// revokedBoots gives the list, and whether there ever was one.
func (c *Client) revokedBoots() ([]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revoked, c.revokes
}

func (c *Client) nextSeq() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	return c.seq
}

// ICEServers returns the STUN and TURN URLs of the connected servers, nearest first, with
// credentials that are valid for at least a little while. Without a connected server it
// returns those of the last connected ones.
func (c *Client) ICEServers() []ICEServer {
	var all []ICEServer
	for _, o := range c.offers() {
		all = append(all, o.ICE...)
	}
	now := time.Now()
	return slices.DeleteFunc(all, func(s ICEServer) bool {
		return !s.Expires.IsZero() && !s.Expires.After(now.Add(5*time.Second))
	})
}

// Offers reports whether a server that is configured here offers STUN or TURN at an
// address, or did at its last connection. It is cheap enough for every path that is
// described.
func (c *Client) Offers(addr netip.Addr) bool {
	return slices.ContainsFunc(c.servers, func(s *server) bool { return s.offersAt(addr.Unmap()) })
}

// Reflectors gives host:port of STUN over TCP at the same servers.
func (c *Client) Reflectors() []string {
	var all []string
	for _, o := range c.offers() {
		all = append(all, o.Reflectors...)
	}
	return all
}

// RTT is the round trip to the nearest connected server, 0 when none is.
func (c *Client) RTT() time.Duration {
	var best time.Duration
	for _, st := range c.Status() {
		if st.Connected && st.RTT > 0 && (best == 0 || st.RTT < best) {
			best = st.RTT
		}
	}
	return best
}

// Status describes each server, in the order of the configuration.
func (c *Client) Status() []ServerStatus {
	all := make([]ServerStatus, 0, len(c.servers))
	for _, s := range c.servers {
		all = append(all, s.snapshot())
	}
	return all
}

func (c *Client) offers() []Offer {
	servers := slices.Clone(c.servers)
	connected := func(s *server) bool { return s.snapshot().Connected }
	if slices.ContainsFunc(servers, connected) {
		servers = slices.DeleteFunc(servers, func(s *server) bool { return !connected(s) })
	}
	slices.SortStableFunc(servers, func(a, b *server) int { return cmp.Compare(a.snapshot().RTT, b.snapshot().RTT) })
	var all []Offer
	for _, s := range servers {
		if o, ok := s.lastOffer(); ok {
			all = append(all, o)
		}
	}
	return all
}

// socketURL turns the URL of a server into that of its mailbox socket.
func socketURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", err
	}
	if u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("want https://host[:port]")
	}
	return "wss://" + u.Host + strings.TrimSuffix(u.Path, "/") + PathMailbox, nil
}
