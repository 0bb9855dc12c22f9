package rendezvous

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"cadre.dev/overlay/rendezvous/internal/credential"
	"cadre.dev/overlay/rendezvous/internal/limit"
	"cadre.dev/overlay/rendezvous/internal/post"
	"cadre.dev/overlay/rendezvous/internal/relay"
)

// Config configures a [Server]. Zero Limits are the defaults.
type Config struct {
	// Listen is host:port for members, HTTPS.
	Listen string
	// Admin is host:port for /metrics and /healthz, plain HTTP; empty: none.
	Admin string
	// Roots is the directory with one <cluster>.pem for each cluster.
	Roots string

	// CertFile and KeyFile are the server's own certificate; both empty:
	// self-signed for Names, kept in StateDir (empty: in memory). With files
	// StateDir is not used.
	CertFile, KeyFile string
	Names             []string
	StateDir          string

	// STUN are host:port, each for STUN and TURN over UDP and TCP; none: only
	// mailboxes.
	STUN []string
	// RelayIP is the IPv4 address by which peers reach allocations.
	RelayIP netip.Addr
	// RelayBind is where relay sockets are bound; the zero Addr: RelayIP when it
	// is an address of this machine, else all addresses.
	RelayBind netip.Addr
	// PortMin and PortMax bound the ports of allocations; 0: any.
	PortMin, PortMax uint16
	// Advertise are ip:port at which members reach STUN and TURN; none: RelayIP
	// with the ports of STUN.
	Advertise []string
	// AllowPrivateRelay lets allocations send into private networks: labs only.
	AllowPrivateRelay bool

	// Revocations lets the coordinators of a cluster end its Boots.
	Revocations bool
	// Drain is how long allocations may go on after the context of Run ended.
	Drain  time.Duration
	Limits Limits
	// Log may be nil.
	Log *slog.Logger
}

// Limits bound the use by members and by unauthenticated clients. Zero fields are the defaults.
type Limits struct {
	// Allocations is how many relay allocations an identity may have (64), and
	// AllAllocations how many there may be (4096).
	Allocations, AllAllocations int
	// RelayBytes is how many bytes an identity may relay in a second (32 MiB).
	RelayBytes int
	// Sockets is how many members may be connected (8192).
	Sockets int
	// PerSource is how many connections one IPv4 address or IPv6 /64 may have
	// (256), authenticated or not.
	PerSource int
	// Memory is how many bytes of messages may wait (64 MiB).
	Memory int
	// Requests is how many requests an identity may make in a second (20), and
	// RequestsBurst how many at once (64).
	Requests, RequestsBurst int
	// MessageLife is how long a message waits for its owner (30 s).
	MessageLife time.Duration
	// CredentialLife is how long TURN credentials are good (10 min, the most).
	CredentialLife time.Duration
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Allocations:    cmp.Or(l.Allocations, 64),
		AllAllocations: cmp.Or(l.AllAllocations, 4096),
		RelayBytes:     cmp.Or(l.RelayBytes, 32<<20),
		Sockets:        cmp.Or(l.Sockets, 8192),
		PerSource:      cmp.Or(l.PerSource, 256),
		Memory:         cmp.Or(l.Memory, 64<<20),
		Requests:       cmp.Or(l.Requests, 20),
		RequestsBurst:  cmp.Or(l.RequestsBurst, 64),
		MessageLife:    cmp.Or(l.MessageLife, 30*time.Second),
		CredentialLife: cmp.Or(l.CredentialLife, credential.MaxLife),
	}
}

func (l Limits) validate() error {
	var errs []error
	for name, n := range map[string]int{
		"allocations": l.Allocations, "all allocations": l.AllAllocations, "relayed bytes": l.RelayBytes,
		"sockets": l.Sockets, "sockets of one source": l.PerSource, "memory": l.Memory, "requests": l.Requests, "burst": l.RequestsBurst,
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("limit of %s is %d, want more than 0", name, n))
		}
	}
	if l.MessageLife < 0 || l.MessageLife > 30*time.Second {
		errs = append(errs, fmt.Errorf("messages wait for %v, at most 30s", l.MessageLife))
	}
	if l.CredentialLife < 0 || l.CredentialLife > credential.MaxLife {
		errs = append(errs, fmt.Errorf("credentials are good for %v, at most %v", l.CredentialLife, credential.MaxLife))
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func (l Limits) post() post.Limits {
	return post.Limits{
		Life: l.MessageLife, Waiting: 64, Bytes: l.Memory, Boxes: 4 * l.Sockets, BoxesPerSlot: 4,
		Idle: 2 * time.Minute, Present: 30 * time.Second, Again: 3 * time.Second,
	}
}

func (l Limits) requests() limit.Rate {
	return limit.Rate{PerSecond: float64(l.Requests), Burst: float64(l.RequestsBurst)}
}

func (l Limits) relay() relay.Limits {
	return relay.Limits{
		Allocations: l.AllAllocations, AllocationsPerSlot: l.Allocations,
		// A quarter of a second at full rate may come at once.
		Bytes:       limit.Rate{PerSecond: float64(l.RelayBytes), Burst: max(float64(l.RelayBytes)/4, 64<<10)},
		Connections: l.Sockets, ConnectionsPerIP: l.PerSource,
	}
}

// validate gives all problems at once.
func (c *Config) validate() error {
	errs := []error{c.Limits.validate()}
	check := func(name, addr string) {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			errs = append(errs, fmt.Errorf("%s address %q: want host:port or :port", name, addr))
		}
	}
	check("listen", c.Listen)
	if c.Admin != "" {
		check("admin", c.Admin)
	}
	for _, s := range c.STUN {
		check("STUN", s)
	}
	if c.Roots == "" {
		errs = append(errs, errors.New("no directory of cluster CAs"))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, errors.New("a TLS certificate and its key come together"))
	}
	if c.Drain < 0 {
		errs = append(errs, fmt.Errorf("drain time is %v, want 0 or more", c.Drain))
	}
	if len(c.STUN) > 0 {
		errs = append(errs, c.validateRelay())
	}
	return errors.Join(errs...)
}

func (c *Config) validateRelay() error {
	var errs []error
	if !c.RelayIP.Is4() || c.RelayIP.IsUnspecified() || c.RelayIP.IsMulticast() {
		errs = append(errs, fmt.Errorf("relay address %q: want the IPv4 address by which others reach this machine", addrText(c.RelayIP)))
	}
	if c.RelayBind.IsValid() && !c.RelayBind.Is4() {
		errs = append(errs, fmt.Errorf("relay bind address %s: want an IPv4 address", c.RelayBind))
	}
	if c.PortMin > c.PortMax || (c.PortMin == 0) != (c.PortMax == 0) || (c.PortMin > 0 && c.PortMin < 1024) {
		errs = append(errs, fmt.Errorf("relay ports %d-%d: want a range from 1024 up", c.PortMin, c.PortMax))
	}
	if len(c.STUN) > 4 || len(c.Advertise) > 4 {
		errs = append(errs, errors.New("at most 4 STUN addresses"))
	}
	for _, a := range c.Advertise {
		if to, err := netip.ParseAddrPort(a); err != nil || to.Port() == 0 || to.Addr().IsUnspecified() {
			errs = append(errs, fmt.Errorf("advertised address %q: want ip:port", a))
		}
	}
	return errors.Join(errs...)
}

func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// bindAddr is where relay sockets are bound.
func (c *Config) bindAddr() netip.Addr {
	if c.RelayBind.IsValid() {
		return c.RelayBind
	}
	addrs, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && (p.Addr() == c.RelayIP || c.RelayIP.IsLoopback()) {
				return c.RelayIP
			}
		}
	}
	return netip.IPv4Unspecified()
}
