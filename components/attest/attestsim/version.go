package attestsim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// version is a dstack release: major, minor, patch.
type version [3]int

func parseVersion(text string) (version, error) {
	var v version
	parts := strings.Split(cmp.Or(text, DefaultAgentVersion), ".")
	if len(parts) != len(v) {
		return v, fmt.Errorf("agent version %q is not like %q", text, DefaultAgentVersion)
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return v, fmt.Errorf("agent version %q is not like %q", text, DefaultAgentVersion)
		}
		v[i] = n
	}
	return v, nil
}

func (v version) atLeast(major, minor, patch int) bool {
	return slices.Compare(v[:], []int{major, minor, patch}) >= 0
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }
