package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

func TestINP03_ReadIsStrict(t *testing.T) {
	for name, test := range map[string]struct {
		value string
		want  string
	}{
		"unknown field":    {`{"reason":"x","extra":1}`, "extra"},
		"trailing object":  {`{"reason":"x"} {}`, "after"},
		"trailing text":    {`{"reason":"x"}x`, "after"},
		"wrong type":       {`{"reason":7}`, "reason"},
		"array":            {`[]`, "object"},
		"null":             {`null`, "object"},
		"empty":            {``, "object"},
		"truncated":        {`{"reason":"x"`, "EOF"},
		"time as a number": {`{"at":5}`, "Time"},
	} {
		t.Run(name, func(t *testing.T) {
			m := storetest.NewMemory()
			commit(t, m, store.Op{Kind: store.OpPut, Key: store.OverrideKey(store.OverrideFreeze, store.Everywhere), Value: []byte(test.value)})
			_, index, err := store.Read[store.Override](t.Context(), m, store.OverrideKey(store.OverrideFreeze, store.Everywhere))
			bad := store.RecordErrors(err)
			if len(bad) != 1 || bad[0].Key != store.OverrideKey(store.OverrideFreeze, store.Everywhere) || index == 0 || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got index %d, %v; want the key and %q in the error", index, err, test.want)
			}
		})
	}
}

func TestReadAcceptsSpaceAround(t *testing.T) {
	m := storetest.NewMemory()
	commit(t, m, store.Op{Kind: store.OpPut, Key: store.OverrideKey(store.OverrideFreeze, store.Everywhere), Value: []byte("\n {\"reason\":\"x\"}\n")})
	if got, _, err := store.Read[store.Override](t.Context(), m, store.OverrideKey(store.OverrideFreeze, store.Everywhere)); err != nil || got.Reason != "x" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestTypeMustFitTheKey(t *testing.T) {
	m := storetest.NewMemory()
	if _, _, err := store.Read[store.QueueRequest](t.Context(), m, store.OverrideKey(store.OverridePause, "pg")); !errors.Is(err, store.ErrBadKey) {
		t.Errorf("read: got %v, want %v", err, store.ErrBadKey)
	}
	if _, err := store.Put(store.AdmissionKey("pg-0"), policy.SlotPolicy{}, 0); !errors.Is(err, store.ErrBadKey) {
		t.Errorf("put: got %v, want %v", err, store.ErrBadKey)
	}
	if _, err := store.Put("groups/pg/typo", store.Override{}, 0); !errors.Is(err, store.ErrUnknownKey) {
		t.Errorf("put: got %v, want %v", err, store.ErrUnknownKey)
	}
}

func TestPutRefusesOversizeRecords(t *testing.T) {
	for _, kind := range store.Records {
		if kind.MaxBytes <= 0 || (kind.MaxBytes+2)/3*4+1024 > store.MaxTxnBytes {
			t.Errorf("%s: %d bytes do not fit into a transaction", kind.Pattern, kind.MaxBytes)
		}
	}
	together := []store.Op{
		{Kind: store.OpPut, Key: store.RevisionKey("d"), Value: make([]byte, bound(t, store.RevisionKey("d")))},
		{Kind: store.OpPut, Key: store.GroupStatusKey("pg"), Value: make([]byte, bound(t, store.GroupStatusKey("pg")))},
	}
	if err := store.ValidateOps(together); err != nil {
		t.Errorf("a Revision and a status do not fit into one transaction: %v", err)
	}
	_, err := store.Put(store.OverrideKey(store.OverrideFreeze, store.Everywhere), store.Override{Reason: strings.Repeat("x", 5000)}, 0)
	if !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("put: got %v, want %v", err, store.ErrTooLarge)
	}
	if _, err := store.PutRaw(store.GroupSpecKey("pg"), make([]byte, 300<<10), 0); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("put raw: got %v, want %v", err, store.ErrTooLarge)
	}
}

func TestRecordErrorsLooksThroughWrapping(t *testing.T) {
	one := &store.RecordError{Key: "a", Err: errors.New("x")}
	err := fmt.Errorf("observe: %w", errors.Join(one, errors.New("other"), fmt.Errorf("more: %w", one)))
	if got := store.RecordErrors(err); len(got) != 2 || got[0] != one {
		t.Fatalf("got %v", got)
	}
	if got := store.RecordErrors(errors.New("no leader")); got != nil {
		t.Fatalf("got %v", got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"slot":"pg-0","allowed":[{"revision":"r"}]}`))
	f.Add([]byte(`{"slot":"pg-0","Slot":"pg-1"}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) > 100<<10 {
			return
		}
		m := storetest.NewMemory()
		commit(t, m, store.Op{Kind: store.OpPut, Key: store.SlotPolicyKey("pg-0"), Value: value})
		got, _, err := store.Read[policy.SlotPolicy](t.Context(), m, store.SlotPolicyKey("pg-0"))
		if err != nil {
			return
		}
		if _, err := store.Put(store.SlotPolicyKey("pg-0"), got, 1); err != nil && !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

func bound(t *testing.T, key string) int {
	t.Helper()
	kind, err := store.KindOf(key)
	if err != nil {
		t.Fatal(err)
	}
	return kind.MaxBytes
}

func commit(t *testing.T, s store.Store, ops ...store.Op) {
	t.Helper()
	if err := s.Commit(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
}
