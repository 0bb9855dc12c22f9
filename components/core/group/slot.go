package group

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SlotName is the stable name of one Slot of a group, e.g. "postgres-0".
func SlotName(group string, ordinal int) string { return group + "-" + strconv.Itoa(ordinal) }

// ParseSlot splits a Slot's name into group and ordinal. Only the canonical form
// is read: a decimal ordinal below MaxReplicas without sign or leading zeros.
func ParseSlot(slot string) (group string, ordinal int, err error) {
	i := strings.LastIndexByte(slot, '-')
	if i < 1 {
		return "", 0, fmt.Errorf("%q is not a slot name: expected <group>-<ordinal>, e.g. \"postgres-0\"", slot)
	}
	group = slot[:i]
	ordinal, err = strconv.Atoi(slot[i+1:])
	if err != nil || ordinal < 0 || ordinal >= MaxReplicas || strconv.Itoa(ordinal) != slot[i+1:] {
		return "", 0, fmt.Errorf("slot name %q: %q is not an ordinal from 0 to %d", slot, slot[i+1:], MaxReplicas-1)
	}
	if problem := nameProblem(group); problem != "" {
		return "", 0, fmt.Errorf("slot name %q: group name %s", slot, problem)
	}
	return group, ordinal, nil
}

// Members are the names of all Slots of the group in ordinal order.
func (s Spec) Members() []string {
	ordinals := s.Ordinals()
	out := make([]string, 0, len(ordinals))
	for _, i := range ordinals {
		out = append(out, SlotName(s.Name, i))
	}
	return out
}

// AgentConfig returns the parts of the spec that the agent of one Slot needs.
func (s Spec) AgentConfig(slot, revision string) AgentConfig {
	meta := s.Meta
	if _, ordinal, err := ParseSlot(slot); err == nil {
		meta = s.MetaOf(ordinal)
	}
	return AgentConfig{
		Group:          s.Name,
		Slot:           slot,
		Workload:       s.Workload,
		LifecycleHooks: s.LifecycleHooks,
		HealthChecks:   s.HealthChecks,
		Meta:           meta,
		Members:        s.Members(),
		Revision:       revision,
	}
}

// Understood refuses a configuration that needs a newer agent.
func (c AgentConfig) Understood() error {
	unknown := slices.DeleteFunc(slices.Clone(c.MustUnderstand), func(name string) bool { return name == NeedMembership })
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("must_understand: this agent does not know %q: it is older than the coordinators; roll out its newer image", unknown)
}
