package group

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// InstanceSettings are the settings of one Slot. No setting is part of the Revision: settings take
// effect at once. Only a change of Env or of InstanceType causes a step of the Slot.
type InstanceSettings struct {
	// Ordinal of the Slot. Settings for a Slot that does not exist yet wait for it.
	Ordinal int `json:"ordinal"`
	// Metadata is handed to the workload with the group's Meta, and wins over it.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Env are values of this Slot for names of the template's env, and override the template's
	// values. A change is a step of the Slot at its present Revision: the measured content is the
	// same.
	Env map[string]string `json:"env,omitempty"`
	// InstanceType is the size of this Slot's CVM, at every Revision; empty: the template's. A change is
	// a step of the Slot at its present Revision, since no Revision is proven by its size.
	InstanceType string `json:"instance_type,omitempty"`
	// ExcludeFromRollout keeps the Slot at its assigned Revision, as a partition does (R94,
	// R139). It counts in every budget and quorum all the same.
	ExcludeFromRollout bool `json:"exclude_from_rollout,omitempty"`
	// PinnedRevision is the digest of a recorded Revision that this Slot runs instead of the
	// template. The leader moves the Slot to it like to a target, and keeps it there.
	PinnedRevision string `json:"pinned_revision,omitempty"`
	// ExcludeFromHealing excludes the Slot from automatic repair (R139).
	ExcludeFromHealing bool `json:"exclude_from_healing,omitempty"`
	// PreservedState names a disk that is never deleted in a group whose others may be.
	PreservedState PreservedState `json:"preserved_state,omitzero"`
}

// Label is how the settings are named in the spec: the ordinal as text.
func (i InstanceSettings) Label() string { return strconv.Itoa(i.Ordinal) }

// Instance returns the spec's settings of one Slot. Without settings only the ordinal is set.
func (s Spec) Instance(ordinal int) InstanceSettings {
	for _, one := range s.Instances {
		if one.Ordinal == ordinal {
			return one
		}
	}
	return InstanceSettings{Ordinal: ordinal}
}

// The exclusions of a Slot, in the words of an override.
const (
	FromRollout = "rollout"
	FromHealing = "healing"
)

// Exclusion lists the activities from which an operator's override excludes a Slot. The zero value
// excludes from none.
type Exclusion struct{ Rollout, Healing bool }

// ExclusionOf returns the exclusion that these words of an override name. An empty list means both
// exclusions. An unknown word also means both: its author wanted to protect the Slot from a change.
func ExclusionOf(from []string) Exclusion {
	out := Exclusion{Rollout: slices.Contains(from, FromRollout), Healing: slices.Contains(from, FromHealing)}
	unknown := slices.ContainsFunc(from, func(word string) bool { return word != FromRollout && word != FromHealing })
	if unknown || out == (Exclusion{}) {
		return Exclusion{Rollout: true, Healing: true}
	}
	return out
}

// Words are the names of the excluded activities.
func (e Exclusion) Words() []string {
	var out []string
	if e.Rollout {
		out = append(out, FromRollout)
	}
	if e.Healing {
		out = append(out, FromHealing)
	}
	return out
}

// The reasons that keep a Slot from the target, by the field's name. An override has no field.
const (
	KeptByPartition = "partition"
	KeptByExclusion = "exclude_from_rollout"
	KeptByOverride  = "an operator's exclusion"
	KeptByPin       = "pinned_revision"
)

// KeptBy returns the reason that keeps the Slot of an ordinal from the target: a field of the spec,
// or the Slot's override. The strongest reason wins: a pin names another Revision, the other
// reasons keep the present one. "": none.
func (s Spec) KeptBy(ordinal int, override Exclusion) string {
	own := s.Instance(ordinal)
	switch {
	case ordinal < s.UpdatePolicy.Partition:
		return KeptByPartition
	case own.ExcludeFromRollout:
		return KeptByExclusion
	case override.Rollout:
		return KeptByOverride
	case own.PinnedRevision != "":
		return KeptByPin
	}
	return ""
}

// Unhealed reports that the spec or an override excludes the Slot of an ordinal from automatic
// repair.
func (s Spec) Unhealed(ordinal int, override Exclusion) bool {
	return s.Instance(ordinal).ExcludeFromHealing || override.Healing
}

// MetaOf returns the metadata that the workload of one Slot reads. The caller owns the map.
func (s Spec) MetaOf(ordinal int) map[string]string {
	own := s.Instance(ordinal).Metadata
	if len(s.Meta)+len(own) == 0 {
		return nil
	}
	out := make(map[string]string, len(s.Meta)+len(own))
	maps.Copy(out, s.Meta)
	maps.Copy(out, own)
	return out
}

// OwnInstanceType returns the size of a Slot's CVM that differs from a template's, which may be that of
// another Revision than the spec's; "": it has the template's size. So has a Slot beyond the group's
// size, such as an extra one.
func (s Spec) OwnInstanceType(ordinal int, t Template) string {
	own := s.Instance(ordinal).InstanceType
	if own == t.InstanceType || own == "" || t.InstanceType == "" || !s.HasOrdinal(ordinal) {
		return "" // an unknown template names no size
	}
	return own
}

// PreservedDisk is the name of the disk of one Slot that is never deleted, "" for none.
func (s Spec) PreservedDisk(ordinal int) string {
	if own := s.Instance(ordinal).PreservedState.Disk; own != "" {
		return own
	}
	return s.PreservedState.Disk
}

// PreservesDisks reports whether any Slot's disk is never deleted.
func (s Spec) PreservesDisks() bool {
	if s.PreservedState.Disk != "" {
		return true
	}
	for _, one := range s.Instances {
		if one.PreservedState.Disk != "" {
			return true
		}
	}
	return false
}

func (v *validator) instances(s Spec) {
	seen := map[int]bool{}
	for _, one := range s.Instances {
		path := instancePath(one)
		if one.Ordinal < 0 || one.Ordinal >= MaxReplicas {
			v.add(path, "", "its ordinal must be 0 to %d", MaxReplicas-1)
		}
		if seen[one.Ordinal] {
			v.add(path, "", "stands twice: ordinals must differ")
		}
		seen[one.Ordinal] = true
		v.meta(path+".metadata", one.Metadata)
		v.ownEnv(path+".env", s, one)
		if one.InstanceType != "" {
			v.instanceType(path+".instance_type", one.InstanceType)
		}
		if problem := RevisionProblem(one.PinnedRevision); one.PinnedRevision != "" && problem != "" {
			v.add(path+".pinned_revision", "", "%s", problem)
		}
		if one.PinnedRevision != "" && one.ExcludeFromRollout {
			v.add(path+".pinned_revision", "", "and exclude_from_rollout are both set: one moves the slot, the other keeps it where it is")
		}
		v.preservedDisk(path+".preserved_state.disk", one.PreservedState.Disk)
	}
}

func instancePath(i InstanceSettings) string { return fmt.Sprintf("instance[%q]", i.Label()) }

func (v *validator) preservedDisk(path, name string) {
	if p := NameProblem(name); name != "" && p != "" {
		v.add(path, "", "%s", p)
	}
}

// RevisionProblem is why the text cannot be the name of a Revision, in full; empty: it can.
func RevisionProblem(text string) string {
	if isHex(text, revisionHexLen) {
		return ""
	}
	return fmt.Sprintf("%q is no revision: give all %d hex digits, as `cadre instance describe` and `cadre rollout history -o json` do", text, revisionHexLen)
}
