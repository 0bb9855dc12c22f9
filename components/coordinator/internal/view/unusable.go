package view

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// Unusable returns why no decision about a group is possible: a record that such decisions need
// exists and cannot be read. The record would look like a missing one; for example, a Slot with an
// unreadable Operation would look idle (R11).
func (v *View) Unusable(name string) error {
	for _, bad := range v.Bad {
		if concerns(bad.Key, name) {
			return fmt.Errorf("%w; repair or delete it, no action is taken until then", bad)
		}
	}
	return nil
}

// BadBelow returns an unreadable record below one of the prefixes; nil: all are readable. It serves
// decisions that need only these records. v.Bad can have more: an operator's switch counts by its
// key, so its unreadable value stays in v.Bad while the switch is on.
func (v *View) BadBelow(prefixes ...string) *store.RecordError {
	for _, bad := range v.Bad {
		for _, prefix := range prefixes {
			if strings.HasPrefix(bad.Key, prefix) {
				return bad
			}
		}
	}
	return nil
}

// Unreadable reports whether the record at key exists and cannot be read.
func (v *View) Unreadable(key string) bool {
	return slices.ContainsFunc(v.Bad, func(bad *store.RecordError) bool { return bad.Key == key })
}

// concerns reports whether decisions about the group need the record at key.
func concerns(key, name string) bool {
	if _, err := store.KindOf(key); err != nil {
		return false // in no table of records, so no decision needs it
	}
	segments := strings.Split(key, "/")
	last := segments[len(segments)-1]
	switch prefix := segments[0] + "/"; {
	case key == store.GroupStatusKey(name), key == store.GroupPolicyKey(name), key == store.AddressesKey(name), strings.HasPrefix(key, store.SlotsOf(name)):
		return true
	case strings.HasPrefix(key, store.PolicyPrefix), prefix == store.AdmissionsPrefix:
		return ofGroup(last, name)
	case prefix == store.OperationsPrefix:
		owners := operationOwners(last)
		return len(owners) == 0 || slices.Contains(owners, name) // a key of another form may belong to any group
	case prefix == store.RolloutsPrefix:
		// <group>-<generation>-<digest>; one group's name can be a prefix of another's.
		return strings.HasPrefix(last, name+"-")
	}
	return false
}

// operationOwners returns the groups that an Operation may belong to by its id:
// <rollout>.<step>.<slot> or <slot>.<request>, where the request may look like a Slot too.
func operationOwners(id string) (owners []string) {
	first, _, _ := strings.Cut(id, ".")
	for _, slot := range []string{first, id[strings.LastIndexByte(id, '.')+1:]} {
		if name, _, err := group.ParseSlot(slot); err == nil {
			owners = append(owners, name)
		}
	}
	return owners
}

func ofGroup(slot, name string) bool {
	owner, _, err := group.ParseSlot(slot)
	return err == nil && owner == name
}
