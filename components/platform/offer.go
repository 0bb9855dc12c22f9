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
	image := missing("template.os_image", t.OSImage, o.OSImages, group.SameOSImage)
	return notOffered(image, o.missingSize("template.instance_type", t.InstanceType))
}

// CheckSize is Check of one instance type; field is its path in the spec.
func (o Offer) CheckSize(field, name string) error { return notOffered(o.missingSize(field, name)) }

func (o Offer) missingSize(field, name string) string {
	if o.AlsoInstanceType != nil && o.AlsoInstanceType(name) {
		return ""
	}
	return missing(field, name, o.InstanceTypes, func(a, b string) bool { return a == b })
}

// missing returns the problem of a name that is not offered; "": it is, or the offer is unknown.
func missing(field, name string, offered []string, same func(name, offered string) bool) string {
	if name == "" || offered == nil || slices.ContainsFunc(offered, func(one string) bool { return same(name, one) }) {
		return ""
	}
	return fmt.Sprintf("%s %.64q: choose one of %s", field, name, list(offered))
}

func notOffered(problems ...string) error {
	problems = slices.DeleteFunc(problems, func(p string) bool { return p == "" })
	if len(problems) == 0 {
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
