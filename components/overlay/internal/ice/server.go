package ice

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/pion/stun/v2"
)

// Server is a STUN or TURN server.
type Server struct {
	// URL is stun:host:port, turn:host:port?transport=udp (or tcp), or
	// turns:host:port?transport=tcp. A turn server over udp answers STUN too.
	URL string
	// Username and Password are for turn and turns.
	Username, Password string
}

// maxServerList bounds the servers of one search.
const maxServerList = 16

// parseServers splits servers into the hosts to ask for mapped addresses and
// the URIs of relays, and reports all mistakes at once.
func parseServers(servers []Server) (stunHosts []string, relays []*stun.URI, err error) {
	if len(servers) > maxServerList {
		return nil, nil, fmt.Errorf("servers: %d, at most %d", len(servers), maxServerList)
	}
	var mistakes []error
	for i, s := range servers {
		u, err := stun.ParseURI(s.URL)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("server %d: %w", i, err))
			continue
		}
		host := net.JoinHostPort(u.Host, strconv.Itoa(u.Port))
		udp := u.Proto == stun.ProtoTypeUDP
		switch {
		case u.Scheme == stun.SchemeTypeSTUN && udp:
			stunHosts = append(stunHosts, host)
		case u.Scheme == stun.SchemeTypeTURN, u.Scheme == stun.SchemeTypeTURNS && !udp:
			if s.Username == "" || s.Password == "" {
				mistakes = append(mistakes, fmt.Errorf("server %d: relay without credentials", i))
				continue
			}
			if udp {
				stunHosts = append(stunHosts, host)
			}
			u.Username, u.Password = s.Username, s.Password
			relays = append(relays, u)
		default:
			mistakes = append(mistakes, fmt.Errorf("server %d: %s over %s is not supported", i, u.Scheme, u.Proto))
		}
	}
	slices.Sort(stunHosts)
	return slices.Compact(stunHosts), relays, errors.Join(mistakes...)
}
