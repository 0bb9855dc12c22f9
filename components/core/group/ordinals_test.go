package group

import (
	"slices"
	"strings"
	"testing"
)

func TestOrdinalsMayHaveGaps(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int
		without  []string
		want     []int
	}{
		"none":              {3, nil, []int{0, 1, 2}},
		"one in the middle": {3, []string{"postgres-1"}, []int{0, 2, 3}},
		"the first":         {2, []string{"postgres-0"}, []int{1, 2}},
		"several":           {2, []string{"postgres-3", "postgres-0", "postgres-1"}, []int{2, 4}},
		"beyond the last":   {2, []string{"postgres-7"}, []int{0, 1}},
	} {
		s := goodSpec()
		s.Replicas, s.Without = c.replicas, c.without
		if got := s.Ordinals(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for n := -1; n < 10; n++ {
			if got := s.HasOrdinal(n); got != slices.Contains(c.want, n) {
				t.Errorf("%s: has ordinal %d: %t", name, n, got)
			}
		}
		var slots []string
		for _, n := range c.want {
			slots = append(slots, SlotName(s.Name, n))
		}
		if got := s.Members(); !slices.Equal(got, slots) {
			t.Errorf("%s: members %v", name, got)
		}
	}
}

func TestR110_OrdinalsBeginAtTheFirst(t *testing.T) {
	for name, c := range map[string]struct {
		first, replicas int
		without         []string
		want            []int
	}{
		"from five":           {5, 3, nil, []int{5, 6, 7}},
		"with a gap":          {5, 3, []string{"postgres-6"}, []int{5, 7, 8}},
		"a gap below":         {5, 2, []string{"postgres-1", "postgres-4"}, []int{5, 6}},
		"the first left out":  {5, 2, []string{"postgres-5"}, []int{6, 7}},
		"one, at the far end": {MaxReplicas - 1, 1, nil, []int{MaxReplicas - 1}},
		"below zero":          {-3, 2, nil, []int{0, 1}}, // refused, and not made use of
	} {
		s := goodSpec()
		s.FirstOrdinal, s.Replicas, s.Without = c.first, c.replicas, c.without
		if got := s.Ordinals(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for _, n := range []int{-1, 0, 1, 4, 5, 6, 7, 8, 9, MaxReplicas - 1, MaxReplicas} {
			if got := s.HasOrdinal(n); got != slices.Contains(c.want, n) {
				t.Errorf("%s: has ordinal %d: %t", name, n, got)
			}
		}
	}
}

func TestR110_TheFirstOrdinalLeavesRoom(t *testing.T) {
	s := goodSpec()
	s.Workload, s.FirstOrdinal, s.Replicas = Workload{}, 1995, 3
	s.UpdatePolicy.MaxSurgeFixed, s.Without = ptr(1), []string{"postgres-1996"}
	s.UpdatePolicy.Partition = 1999
	if got := problems(t, s); got != nil {
		t.Errorf("ordinals that just fit: %v", got)
	}
	s.UpdatePolicy.Partition = 1995
	wantProblem(t, s, "update_policy.partition", "R94")
	s.UpdatePolicy.Partition, s.UpdatePolicy.MaxSurgeFixed = 0, ptr(2)
	wantProblem(t, s, "first_ordinal", "R110")
	for _, n := range []int{-1, MaxReplicas} {
		s.FirstOrdinal = n
		wantProblem(t, s, "first_ordinal", "R110")
	}
}

func TestR110_TheFirstOrdinalIsNoPartOfTheRevision(t *testing.T) {
	s := goodSpec()
	before := s.Revision()
	if s.FirstOrdinal = 5; s.Revision() != before {
		t.Error("another first ordinal is another revision")
	}
}

func TestWithoutIsValidated(t *testing.T) {
	for _, c := range []struct {
		want    string
		without []string
	}{
		{`without[0]: "1" is not a slot name`, []string{"1"}},
		{`without[0]: "web-1" is no slot of group postgres`, []string{"web-1"}},
		{`without[1]: "postgres-1" stands twice: keep one`, []string{"postgres-1", "postgres-1"}},
		{`without[0]: slot name "postgres-01": "01" is not an ordinal from 0`, []string{"postgres-01"}},
	} {
		s := goodSpec()
		s.Without = c.without
		if got := strings.Join(problems(t, s), "\n"); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %s", c.without, got)
		}
	}
	s := goodSpec()
	s.Workload.Kind = WorkloadNone
	s.Replicas, s.Without = MaxReplicas, []string{"postgres-1"}
	if got := strings.Join(problems(t, s), "\n"); !strings.Contains(got, "without: 2000 slots and 1 that are left out are 2001, at most 2000") {
		t.Errorf("more ordinals than there are: %s", got)
	}
}

// A Slot's settings and the partition go by ordinals, so they reach past the gaps.
func TestOrdinalsBeyondReplicasCount(t *testing.T) {
	s := goodSpec()
	s.Replicas, s.Without = 3, []string{"postgres-0"}
	s.UpdatePolicy.Partition, s.Instances = 4, []InstanceSettings{{Ordinal: 3, Metadata: map[string]string{"a": "b"}}}
	if got := problems(t, s); got != nil {
		t.Errorf("problems %v", got)
	}
	if got := Warnings(s); len(got) != 0 {
		t.Errorf("warnings %q", got)
	}
	s.UpdatePolicy.Partition = 5
	wantProblem(t, s, "update_policy.partition", "R94")
	s.UpdatePolicy.Partition, s.Instances[0].Ordinal = 0, 0
	if got := strings.Join(Warnings(s), "\n"); !strings.HasPrefix(got, `no_such_slot: instance["0"]`) {
		t.Errorf("settings of a slot that is left out: %q", got)
	}
}

func TestAPinIsJudged(t *testing.T) {
	s := goodSpec()
	s.Instances = []InstanceSettings{{Ordinal: 1, PinnedRevision: s.Revision()}}
	if got := problems(t, s); got != nil {
		t.Errorf("problems %v", got)
	}
	s.Instances[0].PinnedRevision = s.Revision()[:8]
	wantProblem(t, s, `instance["1"].pinned_revision`, "")
	s.Instances[0].PinnedRevision, s.Instances[0].ExcludeFromRollout = s.Revision(), true
	wantProblem(t, s, `instance["1"].pinned_revision`, "")
}
