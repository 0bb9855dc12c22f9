package policy

import (
	"errors"
	"fmt"
	"slices"
)

// Validate reports everything that keeps ip from being a policy: a pin that is
// empty pins nothing (ATT-21), so it is refused, not skipped.
func (ip ImagePolicy) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if ip.KeyProviderName == "" {
		add("key_provider_name is empty: name the key provider that CVMs must use")
	}
	if ip.KeyProviderID == "" {
		add("key_provider_id is empty: pin the key provider's identity")
	}
	if len(ip.Images) == 0 {
		add("images is empty: name at least one OS image with its measurements")
	}
	names := make([]string, 0, len(ip.Images))
	for name := range ip.Images {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name == "" {
			add("images has an entry without a name")
		}
		if len(ip.Images[name]) == 0 {
			add("images[%q] has no measurements", name)
		}
		for i, m := range ip.Images[name] {
			if !m.complete() {
				add("images[%q][%d]: mrtd, rtmr0, rtmr1 and rtmr2 must each be 96 lower-case hex digits", name, i)
			}
		}
	}
	return errors.Join(errs...)
}

func (m Measurement) complete() bool {
	return isHex(m.MRTD, 96) && isHex(m.RTMR0, 96) && isHex(m.RTMR1, 96) && isHex(m.RTMR2, 96)
}

// isHex reports exactly n lower-case hex digits.
func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
