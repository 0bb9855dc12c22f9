package group

import (
	"maps"
	"strings"
	"testing"
)

func TestInstanceSettingsAreOfOneSlot(t *testing.T) {
	s := goodSpec()
	before := s.Revision()
	s.Instances = []InstanceSettings{{Ordinal: 1, Metadata: map[string]string{"tier": "own", "rack": "b"}, PreservedState: PreservedState{Disk: "data"}}}
	if got := problems(t, s); got != nil {
		t.Errorf("problems %v", got)
	}
	if s.Revision() != before {
		t.Error("settings of one slot make another revision")
	}
	for slot, want := range map[string]map[string]string{
		"postgres-0": {"tier": "db"},
		"postgres-1": {"tier": "own", "rack": "b"},
	} {
		if got := s.AgentConfig(slot, "r").Meta; !maps.Equal(got, want) {
			t.Errorf("%s is told %v, want %v", slot, got, want)
		}
	}
	if s.PreservedDisk(0) != "" || s.PreservedDisk(1) != "data" || !s.PreservesDisks() {
		t.Errorf("disks %q and %q are preserved, any: %t", s.PreservedDisk(0), s.PreservedDisk(1), s.PreservesDisks())
	}
	if got := Warnings(s); len(got) != 0 {
		t.Errorf("warnings %q", got)
	}
	s.Instances[0].Ordinal = 3
	if got := strings.Join(Warnings(s), "\n"); !strings.HasPrefix(got, `no_such_slot: instance["3"]`) {
		t.Errorf("settings of a slot that is not there: %q", got)
	}
	if s.Instance(2).Ordinal != 2 {
		t.Errorf("settings of a slot that has none: %+v", s.Instance(2))
	}
}

func TestInstanceSettingsAreJudged(t *testing.T) {
	for path, one := range map[string]InstanceSettings{
		`instance["-1"]`:                        {Ordinal: -1},
		`instance["2000"]`:                      {Ordinal: MaxReplicas},
		`instance["0"].metadata["a-b"]`:         {Metadata: map[string]string{"a-b": ""}},
		`instance["0"].metadata["db_password"]`: {Metadata: map[string]string{"db_password": "hunter2hunter2"}},
		`instance["0"].preserved_state.disk`:    {PreservedState: PreservedState{Disk: "../x"}},
	} {
		s := goodSpec()
		s.Instances = []InstanceSettings{one}
		wantProblem(t, s, path, "")
	}
	s := goodSpec()
	s.Instances = []InstanceSettings{{Ordinal: 1}, {Ordinal: 1}}
	if got := strings.Join(problems(t, s), "\n"); got != `instance["1"]: stands twice: ordinals must differ` {
		t.Errorf("two blocks for one slot: %s", got)
	}
}

// TestAPartitionKeepsASlotFromTheTarget: a partition before all, then the Slot's own settings.
func TestAPartitionKeepsASlotFromTheTarget(t *testing.T) {
	s := goodSpec()
	s.UpdatePolicy.Partition = 1
	pin := strings.Repeat("ab", revisionHexLen/2)
	s.Instances = []InstanceSettings{{Ordinal: 0, PinnedRevision: pin}, {Ordinal: 1, ExcludeFromRollout: true}, {Ordinal: 2, PinnedRevision: pin}}
	for ordinal, want := range []string{KeptByPartition, KeptByExclusion, KeptByPin, ""} {
		if got := s.KeptBy(ordinal, Exclusion{}); got != want {
			t.Errorf("slot %d is kept by %q, want %q", ordinal, got, want)
		}
	}
	for ordinal, want := range []string{KeptByPartition, KeptByExclusion, KeptByOverride, KeptByOverride} {
		if got := s.KeptBy(ordinal, Exclusion{Rollout: true}); got != want {
			t.Errorf("slot %d, which is marked, is kept by %q, want %q", ordinal, got, want)
		}
	}
	if got := s.KeptBy(3, Exclusion{Healing: true}); got != "" {
		t.Errorf("an override of healing keeps it: %q", got)
	}
}

// TestAnOverrideExcludesFromNamedActivities: the named activities, and both for an empty list or an unknown
// word.
func TestAnOverrideExcludesFromNamedActivities(t *testing.T) {
	for from, want := range map[string]string{"": "rollout healing", "rollout": "rollout", "healing": "healing", "healing rollout": "rollout healing", "rollouts": "rollout healing", "healing rollouts": "rollout healing"} {
		if got := strings.Join(ExclusionOf(strings.Fields(from)).Words(), " "); got != want {
			t.Errorf("%q: %q, want %q", from, got, want)
		}
	}
	s := goodSpec()
	s.Instances = []InstanceSettings{{Ordinal: 1, ExcludeFromHealing: true}}
	for ordinal, want := range []bool{false, true} {
		if got := s.Unhealed(ordinal, Exclusion{Rollout: true}); got != want {
			t.Errorf("slot %d by its spec: %t", ordinal, got)
		}
		if !s.Unhealed(ordinal, Exclusion{Healing: true}) {
			t.Errorf("slot %d by an override is healed", ordinal)
		}
	}
}

// TestR143_ASlotHasASizeOfItsOwn: its own size overrides the template's for the Slot alone, and is no part of the
// Revision. A Slot beyond the group's size has the template's size.
func TestR143_ASlotHasASizeOfItsOwn(t *testing.T) {
	s := goodSpec()
	before := s.Revision()
	s.Instances = []InstanceSettings{{Ordinal: 1, InstanceType: "tdx.large"}, {Ordinal: 2, InstanceType: s.Template.InstanceType}, {Ordinal: s.Replicas, InstanceType: "tdx.large"}}
	if got := problems(t, s); got != nil || s.Revision() != before {
		t.Fatalf("problems %v, or another revision", got)
	}
	for ordinal, want := range []string{"", "tdx.large", ""} {
		if got := s.OwnInstanceType(ordinal, s.Template); got != want {
			t.Errorf("slot %d has %q of its own, want %q", ordinal, got, want)
		}
	}
	if got := s.OwnInstanceType(s.Replicas, s.Template); got != "" {
		t.Errorf("a slot beyond the group has %q", got)
	}
	if got := s.OwnInstanceType(1, Template{}); got != "" {
		t.Errorf("at an unknown template: %q", got)
	}
	other := s
	other.Instances = nil
	if got := Changes(other, s)[0]; got.Path != `instance["1"]` || got.Class != ActionRestart {
		t.Errorf("the change is %s", got)
	}
	s.Instances[0].InstanceType, s.Instances[1].InstanceType = "tdx large", strings.Repeat("a", 65)
	if got := problems(t, s); len(got) != 2 {
		t.Errorf("two sizes that cannot be: %q", got)
	}
}
