package view

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// TestCachedRecordsEqualFreshReads: cached and fresh reads agree after any change of a record.
func TestCachedRecordsEqualFreshReads(t *testing.T) {
	s, known := storetest.NewMemory(), &memo{}
	spec := func(replicas int) string {
		made := group.Spec{Name: "pg", Platform: "phala", Replicas: replicas, Template: group.Template{
			Compose: "services:\n  pg:\n    image: example.org/pg@sha256:" + strings.Repeat("a", 64) + "\n", InstanceType: "tdx.small", OSImage: "dstack-0.5.7",
		}}
		raw, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	admission := store.AdmissionKey("pg-0")
	for n, change := range []store.Op{
		{Kind: store.OpPut, Key: store.GroupSpecKey("pg"), Value: []byte(spec(3))},
		{Kind: store.OpPut, Key: store.GroupAcceptedKey("pg"), Value: []byte(`{"group":"pg","spec_index":1,"spec":` + spec(3) + `,"term":1,"at":"2026-01-01T00:00:00Z"}`)},
		{Kind: store.OpPut, Key: admission, Value: []byte(`{"slot":"pg-0","boot_id":"one","token_accessors":["a"]}`)},
		{Kind: store.OpPut, Key: store.OverrideKey(store.OverrideFreeze, store.Everywhere), Value: []byte(`{}`)},
		{Kind: store.OpPut, Key: admission, Value: []byte(`{"slot":"pg-0","boot_id":"two"}`)},
		{Kind: store.OpPut, Key: admission, Value: []byte(`{"slot":"pg-1","boot_id":"two"}`)},
		{Kind: store.OpPut, Key: admission, Value: []byte(`{"slot":"pg-0","boot":"three"}`)},
		{Kind: store.OpPut, Key: store.GroupSpecKey("pg"), Value: []byte(spec(5))},
		{Kind: store.OpPut, Key: store.GroupSpecKey("pg"), Value: []byte(`{"name":"pg"}`)},
		{Kind: store.OpPut, Key: store.GroupAcceptedKey("pg"), Value: []byte(`{"group":"pg","spec_index":1,"spec":{"name":"pg"},"term":1,"at":"2026-01-01T00:00:00Z"}`)},
		{Kind: store.OpDelete, Key: store.GroupSpecKey("pg")},
		{Kind: store.OpPut, Key: admission, Value: []byte(`{"slot":"pg-0","boot_id":"one"}`)},
		{Kind: store.OpDelete, Key: admission},
	} {
		if err := s.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err1 := read(t.Context(), s, known)
			want, err2 := Read(t.Context(), s)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("after change %d:\n%+v\nwant\n%+v", n, got, want)
			}
		}
	}
	if len(known.next) != 2 {
		t.Errorf("%d records are remembered, want the two that are left", len(known.next))
	}
}

// TestRecordsThatDidNotChangeAreNotReadAgain: an unchanged record is not decoded again after
// another record changed.
func TestRecordsThatDidNotChangeAreNotReadAgain(t *testing.T) {
	s, known := storetest.NewMemory(), &memo{}
	write := func(slot, boot string) {
		t.Helper()
		op := store.Op{Kind: store.OpPut, Key: store.AdmissionKey(slot), Value: []byte(`{"slot":"` + slot + `","boot_id":"` + boot + `","token_accessors":["a"]}`)}
		if err := s.Commit(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	accessors := func() map[string]*string {
		v, err := read(t.Context(), s, known)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]*string{}
		for slot, a := range v.Admissions {
			out[slot] = unsafe.SliceData(a.Value.TokenAccessors)
		}
		return out
	}
	write("pg-0", "one")
	write("pg-1", "one")
	before := accessors()
	write("pg-1", "two")
	after := accessors()
	if after["pg-0"] != before["pg-0"] || after["pg-1"] == before["pg-1"] {
		t.Errorf("before %v, after %v", before, after)
	}
	if value, ok := recall[policy.Refusal](known, store.Entry{Key: store.AdmissionKey("pg-0")}); ok {
		t.Errorf("an admission was taken for %+v", value)
	}
}
