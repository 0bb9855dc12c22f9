package provider

import (
	"slices"

	"cadre.dev/client"
	"cadre.dev/core/group"
)

// Settings of single slots are stored in the spec of their group, and may belong to a
// cadre_instance. A group owns the settings of the ordinals that its configuration or its state
// names, and keeps the others as they are stored.

// others are the settings in a stored spec that none of the specs of this resource name.
func others(stored group.Spec, own ...group.Spec) []group.InstanceSettings {
	var out []group.InstanceSettings
	for _, one := range stored.Instances {
		named := func(s group.Spec) bool {
			return slices.ContainsFunc(s.Instances, func(i group.InstanceSettings) bool { return i.Ordinal == one.Ordinal })
		}
		if !slices.ContainsFunc(own, named) {
			out = append(out, one)
		}
	}
	return out
}

// allOf returns the stored spec of a group for callers that write a part of it back. It rejects a
// spec with fields that this provider does not know, because the write would lose them.
func allOf(g client.Group) (group.Spec, error) {
	spec, err := group.Decode(g.SpecJSON)
	if err != nil {
		return spec, &client.Error{Kind: client.Invalid, Doing: "write settings of slots of group " + g.Spec.Name, Message: "the stored spec cannot be changed by this provider: " + err.Error(),
			Hint: "the coordinators are newer than the provider, or the spec was edited by hand: update the provider, or mend the spec"}
	}
	return spec, nil
}

// keeping is a spec of this resource with the settings that others have stored. An error:
// there are some, and this provider does not know all that the stored spec says.
func keeping(s group.Spec, there client.Group, own ...group.Spec) (group.Spec, error) {
	kept := others(there.Spec, own...)
	if len(kept) == 0 {
		return s, nil
	}
	_, err := allOf(there)
	return withStored(s, kept), err
}

// withStored returns a spec with the stored settings of other resources behind its own.
func withStored(s group.Spec, others []group.InstanceSettings) group.Spec {
	s.Instances = slices.Concat(s.Instances, others)
	return s
}

// alone is a stored spec without settings of others.
func alone(stored group.Spec, others []group.InstanceSettings) group.Spec {
	stored.Instances = slices.DeleteFunc(slices.Clone(stored.Instances), func(one group.InstanceSettings) bool {
		return slices.ContainsFunc(others, func(o group.InstanceSettings) bool { return o.Ordinal == one.Ordinal })
	})
	return stored
}

// preserving is a spec that names those slots alone whose disks a stored one preserves. They
// count as a group's own when it is imported, so that destroying it knows of them.
func preserving(stored group.Spec) group.Spec {
	stored.Instances = slices.DeleteFunc(slices.Clone(stored.Instances), func(one group.InstanceSettings) bool { return one.PreservedState.Disk == "" })
	return stored
}

// unchanged reports that a stored spec equals the resource's known one, except for the settings of
// other resources.
func unchanged(stored group.Spec, known group.Spec) bool {
	return same(alone(stored, others(stored, known)), known)
}
