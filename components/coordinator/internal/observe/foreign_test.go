package observe_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/platform"
)

// TestACVMOfAnotherClusterTellsNothing of the app that a group is made in, and is not taken for what a call made.
func TestACVMOfAnotherClusterTellsNothing(t *testing.T) {
	spec := group.Spec{Name: "b-c", Replicas: 2}
	listing := observe.Listing{At: time.Unix(1e9, 0), Instances: []platform.Instance{
		{Name: "a-b-c-0", VMUUID: "theirs", AppID: "app-of-a-b"}, {Name: "a-b-c-9", VMUUID: "also", AppID: "app-of-a-b"},
	}}
	for name, c := range map[string]struct {
		record    group.SlotRecord
		policy    policy.SlotPolicy
		app       string
		want      string // the CVM that is seen in the Slot
		wantApp   string
		wantWords bool // the orphan is told with its app
	}{
		"nothing is known":             {want: "theirs"},
		"a call is made in an app":     {policy: policy.SlotPolicy{AppID: "own"}},
		"the call made this one":       {policy: policy.SlotPolicy{AppID: "app-of-a-b"}, want: "theirs", wantApp: "app-of-a-b"},
		"the spec names the app":       {app: "own", want: "theirs", wantApp: "app-of-a-b", wantWords: true},
		"it is bound":                  {record: group.SlotRecord{VMUUID: "theirs", AppID: "app-of-a-b"}, want: "theirs", wantApp: "app-of-a-b"},
		"another one is bound":         {record: group.SlotRecord{VMUUID: "gone", AppID: "own"}, want: "theirs", wantApp: "app-of-a-b", wantWords: true},
		"it is bound before its app":   {record: group.SlotRecord{VMUUID: "theirs"}, want: "theirs", wantApp: "app-of-a-b"},
		"the spec names theirs as own": {app: "app-of-a-b", want: "theirs", wantApp: "app-of-a-b"},
	} {
		c.record.Group, c.record.Slot, c.record.PlatformName = "b-c", "b-c-0", "a-b-c-0"
		v := &view.View{Slots: map[string]view.Rec[group.SlotRecord]{"b-c-0": {Value: c.record, Index: 1}}, Policies: map[string]view.Rec[policy.SlotPolicy]{}}
		if c.policy.AppID != "" {
			v.Policies["b-c-0"] = view.Rec[policy.SlotPolicy]{Value: c.policy, Index: 1}
		}
		spec.AppID = c.app
		seen := observe.Group(v, spec, "a", listing, noReports{}).Now
		got, gotApp := "", ""
		if i := seen.Slots[0].Instance; i != nil {
			got, gotApp = i.VMUUID, i.AppID
		}
		if got != c.want || gotApp != c.wantApp || len(seen.Slots[0].Duplicates) != 0 {
			t.Errorf("%s: CVM %q of app %q, want %q of %q", name, got, gotApp, c.want, c.wantApp)
		}
		told := slices.ContainsFunc(seen.Orphans, func(o string) bool { return strings.Contains(o, "of app app-of-a-b") })
		if len(seen.Orphans) != 1 || told != c.wantWords {
			t.Errorf("%s: orphans %v", name, seen.Orphans)
		}
	}
}
