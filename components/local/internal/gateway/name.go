package gateway

import (
	"fmt"
	"strconv"
	"strings"
)

const idLength = 40

// ParseName splits "<id>-<port>s.<domain>". Case does not matter.
func ParseName(name, domain string) (id string, port uint16, err error) {
	label, ok := strings.CutSuffix(strings.TrimSuffix(strings.ToLower(name), "."), "."+strings.ToLower(domain))
	if !ok || strings.Contains(label, ".") {
		return "", 0, fmt.Errorf("name %.100q is not directly below %s", name, domain)
	}
	id, rest, ok := strings.Cut(label, "-")
	if !ok || len(id) != idLength || strings.Trim(id, "0123456789abcdef") != "" {
		return "", 0, fmt.Errorf("name %.100q does not begin with an app id or instance id", name)
	}
	digits, ok := strings.CutSuffix(rest, "s")
	if !ok {
		return "", 0, fmt.Errorf("name %.100q: only pass-through (suffix s) is offered", name)
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] == '0' {
		return "", 0, fmt.Errorf("name %.100q: %q is no port", name, digits)
	}
	return id, uint16(n), nil
}
