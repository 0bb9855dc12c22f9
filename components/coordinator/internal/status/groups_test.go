package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// records has two groups: pg has every possible metric, and web has none yet.
func records() *view.View {
	instance := func(slot string, state group.SlotState, holds ...string) group.InstanceStatus {
		i := group.InstanceStatus{Group: "pg", Slot: slot, State: state}
		for _, h := range holds {
			i.Holds = append(i.Holds, group.Hold{Predicate: h})
		}
		return i
	}
	op := func(id, slot string, phase operation.Phase, began time.Time) view.Rec[operation.Operation] {
		return view.Rec[operation.Operation]{Value: operation.Operation{ID: id, Group: "pg", Slot: slot, Kind: operation.Restart, Phase: phase, Times: operation.Times{Created: began}}}
	}
	return &view.View{
		Specs: map[string]view.Spec{"pg": {}, "web": {}},
		Statuses: map[string]view.Rec[group.Status]{
			"pg": {Value: group.Status{
				Group: "pg", Replicas: 3, Available: 1, Updated: 2, RolloutState: string(operation.PausedState), Paused: true,
				// A handwritten record may name a condition twice.
				Conditions: []group.Condition{{Type: "Available"}, {Type: "Quarantined", Status: true}, {Type: "Available"}},
				Instances: []group.InstanceStatus{
					instance("pg-0", group.SlotAvailable, "paused", "quorum", "quorum"), instance("pg-1", group.SlotRestarting), instance("pg-2", group.SlotQuarantined, "paused"),
				},
			}},
			"gone": {Value: group.Status{Group: "gone", Replicas: 1}},
		},
		Slots: map[string]view.Rec[group.SlotRecord]{
			"pg-0": {Value: group.SlotRecord{Group: "pg", Slot: "pg-0", Node: "a"}}, "pg-1": {Value: group.SlotRecord{Group: "pg", Slot: "pg-1", Node: "a"}},
			"pg-2": {Value: group.SlotRecord{Group: "pg", Slot: "pg-2"}},
		},
		Operations: map[string]view.Rec[operation.Operation]{
			"a": op("a", "pg-1", operation.Booting, at.Add(time.Minute)), "b": op("b", "pg-2", operation.Booting, at),
			"c": op("c", "pg-0", operation.Done, at.Add(-time.Hour)),
		},
	}
}

// figures are the values of all metrics with this label group; of a histogram, the count.
func figures(t *testing.T, m *Metrics, name string) map[string]float64 {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			of := false
			for _, l := range metric.GetLabel() {
				if l.GetName() == "group" {
					of = l.GetValue() == name
				} else {
					labels = append(labels, l.GetValue())
				}
			}
			if of {
				key := strings.Join(append([]string{family.GetName()}, labels...), " ")
				out[key] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}

// gauges are the metrics of a group except its counters.
func gauges(t *testing.T, m *Metrics, name string) []string {
	t.Helper()
	var out []string
	for key, value := range figures(t, m, name) {
		if !strings.Contains(key, "_total") && !strings.Contains(key, "healed_outage") {
			out = append(out, fmt.Sprintf("%s %v", strings.TrimPrefix(key, "cadre_group_"), value))
		}
	}
	slices.Sort(out)
	return out
}

// TestOnlyTheLeaderServesGauges: only the leader serves the groups' gauges, from their current
// records.
func TestOnlyTheLeaderServesGauges(t *testing.T) {
	m, v := NewMetrics(), records()
	m.Groups(func() *view.View { return v })
	if got := gauges(t, m, "pg"); got != nil {
		t.Errorf("a coordinator that never led serves %q", got)
	}
	m.Leads(true, 1)
	want := []string{
		"condition Available 0", "condition Quarantined 1", "holds paused 2", "holds quorum 1",
		fmt.Sprintf("oldest_operation_timestamp_seconds RESTART %v", float64(at.Unix())), "operations_open RESTART BOOTING 2", "paused 1",
		"rollout_state BAKING 0", "rollout_state COMPLETE 0", "rollout_state FAILED 0", "rollout_state PARTITION_REACHED 0", "rollout_state PAUSED 1", "rollout_state ROLLED_BACK 0", "rollout_state ROLLING_BACK 0", "rollout_state RUNNING 0", "rollout_state SUPERSEDED 0",
		"slots Available 1", "slots Quarantined 1", "slots Restarting 1", "slots_available 1", "slots_on_node a 2", "slots_updated 2", "slots_wanted 3",
	}
	if got := gauges(t, m, "pg"); !slices.Equal(got, want) {
		t.Errorf("the leader serves\n%q, want\n%q", got, want)
	}
	for _, name := range []string{"web", "gone"} {
		if got := gauges(t, m, name); got != nil {
			t.Errorf("a group without a status, or without a spec, has %q", got)
		}
	}
	v = nil
	if got := gauges(t, m, "pg"); got != nil {
		t.Errorf("without records there is %q", got)
	}
	v = records()
	m.Leads(false, 1)
	if got := gauges(t, m, "pg"); got != nil {
		t.Errorf("a former leader serves %q", got)
	}
}

// TestTransitionsAreCounted: each transition is counted, and no count is lost with the Lease.
func TestTransitionsAreCounted(t *testing.T) {
	joins := func(set ...string) *group.Membership { return &group.Membership{Joins: true, Set: set} }
	away := group.SlotRecord{Group: "pg", Slot: "pg-1", UnavailableSince: at, Heals: &group.Heals{Attempts: 1, LastAt: at.Add(time.Minute)}}
	back := group.SlotRecord{Group: "pg", Slot: "pg-1", AvailableSince: at.Add(3 * time.Minute), Heals: away.Heals}
	with := func(r group.SlotRecord, change func(*group.SlotRecord)) group.SlotRecord { change(&r); return r }
	member := func(m *group.Membership) group.SlotRecord {
		return group.SlotRecord{Group: "pg", Slot: "pg-1", Membership: m}
	}
	state := func(s group.SlotState) group.InstanceStatus {
		return group.InstanceStatus{Group: "pg", Slot: "pg-1", State: s}
	}
	heal := operation.Operation{Group: "pg", Kind: operation.Restart, Actor: operation.ActorHealing, Phase: operation.Done}
	for name, c := range map[string]struct {
		tell func(m *Metrics)
		want []string
	}{
		"an attempt to heal": {func(m *Metrics) { m.Began(heal) }, []string{"heal_attempts_total RESTART"}},
		"a rollout's step":   {func(m *Metrics) { m.Began(operation.Operation{Group: "pg", Kind: operation.Update}) }, nil},
		"a heal that ended":  {func(m *Metrics) { m.Ended(heal) }, []string{"operations_total RESTART healing DONE"}},
		"a step that failed": {func(m *Metrics) {
			m.Ended(operation.Operation{Group: "pg", Kind: operation.Update, Phase: operation.Failed})
		}, []string{"operations_total UPDATE rollout FAILED"}},
		"unknown words": {func(m *Metrics) {
			m.Ended(operation.Operation{Group: "pg", Kind: "EAT", Actor: "me", Phase: operation.Done})
		}, []string{"operations_total other other DONE"}},
		"a member that left": {func(m *Metrics) {
			m.Ended(operation.Operation{Group: "pg", Kind: operation.Delete, Actor: operation.ActorScaling, Set: operation.Set{Leaves: true}, Phase: operation.Done})
		}, []string{"operations_total DELETE scaling DONE", "set_changes_total remove"}},
		"a write with a lost answer": {func(m *Metrics) {
			m.Ended(operation.Operation{Group: "pg", Kind: operation.Delete, Actor: operation.ActorScaling, Set: operation.Set{Leaves: true}, Phase: operation.Failed})
		}, []string{"operations_total DELETE scaling FAILED"}},
		"listed":       {func(m *Metrics) { m.SlotWritten(member(joins()), member(joins("pg-0", "pg-1"))) }, []string{"set_changes_total add"}},
		"listed still": {func(m *Metrics) { m.SlotWritten(member(joins("pg-0", "pg-1")), member(joins("pg-0", "pg-1"))) }, nil},
		"has its vote": {func(m *Metrics) { m.SlotWritten(member(joins("pg-0", "pg-1")), member(nil)) }, []string{"set_changes_total promote"}},
		"has it, and leads": {func(m *Metrics) {
			m.SlotWritten(member(joins("pg-0", "pg-1")), member(&group.Membership{Change: &group.SetChange{}}))
		}, []string{"set_changes_total promote"}},
		"founded the set":        {func(m *Metrics) { m.SlotWritten(member(&group.Membership{Founders: []string{"pg-1"}}), member(nil)) }, nil},
		"healed":                 {func(m *Metrics) { m.SlotWritten(away, back) }, []string{"healed_outage_seconds"}},
		"away still":             {func(m *Metrics) { m.SlotWritten(away, away) }, nil},
		"back without an action": {func(m *Metrics) { m.SlotWritten(with(away, func(r *group.SlotRecord) { r.Heals = nil }), back) }, nil},
		"healed the last time": {func(m *Metrics) {
			m.SlotWritten(with(away, func(r *group.SlotRecord) { r.Heals = &group.Heals{LastAt: at.Add(-time.Hour)} }), back)
		}, nil},
		"given up":       {func(m *Metrics) { m.StateWritten(state(group.SlotUnavailable), state(group.SlotQuarantined)) }, []string{"quarantines_total"}},
		"given up still": {func(m *Metrics) { m.StateWritten(state(group.SlotQuarantined), state(group.SlotQuarantined)) }, nil},
		"no more":        {func(m *Metrics) { m.StateWritten(state(group.SlotQuarantined), state(group.SlotAvailable)) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, v := NewMetrics(), records()
			m.Groups(func() *view.View { return v })
			m.Leads(true, 1)
			c.tell(m)
			m.Leads(false, 1)
			var got []string
			for key, value := range figures(t, m, "pg") {
				if value != 0 {
					got = append(got, strings.TrimPrefix(key, "cadre_group_"))
				}
			}
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("counted %q, want %q", got, c.want)
			}
		})
	}
}

// TestCountersBeginAtNothing: counters start at 0, so that the first event is an increase, and are
// removed with their group. The counts of a group that the records do not have yet stay.
func TestCountersBeginAtNothing(t *testing.T) {
	m, v := NewMetrics(), records()
	m.Groups(func() *view.View { return v })
	for name := range v.Specs {
		got := figures(t, m, name)
		for _, want := range []string{"heal_attempts_total RESTART", "heal_attempts_total REPLACE", "operations_total REPLACE healing DONE", "quarantines_total", "healed_outage_seconds", "set_changes_total remove"} {
			if value, reported := got["cadre_group_"+want]; !reported || value != 0 {
				t.Errorf("%s: %s is %v, %t", name, want, value, reported)
			}
		}
	}
	m.Pass("pg", "done", 1)
	m.Ended(operation.Operation{Group: "pg", Kind: operation.Delete, Phase: operation.Done})
	m.Groups(func() *view.View {
		if _, known := v.Specs["new"]; known {
			return v
		}
		m.Ended(operation.Operation{Group: "new", Kind: operation.Create, Phase: operation.Done})
		before := *v
		before.Specs = maps.Clone(v.Specs)
		v.Specs["new"] = view.Spec{} // the next scrape sees it
		return &before
	})
	delete(v.Specs, "pg")
	if got := figures(t, m, "pg"); len(got) != 0 {
		t.Errorf("of a group that is gone there is %q", slices.Sorted(maps.Keys(got)))
	}
	if got := figures(t, m, "new"); got["cadre_group_operations_total CREATE rollout DONE"] != 1 {
		t.Errorf("of a new group there is %v", got)
	}
}

func TestNamesAndHelpAreAsPrometheusHasThem(t *testing.T) {
	m := NewMetrics()
	m.Groups(records)
	m.Leads(true, 1)
	m.Pass("pg", "done", 1)
	m.Call("restart", "done")
	m.Refused("QUOTE_INVALID")
	m.Ended(operation.Operation{Group: "pg", Kind: operation.Restart, Phase: operation.Done})
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
