package mailbox

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// acceptable keeps the permitted addresses of a server's offer. A rendezvous is not
// trusted: it must not make every node of a cluster knock at an address of its choice
// (OVL-09, OVL-10). So addresses are literal, and either public or the address by which we
// reach the server.
func (ses *session) acceptable(f Frame) Offer {
	var o Offer
	for _, s := range f.ICE {
		if host, ok := iceHost(s.URL); ok && ses.mayReach(host) {
			if !s.Expires.IsZero() {
				// As a time of the monotonic clock: a jump of the wall clock must not take
				// the relays away.
				s.Expires = time.Now().Add(s.Expires.Sub(ses.server.client.now()))
			}
			o.ICE = append(o.ICE, s)
			continue
		}
		if ses.server.mayWarn("offer") {
			ses.server.log.Warn("offered server ignored", "address", s.URL)
		}
	}
	for _, r := range f.Reflectors {
		if ses.mayReach(r) {
			o.Reflectors = append(o.Reflectors, r)
			continue
		}
		if ses.server.mayWarn("offer") {
			ses.server.log.Warn("offered server ignored", "address", r)
		}
	}
	return o
}

// iceHost gives host:port of a STUN or TURN URL.
func iceHost(raw string) (string, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Opaque == "" || u.Fragment != "" {
		return "", false
	}
	switch u.Scheme {
	case "stun":
		if u.RawQuery != "" {
			return "", false
		}
	case "turn", "turns":
		if u.RawQuery != "transport=udp" && u.RawQuery != "transport=tcp" {
			return "", false
		}
	default:
		return "", false
	}
	return u.Opaque, !strings.ContainsAny(u.Opaque, "/@")
}

func (ses *session) mayReach(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	to, err := netip.ParseAddrPort(hostPort)
	if err != nil || to.Port() == 0 || to.Addr().Zone() != "" || host == "" {
		return false
	}
	addr := to.Addr().Unmap()
	return addr == ses.remote || isPublic(addr)
}

// isPublic refuses every range that leads to this machine, its network or its
// platform.
func isPublic(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
}
