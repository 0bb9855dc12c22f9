package group

import (
	"fmt"
	"slices"

	"cadre.dev/core/slotname"
)

// SlotName is the stable name of one Slot of a group, e.g. "postgres-0".
func SlotName(group string, ordinal int) string { return slotname.Of(group, ordinal) }

// ParseSlot splits a Slot's name into group and ordinal: slotname.Parse.
func ParseSlot(slot string) (group string, ordinal int, err error) { return slotname.Parse(slot) }

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
