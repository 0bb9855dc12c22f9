package ice

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"

	pion "github.com/pion/ice/v3"
)

// Config says how to search.
type Config struct {
	// Mux is the shared socket. It may be nil if RelayOnly.
	Mux *Mux
	// Controlling is fixed for a pair of Peers. Should both ends be it, or none,
	// the credentials decide.
	Controlling bool
	Servers     []Server
	// Roots verify turns servers; nil means the system's.
	Roots *x509.CertPool
	// RelayOnly offers and uses nothing but relays of ours.
	RelayOnly bool
	// Private offers and takes addresses that are used inside networks, as
	// AllowedCandidate has it. It also holds for Servers.
	Private bool
	// AllowLoopback is for tests on one machine only.
	AllowLoopback bool
	// Log nil discards.
	Log *slog.Logger
}

// Search is one search for a path. All methods may be called concurrently, and
// after Close.
type Search struct {
	// constant after Start
	conf       Config
	log        *slog.Logger
	policy     policy
	ufrag, pwd string
	known      *ledger
	port       *port // nil if RelayOnly
	net        *relayNet
	direct     *pion.Agent     // nil if RelayOnly
	relayed    *pion.Agent     // nil without relays
	life       context.Context //nolint:containedctx // the search's, ended by Close
	end        context.CancelFunc
	candidates chan string   // capacity MaxCandidates
	better     chan Found    // capacity 1
	found      chan struct{} // closed with the first Found
	over       chan struct{} // closed when there will be none, or by Close
	wg         sync.WaitGroup
	closing    sync.Once

	mu          sync.Mutex
	offered     map[netip.AddrPort]string // address to type
	gatherers   int
	remoteUfrag string
	remotePwd   string
	held        []candidate // until the remote credentials are known
	remotes     int
	searching   map[*pion.Agent]bool // agents that may still find a path
	relay       *relayConn           // set with the relay agent's first pair
	relayPair   Found                // that pair
	relayFrom   *pion.Conn           // where the relay's data comes from
	pumping     bool                 // with both: the relay is usable
	nominated   bool                 // an agent has selected a pair
	last        Found                // meaningful once found is closed
	have        bool
	err         error // why over is closed
	closed      bool
}

// Start begins a search: it gathers candidates at once and checks once the Peer's
// credentials are set. It does not block. The end of ctx ends the search; the found paths
// stay in use until Close, which must be called.
func Start(ctx context.Context, c Config) (*Search, error) {
	if c.Mux == nil && !c.RelayOnly {
		return nil, errors.New("start search: no shared socket")
	}
	stunHosts, relays, err := parseServers(c.Servers)
	if err != nil {
		return nil, fmt.Errorf("start search: %w", err)
	}
	if c.RelayOnly && len(relays) == 0 {
		return nil, errors.New("start search: relay only, but no relay")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	life, end := context.WithCancel(ctx)
	a := &Search{
		conf: c, log: c.Log, policy: policy{private: c.Private, loopback: c.AllowLoopback},
		ufrag: newUfrag(c.Controlling), pwd: rand.Text() + rand.Text()[:6],
		known: newLedger(), life: life, end: end,
		candidates: make(chan string, MaxCandidates), better: make(chan Found, 1),
		found: make(chan struct{}), over: make(chan struct{}),
		offered: make(map[netip.AddrPort]string), searching: make(map[*pion.Agent]bool),
	}
	if err := a.start(stunHosts, relays); err != nil {
		_ = a.Close()
		return nil, fmt.Errorf("start search: %w", err)
	}
	return a, nil
}

// Local gives the credentials to signal.
func (a *Search) Local() (ufrag, pwd string) { return a.ufrag, a.pwd }

// Candidates gives the candidates to signal, as they are found. It is closed
// when there will be no more.
func (a *Search) Candidates() <-chan string { return a.candidates }

// SetRemote sets the Peer's credentials and starts the checks. Setting the same
// again does nothing; others are refused with ErrOtherSearch (OVL-03).
func (a *Search) SetRemote(ufrag, pwd string) error {
	if len(ufrag) < 4 || len(ufrag) > 256 || len(pwd) < 22 || len(pwd) > 256 || !iceChars(ufrag) || !iceChars(pwd) {
		return fmt.Errorf("set remote credentials: %w", ErrMalformed)
	}
	if ufrag == a.ufrag {
		return fmt.Errorf("set remote credentials: %w: they are our own", ErrOtherSearch)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return fmt.Errorf("set remote credentials: %w", ErrClosed)
	case a.remoteUfrag == ufrag && a.remotePwd == pwd:
		return nil
	case a.remoteUfrag != "":
		return fmt.Errorf("set remote credentials: %w", ErrOtherSearch)
	}
	a.remoteUfrag, a.remotePwd = ufrag, pwd
	if a.port != nil {
		a.port.setRemotePwd(pwd)
	}
	controlling := role(a.conf.Controlling, a.ufrag, ufrag)
	for _, agent := range a.agents() {
		a.wg.Go(func() { a.search(agent, controlling, ufrag, pwd) })
	}
	held := a.held
	a.held = nil
	for _, c := range held {
		if err := a.passOn(c); err != nil {
			return fmt.Errorf("set remote credentials: %w", err)
		}
	}
	return nil
}

// AddRemote adds a candidate of the Peer, before or after SetRemote. It accepts
// MaxCandidates, each for the addresses that AllowedCandidate allows; a refused candidate
// leaves the search unchanged.
func (a *Search) AddRemote(line string) error {
	c, err := parseCandidate(line)
	if err != nil {
		return fmt.Errorf("add remote candidate: %w", err)
	}
	if err := a.policy.check(c.addr.Addr()); err != nil {
		return fmt.Errorf("add remote candidate: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("add remote candidate: %w", ErrClosed)
	}
	if a.known.named(c.addr) {
		return nil
	}
	if a.remotes >= MaxCandidates {
		return fmt.Errorf("add remote candidate: %w", ErrTooMany)
	}
	a.known.signaled(c.addr, c.kind)
	a.remotes++
	if a.remoteUfrag == "" {
		a.held = append(a.held, c)
		return nil
	}
	if err := a.passOn(c); err != nil {
		return fmt.Errorf("add remote candidate: %w", err)
	}
	a.reviewLocked() // the type of an address may be known only now
	return nil
}

// passOn gives every agent a copy of its own.
func (a *Search) passOn(c candidate) error {
	for _, agent := range a.agents() {
		parsed, err := c.toICE()
		if err != nil {
			return err
		}
		if err := agent.AddRemoteCandidate(parsed); err != nil {
			return err
		}
	}
	return nil
}

// Wait gives the best pair so far, as soon as there is one. Relays count once
// direct pairs had their time. It ends with ErrNoPath, ErrClosed or the cause of
// ctx's end.
func (a *Search) Wait(ctx context.Context) (Found, error) {
	select {
	case <-a.found:
	case <-a.over:
	case <-ctx.Done():
		return Found{}, fmt.Errorf("find path: %w", context.Cause(ctx))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return Found{}, fmt.Errorf("find path: %w", ErrClosed)
	case a.have:
		return a.last, nil
	default:
		return Found{}, fmt.Errorf("find path: %w", a.err)
	}
}

// Better gives a new Found whenever, after the first, another pair is better or
// more pairs answered. Only the latest is kept for a reader. Close closes it.
func (a *Search) Better() <-chan Found { return a.better }

// Close ends the search, with its relays. It waits for the search's goroutines.
func (a *Search) Close() error {
	var err error
	a.closing.Do(func() {
		a.mu.Lock()
		a.closed = true
		a.mu.Unlock()
		a.finish(ErrClosed)
		a.end()
		if a.net != nil {
			a.net.end()
		}
		var errs []error
		for _, agent := range a.agents() {
			errs = append(errs, agent.GracefulClose())
		}
		if a.port != nil {
			errs = append(errs, a.port.Close())
		}
		a.wg.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.gatherers > 0 {
			a.gatherers = 0
			close(a.candidates)
		}
		close(a.better)
		if err = errors.Join(errs...); err != nil {
			err = fmt.Errorf("close search: %w", err)
		}
	})
	return err
}

func (a *Search) agents() []*pion.Agent {
	var list []*pion.Agent
	if a.direct != nil {
		list = append(list, a.direct)
	}
	if a.relayed != nil {
		list = append(list, a.relayed)
	}
	return list
}

// Role letters end our user name fragments. pion drops the checks of a Peer
// that claims the same role instead of settling it (RFC 8445, 7.3.1.1); with
// the claim in the signaled credentials it is settled before the first check.
const (
	controllingMark = "c"
	controlledMark  = "d"
)

func newUfrag(controlling bool) string {
	mark := controlledMark
	if controlling {
		mark = controllingMark
	}
	return rand.Text()[:16] + mark
}

// role reports whether this side controls: as configured, unless the Peer claims the
// same; then the greater fragment does.
func role(controlling bool, ours, theirs string) bool {
	mark := controlledMark
	if controlling {
		mark = controllingMark
	}
	if len(theirs) == len(ours) && strings.HasSuffix(theirs, mark) {
		return ours > theirs
	}
	return controlling
}
