// Package slotname has the grammar of names: those of groups, and those of their Slots.
package slotname

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// MaxBytes is the strictest bound of all places where a name is used.
	MaxBytes = 40
	// MaxOrdinals bounds the ordinals of a group: they stay below it.
	MaxOrdinals = 2000
)

// Of is the stable name of one Slot of a group, e.g. "postgres-0".
func Of(group string, ordinal int) string { return group + "-" + strconv.Itoa(ordinal) }

// Parse splits a Slot's name into group and ordinal. Only the canonical form
// is read: a decimal ordinal below MaxOrdinals without sign or leading zeros.
func Parse(slot string) (group string, ordinal int, err error) {
	i := strings.LastIndexByte(slot, '-')
	if i < 1 {
		return "", 0, fmt.Errorf("%q is not a slot name: expected <group>-<ordinal>, e.g. \"postgres-0\"", slot)
	}
	group = slot[:i]
	ordinal, err = strconv.Atoi(slot[i+1:])
	if err != nil || ordinal < 0 || ordinal >= MaxOrdinals || strconv.Itoa(ordinal) != slot[i+1:] {
		return "", 0, fmt.Errorf("slot name %q: %q is not an ordinal from 0 to %d", slot, slot[i+1:], MaxOrdinals-1)
	}
	if problem := Problem(group); problem != "" {
		return "", 0, fmt.Errorf("slot name %q: group name %s", slot, problem)
	}
	return group, ordinal, nil
}

// Problem is the one grammar of names (threat row IDN-02): lower-case
// letters, digits and single '-', from a letter to a letter or digit. It is
// empty when name is fine.
func Problem(name string) string {
	switch {
	case name == "":
		return "is missing"
	case len(name) > MaxBytes:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), MaxBytes)
	case name[0] < 'a' || name[0] > 'z':
		return "must start with a lower-case letter"
	case name[len(name)-1] == '-':
		return "must not end with '-'"
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c == '-' && name[i-1] != '-':
		case c == '-':
			return "must not contain '--'"
		default:
			return fmt.Sprintf("contains %q: only lower-case letters, digits and '-' are allowed", c)
		}
	}
	return ""
}
