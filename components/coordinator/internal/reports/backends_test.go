package reports

import (
	"reflect"
	"testing"

	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestBackends: a workload's report is bounded, and missing values are unknown.
func TestBackends(t *testing.T) {
	got := Received{Report: &controlv1.Report{Backends: []*controlv1.BackendState{
		{Name: "a", Health: controlv1.Health_HEALTH_HEALTHY, Tags: []string{"b", "a", "b", "Not A Name", `x" or "y`, "any"}},
		{Name: "b", Health: controlv1.Health_HEALTH_UNHEALTHY, Tags: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}},
		{Name: "c"},
		{Name: "d", Health: controlv1.Health_HEALTH_UNKNOWN},
	}}}.Backends()
	want := map[string]Backend{
		"a": {rollout.Healthy, []string{"a", "any", "b"}},
		"b": {rollout.Unhealthy, []string{"a", "b", "c", "d", "e", "f", "g", "h"}},
		"c": {Health: rollout.Unknown}, "d": {Health: rollout.Unknown},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := (Received{Report: &controlv1.Report{}}).Backends(); got != nil {
		t.Errorf("%+v", got)
	}
}
