package operation_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/operation"
)

// TestShapeShows compares by meaning: an OS image in either spelling, a larger disk than wanted, and a field that the
// platform does not report.
func TestShapeShows(t *testing.T) {
	wanted := operation.Shape{InstanceType: "tdx.small", OSImage: "dstack-0.5.7", DiskGB: 40}
	for name, c := range map[string]struct {
		seen operation.Shape
		want bool
	}{
		"the same":                 {wanted, true},
		"the image with its hash":  {operation.Shape{InstanceType: "tdx.small", OSImage: "dstack-0.5.7-0a1b2c3d", DiskGB: 40}, true},
		"another image":            {operation.Shape{InstanceType: "tdx.small", OSImage: "dstack-0.5.9-0a1b2c3d", DiskGB: 40}, false},
		"a larger disk":            {operation.Shape{InstanceType: "tdx.small", OSImage: "dstack-0.5.7", DiskGB: 80}, true},
		"a smaller disk":           {operation.Shape{InstanceType: "tdx.small", OSImage: "dstack-0.5.7", DiskGB: 20}, false},
		"another instance type":    {operation.Shape{InstanceType: "tdx.large", OSImage: "dstack-0.5.7", DiskGB: 40}, false},
		"a platform that is quiet": {operation.Shape{}, true},
	} {
		if got := c.seen.Shows(wanted); got != c.want {
			t.Errorf("%s: %+v shows %+v: %v, want %v", name, c.seen, wanted, got, c.want)
		}
	}
}

// TestClocksAreAllTimesOfTheLeader, except the times that are handled one by one. A new time needs a decision.
func TestClocksAreAllTimesOfTheLeader(t *testing.T) {
	var op operation.Operation
	clocks, found := op.Clocks(), 0
	var look func(of reflect.Value)
	look = func(of reflect.Value) {
		for f, v := range of.Fields() {
			at, is := v.Addr().Interface().(*time.Time)
			switch apart := []string{"DrainBy", "HealthyBy", "Ended", "UpdatedBefore"}; {
			case is && slices.Contains(clocks, at) == slices.Contains(apart, f.Name):
				t.Errorf("%s is in Clocks: %t", f.Name, slices.Contains(clocks, at))
			case is:
				found++
			case v.Kind() == reflect.Struct:
				look(v)
			}
		}
	}
	look(reflect.ValueOf(&op).Elem())
	if found != len(clocks)+4 {
		t.Errorf("%d times in the record, %d of them clocks", found, len(clocks))
	}
}
