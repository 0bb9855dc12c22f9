package storetest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// noted is a moment that JSON keeps exactly.
var noted = time.Date(2030, 2, 3, 4, 5, 6, 7000, time.UTC)

var typedTests = []contractTest{
	{"a record is written and read", func(s *suite) {
		want := store.Override{Reason: "db work", By: "ann", At: noted}
		op, err := store.Put(store.OverrideKey(store.OverridePause, "pg"), want, 0)
		if err != nil {
			s.Fatal(err)
		}
		s.must(op)
		got, index, err := store.Read[store.Override](s.ctx, s.Store, store.OverrideKey(store.OverridePause, "pg"))
		if err != nil || !reflect.DeepEqual(got, want) || index != s.index("control/pause/pg") {
			s.Fatalf("got %+v, %d, %v", got, index, err)
		}
		again, err := store.Put(store.OverrideKey(store.OverridePause, "pg"), store.Override{Reason: "other"}, index)
		if err != nil {
			s.Fatal(err)
		}
		s.must(again)
		s.refused(store.ErrConflict, again)
	}},

	{"one bad record does not hide the others", func(s *suite) {
		s.must(
			put("admissions/pg-0", `{"slot":"pg-0","generation":3}`),
			put("admissions/pg-1", `{"slot":"pg-1","surprise":1}`),
			put("admissions/pg-2", `{"slot":"pg-2","generation":1}`),
			put("admissions/a/b/c", `{}`),
		)
		records, index, err := store.ReadAll[policy.Admission](s.ctx, s.Store, store.AdmissionsPrefix)
		if len(records) != 2 || records[0].Key != "admissions/pg-0" || records[1].Value.Slot != "pg-2" || records[1].Index != index {
			s.Fatalf("got %+v", records)
		}
		bad := store.RecordErrors(err)
		if len(bad) != 2 || bad[0].Key != "admissions/a/b/c" || !errors.Is(bad[0], store.ErrUnknownKey) || bad[1].Key != "admissions/pg-1" {
			s.Fatalf("got %v", err)
		}
	}},

	{"records of other types below the prefix are left out", func(s *suite) {
		s.must(put("groups/pg/spec", `{"nonsense":`), put("groups/pg/status", `{"group":"pg"}`))
		records, _, err := store.ReadAll[group.Status](s.ctx, s.Store, store.GroupsPrefix)
		if err != nil || len(records) != 1 || records[0].Value.Group != "pg" {
			s.Fatalf("got %+v, %v", records, err)
		}
		raw, _, err := store.ReadRaw(s.ctx, s.Store, store.GroupSpecKey("pg"))
		if err != nil || string(raw) != `{"nonsense":` {
			s.Fatalf("got %q, %v", raw, err)
		}
	}},

	{"an oversize record is refused before it is parsed", func(s *suite) {
		s.must(put("control/freeze/_all", `{"reason":"`+strings.Repeat("x", 8<<10)+`"}`))
		if _, _, err := store.Read[store.Override](s.ctx, s.Store, store.OverrideKey(store.OverrideFreeze, store.Everywhere)); !errors.Is(err, store.ErrTooLarge) {
			s.Fatalf("got %v, want %v", err, store.ErrTooLarge)
		}
	}},

	{"commit-resolved distinguishes the outcomes", func(s *suite) {
		never := func(context.Context) (bool, error) { s.Error("read back without need"); return false, nil }
		if err := store.CommitResolved(s.ctx, s.Store, []store.Op{putCAS("a", "one", 0)}, never); err != nil {
			s.Fatal(err)
		}
		if err := store.CommitResolved(s.ctx, s.Store, []store.Op{putCAS("a", "one", 0)}, never); !errors.Is(err, store.ErrConflict) {
			s.Fatalf("got %v, want %v", err, store.ErrConflict)
		}
	}},
}
