package gateway

import (
	"fmt"
	"strconv"
	"strings"
)

const idLength = 40

// Name is the parsed server name below the gateway's domain.
type Name struct {
	// ID is an app id or an instance id.
	ID   string
	Port uint16
	// PassThrough leaves TLS to the CVM; otherwise the gateway ends TLS and uses plain TCP to the
	// port.
	PassThrough bool
	// HTTP2 is offered to the client where the gateway ends TLS.
	HTTP2 bool
}

const (
	portPlain = 80
	portTLS   = 443
)

// ParseName splits "<id>[-<port>[s|g]].<domain>", as the gateway of a real platform does:
// s is pass-through, g is HTTP/2. Without a port it is 80, with s 443. Case does not matter.
func ParseName(name, domain string) (Name, error) {
	label, ok := strings.CutSuffix(strings.TrimSuffix(strings.ToLower(name), "."), "."+strings.ToLower(domain))
	if !ok || strings.Contains(label, ".") {
		return Name{}, fmt.Errorf("name %.100q is not directly below %s", name, domain)
	}
	id, rest, _ := strings.Cut(label, "-")
	if len(id) != idLength || strings.Trim(id, "0123456789abcdef") != "" {
		return Name{}, fmt.Errorf("name %.100q does not begin with an app id or instance id", name)
	}
	out := Name{ID: id, Port: portPlain}
	digits, passThrough := strings.CutSuffix(rest, "s")
	if out.PassThrough = passThrough; passThrough {
		out.Port = portTLS
	} else {
		digits, out.HTTP2 = strings.CutSuffix(rest, "g")
	}
	if digits == "" && !strings.HasSuffix(label, "-") {
		return out, nil
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] == '0' {
		return Name{}, fmt.Errorf("name %.100q: %q is no port", name, digits)
	}
	out.Port = uint16(n)
	return out, nil
}
