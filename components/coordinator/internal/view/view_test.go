package view_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

func read(t *testing.T, entries map[string]string) *view.View {
	t.Helper()
	s := storetest.NewMemory()
	for key, value := range entries {
		if err := s.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	v, err := view.Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func specText(t *testing.T) string {
	t.Helper()
	s := group.Spec{
		Name: "pg", Platform: "phala", Replicas: 3,
		Template: group.Template{Compose: "services:\n  pg:\n    image: example.org/pg@sha256:" + strings.Repeat("a", 64) + "\n", InstanceType: "tdx.small", OSImage: "dstack-0.5.7"},
	}
	s.Normalize()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func accepted(t *testing.T, name string) string {
	t.Helper()
	return `{"group":"` + name + `","spec_index":1,"spec":` + specText(t) + `,"term":1,"at":"2026-01-01T00:00:00Z"}`
}

func TestSpecInForce(t *testing.T) {
	spec, kept := store.GroupSpecKey("pg"), store.GroupAcceptedKey("pg")
	for name, c := range map[string]struct {
		entries map[string]string
		want    bool
	}{
		"valid":                          {map[string]string{spec: specText(t)}, true},
		"invalid, never valid":           {map[string]string{spec: "{}"}, false},
		"invalid after a valid one":      {map[string]string{spec: "garbage", kept: accepted(t, "pg")}, true},
		"removed":                        {map[string]string{kept: accepted(t, "pg")}, true},
		"accepted under another name":    {map[string]string{kept: accepted(t, "web")}, false},
		"accepted that is not valid now": {map[string]string{kept: `{"group":"pg","spec_index":1,"spec":{"name":"pg"},"term":1,"at":"2026-01-01T00:00:00Z"}`}, false},
		"none":                           {nil, false},
	} {
		v := read(t, c.entries)
		got, _, ok := v.InForce("pg")
		if ok != c.want || ok && got.Replicas != 3 {
			t.Errorf("%s: in force %v, %d replicas", name, ok, got.Replicas)
		}
		if err := v.Unusable("pg"); err != nil {
			t.Errorf("%s: %v: a spec that cannot be used stops nothing", name, err)
		}
	}
}

func TestUnreadableRecordsStopTheirGroupOnly(t *testing.T) {
	for key, groups := range map[string]string{
		store.OperationKey("pg-3-0a0b0c0d.1.pg-0"):   "pg",
		store.OperationKey("anything"):               "pg web",
		store.SlotKey("pg", "pg-0"):                  "pg",
		store.SlotPolicyKey("pg-0"):                  "pg",
		store.AdmissionKey("web-0"):                  "web",
		store.RolloutKey("web-3-0a0b0c0d"):           "web",
		store.GroupStatusKey("pg"):                   "pg",
		store.RefusalKey("pg-0"):                     "",
		store.SlotStatusKey("pg", "pg-0"):            "",
		store.QueueKey("x"):                          "",
		store.OverrideKey(store.OverridePause, "pg"): "",
		"elsewhere/pg":                               "",
	} {
		v := read(t, map[string]string{key: `{"no_such_field": 1}`})
		var stopped []string
		for _, name := range []string{"pg", "web"} {
			if err := v.Unusable(name); err != nil {
				stopped = append(stopped, name)
				if !strings.Contains(err.Error(), key) {
					t.Errorf("%q does not name %s", err, key)
				}
			}
		}
		if got := strings.Join(stopped, " "); got != groups {
			t.Errorf("%s stops %q, want %q", key, got, groups)
		}
	}
}

func TestSwitchesCountByTheirKey(t *testing.T) {
	v := read(t, map[string]string{store.OverrideKey(store.OverridePause, "pg"): "", store.OverrideKey(store.OverrideFreeze, store.Everywhere): "now"})
	if _, paused := v.Overrides[store.OverridePause]["pg"]; !paused || len(v.Overrides[store.OverrideFreeze]) != 1 {
		t.Errorf("pauses %v, freeze %v", v.Overrides[store.OverridePause], v.Overrides[store.OverrideFreeze])
	}
}

func TestFailedListIsNotAnEmptyOne(t *testing.T) {
	s := storetest.NewMemory()
	s.FailReads(errors.New("no leader"))
	if v, err := view.Read(t.Context(), s); err == nil {
		t.Errorf("read %+v from a store that does not answer", v)
	}
}
