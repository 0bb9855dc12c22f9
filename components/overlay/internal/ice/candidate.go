package ice

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	pion "github.com/pion/ice/v3"
)

const (
	// MaxCandidates bounds the candidates of one side of a search (OVL-09).
	MaxCandidates = 16
	// MaxCandidateLen bounds one candidate line, in bytes.
	MaxCandidateLen = 512
)

const (
	typeHost  = "host"
	typeSrflx = "srflx"
	typePrflx = "prflx" // learned from checks, never signaled
	typeRelay = "relay"
)

// candidate is a signaled candidate: component 1, UDP.
type candidate struct {
	foundation string
	priority   uint32
	addr       netip.AddrPort
	kind       string
}

// parseCandidate reads the candidate-attribute of RFC 8839 without its prefix. It accepts
// format's output, and a related address, which it ignores; names (mDNS too), TCP and
// other components are refused. It does not filter.
func parseCandidate(line string) (candidate, error) {
	var c candidate
	if len(line) > MaxCandidateLen {
		return c, fmt.Errorf("%w: %d bytes", ErrMalformed, len(line))
	}
	for i := range len(line) {
		if line[i] < ' ' || line[i] > '~' {
			return c, fmt.Errorf("%w: unprintable byte", ErrMalformed)
		}
	}
	f := strings.Split(line, " ")
	if len(f) != 8 && len(f) != 12 {
		return c, fmt.Errorf("%w: %d fields", ErrMalformed, len(f))
	}
	if len(f[0]) == 0 || len(f[0]) > 32 || !iceChars(f[0]) {
		return c, fmt.Errorf("%w: foundation", ErrMalformed)
	}
	if f[1] != "1" || !strings.EqualFold(f[2], "udp") || f[6] != "typ" {
		return c, fmt.Errorf("%w: not component 1 over udp", ErrMalformed)
	}
	priority, err := strconv.ParseUint(f[3], 10, 31)
	if err != nil || priority == 0 {
		return c, fmt.Errorf("%w: priority", ErrMalformed)
	}
	addr, err := netip.ParseAddr(f[4])
	if err != nil || addr.Zone() != "" {
		return c, fmt.Errorf("%w: address is not a plain one", ErrMalformed)
	}
	port, err := strconv.ParseUint(f[5], 10, 16)
	if err != nil || port == 0 {
		return c, fmt.Errorf("%w: port", ErrMalformed)
	}
	switch f[7] {
	case typeHost, typeSrflx, typeRelay:
	default:
		return c, fmt.Errorf("%w: type", ErrMalformed)
	}
	if len(f) == 12 {
		if _, err := netip.ParseAddr(f[9]); f[8] != "raddr" || f[10] != "rport" || err != nil {
			return c, fmt.Errorf("%w: related address", ErrMalformed)
		}
		if _, err := strconv.ParseUint(f[11], 10, 16); err != nil {
			return c, fmt.Errorf("%w: related port", ErrMalformed)
		}
	}
	return candidate{
		foundation: f[0], priority: uint32(priority), kind: f[7],
		addr: netip.AddrPortFrom(addr.Unmap(), uint16(port)),
	}, nil
}

// format writes the candidate for signaling. It leaves out the related address:
// the Peer has no use for an address behind our NAT (OVL-18).
func (c candidate) format() string {
	return fmt.Sprintf("%s 1 udp %d %s %d typ %s", c.foundation, c.priority, c.addr.Addr(), c.addr.Port(), c.kind)
}

// local makes a candidate of ours; nth orders the candidates of one kind, best first.
func local(kind string, nth int, addr netip.AddrPort) candidate {
	preference := map[string]uint32{typeHost: 126, typeSrflx: 100, typeRelay: 0}[kind]
	return candidate{
		foundation: kind[:1] + strconv.Itoa(nth),
		priority:   preference<<24 | uint32(65535-nth)<<8 | 255,
		addr:       addr,
		kind:       kind,
	}
}

// toICE makes the agent's candidate of it.
func (c candidate) toICE() (pion.Candidate, error) {
	ip, port := c.addr.Addr().String(), int(c.addr.Port())
	switch c.kind {
	case typeHost:
		return pion.NewCandidateHost(&pion.CandidateHostConfig{
			Network: "udp", Address: ip, Port: port, Component: pion.ComponentRTP,
			Priority: c.priority, Foundation: c.foundation,
		})
	case typeSrflx:
		return pion.NewCandidateServerReflexive(&pion.CandidateServerReflexiveConfig{
			Network: "udp", Address: ip, Port: port, Component: pion.ComponentRTP,
			Priority: c.priority, Foundation: c.foundation,
		})
	case typeRelay:
		return pion.NewCandidateRelay(&pion.CandidateRelayConfig{
			Network: "udp", Address: ip, Port: port, Component: pion.ComponentRTP,
			Priority: c.priority, Foundation: c.foundation,
		})
	default:
		return nil, fmt.Errorf("%w: type %q", ErrMalformed, c.kind)
	}
}

// iceChars reports whether s has only the characters that ICE allows in user names,
// passwords and foundations.
func iceChars(s string) bool {
	for i := range len(s) {
		b := s[i]
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '+', b == '/':
		default:
			return false
		}
	}
	return true
}
