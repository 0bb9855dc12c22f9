package view_test

import (
	"errors"
	"slices"
	"testing"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

const statusOfPG = `{"group":"pg","observed_index":1,"generation":1,"replicas":2,"available":1,"updated":1,"unavailable":1,"transfers":0,"term":1,"at":"2026-01-01T00:00:00Z"`

// TestStatesOfSlotsAreJoined: the states are joined by ordinal, for every order of the keys. States
// that an older version wrote into the status count while there are no records of Slots.
func TestStatesOfSlotsAreJoined(t *testing.T) {
	state := func(slot, ordinal string) string {
		return `{"group":"pg","slot":"` + slot + `","ordinal":` + ordinal + `,"state":"Available","health":"healthy"}`
	}
	old := statusOfPG + `,"instances":[` + state("pg-7", "7") + `]}`
	for name, c := range map[string]struct {
		records map[string]string
		want    []string
	}{
		"an older version's": {map[string]string{store.GroupStatusKey("pg"): old}, []string{"pg-7"}},
		"both":               {map[string]string{store.GroupStatusKey("pg"): old, store.SlotStatusKey("pg", "pg-0"): state("pg-0", "0")}, []string{"pg-0"}},
		"ten before two":     {map[string]string{store.GroupStatusKey("pg"): statusOfPG + "}", store.SlotStatusKey("pg", "pg-10"): state("pg-10", "10"), store.SlotStatusKey("pg", "pg-2"): state("pg-2", "2")}, []string{"pg-2", "pg-10"}},
		"a garbage record":   {map[string]string{store.GroupStatusKey("pg"): statusOfPG + "}", store.SlotStatusKey("pg", "pg-0"): "garbage", store.SlotStatusKey("pg", "pg-1"): state("pg-1", "1")}, []string{"pg-1"}},
		"another group's":    {map[string]string{store.GroupStatusKey("pg"): statusOfPG + "}", store.SlotStatusKey("web", "web-0"): state("web-0", "0")}, nil},
	} {
		s := storetest.NewMemory()
		for key, value := range c.records {
			if err := s.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
		}
		alone, err := view.ReadStatus(t.Context(), s, "pg")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v, err := view.Read(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for way, joined := range map[string][]group.InstanceStatus{"alone": alone.Instances, "in a view": v.Statuses["pg"].Value.Instances} {
			var got []string
			for _, i := range joined {
				got = append(got, i.Slot)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: %v, want %v", name, way, got, c.want)
			}
		}
	}
	if _, err := view.ReadStatus(t.Context(), storetest.NewMemory(), "pg"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a status that is not there: %v", err)
	}
}
