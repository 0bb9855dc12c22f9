package overlay

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"cadre.dev/overlay/internal/gateway"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/internal/peermap"
)

// Config makes a [Node]. Fields without a note are required.
type Config struct {
	Self ID
	// SelfVIP is the address that workloads of this machine listen on, except Accepts with
	// Loopback.
	SelfVIP netip.Addr
	// Private are ports of this machine that stay closed to every Peer, regardless of the peer map:
	// the ports of the node's own parts.
	Private []uint16
	// Listen is the TCP address for Sessions, ":7443" when empty.
	Listen string
	// Gateway is the way that is there at once. Its Domain may be empty where
	// Rendezvous is not.
	Gateway Gateway
	// Rendezvous are the servers that help to find direct and relayed paths; any
	// that answers will do. Without one the gateway is the only path.
	Rendezvous []Rendezvous
	// ListenUDP is the UDP address for direct paths, any port when zero.
	ListenUDP netip.AddrPort
	// PublicOnly excludes addresses of private networks from the sent and the accepted candidates.
	// Peers of one private network then connect over their public addresses.
	PublicOnly bool
	// OnDemand has a worker keep Sessions only with coordinators and, where its group has at most
	// [WarmGroup] members, with those. With every other Peer of the map, a connection or a datagram
	// of either side makes a Session and waits for it for up to 10 s. The Session ends after
	// IdleTime without traffic if both sides agree. Unset keeps one with every Peer. Peers should
	// agree on both.
	OnDemand bool
	// IdleTime is 5 minutes when zero.
	IdleTime time.Duration
	// Paths are the kinds of path that may be used; nil means all.
	Paths []PathKind
	// Serve are the node's own services by port. Every admitted Peer may open a connection to a
	// service with [Node.DialService], regardless of Offers and Accepts; a port here is not
	// forwarded. peer is the map's entry with the Boot that the Session has proved. Each call has a
	// goroutine of its own. ctx ends with the Session, and the function must return soon after. The
	// function owns conn, which may outlive the call, and closes it; until then conn counts among
	// the streams that one Peer may have open.
	Serve map[uint16]func(ctx context.Context, peer Peer, conn net.Conn)
	// Listener opens the sockets that the node listens on: Sessions, ListenUDP, and
	// the offered ports at VIPs. Nil opens them itself.
	Listener Listener
	// Log may be nil.
	Log *slog.Logger
	// ServeAdmission serves the one stream of a first contact. conn closes when ServeAdmission
	// returns, and ctx ends with the connection's time limit. The other side has proved only the
	// possession of a key. Nil refuses first contact.
	ServeAdmission func(ctx context.Context, conn net.Conn, state tls.ConnectionState)
	// OnControl is called, in a goroutine of its own, once for each pair of control connections
	// with a Peer where either side is a coordinator. The pair belongs to the Session in use and
	// moves with it: a newer pair's OnControl may begin before an older one's has returned. ctx
	// ends with the Session and when the dialer has a newer pair (the other side notices that by
	// reading), and OnControl must return soon after. Closing either connection before that ends
	// the Session (the dialer then makes a new one); returning alone does not. Nil refuses control
	// connections.
	OnControl func(ctx context.Context, peer Peer, c ControlConns)
	// OnPathChange receives each change of a Link's path, in order for each Link, in a goroutine of
	// the node. It must not block for long. May be nil.
	OnPathChange func(PathChange)

	// limits are smaller in tests; zero fields mean the defaults.
	limits limits
}

// Listener opens sockets to listen on; *net.ListenConfig is one. Listeners of TCP must give
// *net.TCPConn, packet connections must be *net.UDPConn. The node closes a listener when it needs
// the address no longer. Safe for concurrent use.
type Listener interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
}

// idleTime is how long a Link on demand may be unused before its Sessions end, where the
// Config does not say.
const idleTime = 5 * time.Minute

// complete checks a Config and fills in the defaults.
func (c Config) complete() (Config, error) {
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("overlay config: %w", err)
	}
	c.Listen = cmp.Or(c.Listen, fmt.Sprintf(":%d", gateway.SessionPort))
	c.IdleTime = cmp.Or(c.IdleTime, idleTime)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Serve = maps.Clone(c.Serve)
	c.limits = c.limits.withDefaults()
	if c.Listener == nil {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false) // local apps do not speak it
		c.Listener = &lc
	}
	return c, nil
}

// check returns all errors of a Config.
func (c Config) check() error {
	var errs []error
	if err := c.Self.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("self: %w", err))
	}
	if !c.SelfVIP.Is4() {
		errs = append(errs, fmt.Errorf("self VIP %q: want an IPv4 address", c.SelfVIP))
	}
	if c.Gateway.Domain == "" && len(c.Rendezvous) == 0 {
		errs = append(errs, errors.New("neither a gateway domain nor a rendezvous server: name the domain that the gateway routes by, or a server"))
	}
	if c.IdleTime < 0 {
		errs = append(errs, fmt.Errorf("idle time %v: want a positive time, or 0 for %v", c.IdleTime, idleTime))
	}
	return errors.Join(append(errs, checkPaths(c.Paths), c.checkServe())...)
}

// checkPaths refuses kinds that do not exist.
func checkPaths(kinds []PathKind) error {
	for _, k := range kinds {
		if k.Class() == link.NoClass {
			return fmt.Errorf("path kind %q: want %s, %s, %s or %s", k, PathDirectTCP, PathDirectUDP, PathGateway, PathRelay)
		}
	}
	if kinds != nil && len(kinds) == 0 {
		return errors.New("no kind of path is allowed")
	}
	return nil
}

func (c Config) checkServe() error {
	for port, f := range c.Serve {
		switch {
		case port == 0:
			return errors.New("serve: port 0: a service needs a port from 1 to 65535")
		case f == nil:
			return fmt.Errorf("serve: port %d has no function: leave the port out to serve nothing on it", port)
		}
	}
	return nil
}

// allows reports whether a class of path may be used.
func (c Config) allows(class link.Class) bool {
	return c.Paths == nil || slices.Contains(c.Paths, class.Kind())
}

// self is how the node reads its peer map.
func (c Config) self() *peermap.Self {
	return &peermap.Self{
		ID: c.Self, Private: c.Private, OnDemand: c.OnDemand, Log: c.Log,
		Gateway: c.Gateway.Domain != "" && c.allows(link.Gateway), Finds: len(c.Rendezvous) > 0,
	}
}

// servers are the mailboxes' addresses.
func (c Config) servers() []mailbox.Server {
	servers := make([]mailbox.Server, 0, len(c.Rendezvous))
	for _, r := range c.Rendezvous {
		servers = append(servers, mailbox.Server{URL: r.URL, CA: r.CA})
	}
	return servers
}
