package platform

import (
	"fmt"
	"slices"
	"strings"
)

// Offer is what a platform has to choose from. A nil list is not told: any name may do.
type Offer struct {
	OSImages      []string
	InstanceTypes []string
}

// Check says whether t names what is on offer; an empty name leaves the choice to the
// platform. The error names each field that does not fit and what would; it is
// ErrNotOffered and ErrRefused.
func (o Offer) Check(t Template) error {
	var problems []string
	for _, f := range []struct {
		field, name string
		offered     []string
		same        func(name, offered string) bool
	}{
		{"template.os_image", t.OSImage, o.OSImages, SameImage},
		{"template.instance_type", t.InstanceType, o.InstanceTypes, func(a, b string) bool { return a == b }},
	} {
		if f.name == "" || f.offered == nil || slices.ContainsFunc(f.offered, func(offered string) bool { return f.same(f.name, offered) }) {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s %.64q: choose one of %s", f.field, f.name, list(f.offered)))
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("%w: %w: %s", ErrRefused, ErrNotOffered, strings.Join(problems, "; "))
}

// SameImage compares names of OS images as platforms write them: one of the two may
// carry a suffix "-<first digits of the image's hash>".
func SameImage(a, b string) bool {
	return a == b || suffixed(a, b) || suffixed(b, a)
}

func suffixed(long, short string) bool {
	const fewest = 6 // digits of a hash; fewer are a version
	digits, ok := strings.CutPrefix(long, short+"-")
	return ok && short != "" && len(digits) >= fewest && strings.Trim(digits, "0123456789abcdef") == ""
}

func list(names []string) string {
	const most = 12
	sorted := slices.Sorted(slices.Values(names))
	sorted = slices.Compact(sorted)
	if len(sorted) == 0 {
		return "none: the platform offers none now"
	}
	rest := ""
	if len(sorted) > most {
		rest = fmt.Sprintf(" and %d more", len(sorted)-most)
		sorted = sorted[:most]
	}
	return strings.Join(sorted, ", ") + rest
}
