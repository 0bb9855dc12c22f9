package platform

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
)

// Offer lists the choices of a platform. A nil list is unknown: any name may do.
type Offer struct {
	OSImages      []string
	InstanceTypes []string
	// AlsoInstanceType accepts instance types that no list can hold, as "6x12288"; nil: none.
	AlsoInstanceType func(name string) bool
}

// Check reports whether the platform offers the names of t; an empty name leaves the choice to the
// platform. The error names each field that does not fit, and the alternatives; it is ErrNotOffered
// and ErrRefused.
func (o Offer) Check(t Template) error {
	const instanceType = "template.instance_type"
	var problems []string
	for _, f := range []struct {
		field, name string
		offered     []string
		same        func(name, offered string) bool
	}{
		{"template.os_image", t.OSImage, o.OSImages, group.SameOSImage},
		{instanceType, t.InstanceType, o.InstanceTypes, func(a, b string) bool { return a == b }},
	} {
		if f.field == instanceType && o.AlsoInstanceType != nil && o.AlsoInstanceType(f.name) {
			continue
		}
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
