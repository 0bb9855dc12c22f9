package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/audit"
	"cadre.dev/core/backup"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

const id = "0123456789abcdef0123456789abcdef"

var (
	demo = Cluster{Name: "demo", ID: id, Key: bytes.Repeat([]byte{7}, backup.KeySize)}
	now  = time.Unix(1700000000, 0).UTC()
)

func put[T any](t *testing.T, s store.Store, key string, value T) {
	t.Helper()
	op, err := store.Put(key, value, 0)
	if err == nil {
		err = s.Commit(t.Context(), op)
	}
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
}

// fill writes the records of a cluster in use, with n slots.
func fill(t *testing.T, s store.Store, n int) {
	t.Helper()
	put(t, s, store.ClusterIDKey, store.ClusterIDRecord{ClusterID: id, At: now, By: "coordinator-0"})
	for i := range n {
		slot := fmt.Sprintf("pg-%d", i)
		put(t, s, store.SlotKey("pg", slot), group.SlotRecord{Group: "pg", Slot: slot})
		put(t, s, store.AdmissionKey(slot), policy.Admission{Slot: slot, BootID: "b"})
	}
	put(t, s, store.SecretKey("pg", "password"), store.SecretRecord{})
	put(t, s, store.QueueKey("r1"), store.QueueRequest{ID: "r1", Kind: store.RequestRetry, Group: "pg"})
	put(t, s, store.OperatorTokenKey(strings.Repeat("ab", 32)), store.OperatorToken{Made: true})
	put(t, s, store.TermKey, store.TermRecord{Term: 4})
	put(t, s, store.StateKey, store.StateRecord{State: 9, Term: 4, At: now})
	spec, err := store.PutRaw(store.GroupSpecKey("pg"), []byte("\xff no JSON"), 0)
	if err == nil {
		err = s.Commit(t.Context(), spec)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func made(t *testing.T, s store.Store) Made {
	t.Helper()
	m, err := Make(t.Context(), s, demo, now)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// same compares a store with the records of a file.
func same(t *testing.T, s store.Store, m Made) {
	t.Helper()
	_, want, err := backup.Open(m.File, demo.expect(), demo.Key)
	if err != nil {
		t.Fatal(err)
	}
	entries, _, err := s.List(t.Context(), "")
	if err != nil || len(entries) != len(want)+1 {
		t.Fatalf("%d records, want %d and %s: %v", len(entries), len(want), store.RestoredKey, err)
	}
	for _, r := range want {
		if got, err := s.Get(t.Context(), r.Key); err != nil || !bytes.Equal(got.Value, r.Value) {
			t.Errorf("%s: %q, %v", r.Key, got.Value, err)
		}
	}
}

func TestABackupHasTheRecordsThatTheTableNames(t *testing.T) {
	s := storetest.NewMemory()
	fill(t, s, 3)
	m := made(t, s)
	want := map[string]int{store.ClusterIDKey: 1, "slots/<group>/<slot>": 3, "secrets/<group>/<secret>": 1, store.TermKey: 1, store.StateKey: 1, "groups/<group>/spec": 1}
	if fmt.Sprint(m.Header.Kinds) != fmt.Sprint(want) || m.Header.Term != 4 || m.Header.State != 9 || !m.Header.At.Equal(now) {
		t.Errorf("%+v", m.Header)
	}
}

// restores runs the same checks against each kind of store.
func restores(t *testing.T, from, to store.Store) {
	fill(t, from, 150) // more than two transactions
	m := made(t, from)
	var steps []int
	h, err := Restore(t.Context(), to, demo, m.File, "coordinator-1", now.Add(time.Hour), func(done, all int) {
		if all != m.Header.Records {
			t.Errorf("%d of %d", done, all)
		}
		steps = append(steps, done)
	})
	if err != nil || h.Records != m.Header.Records {
		t.Fatalf("%+v, %v", h, err)
	}
	if len(steps) < 3 || steps[len(steps)-1] != m.Header.Records {
		t.Errorf("progress: %v", steps)
	}
	same(t, to, m)
	r, _, err := store.Read[store.Restored](t.Context(), to, store.RestoredKey)
	if err != nil || r.State != 9+store.RestoreMargin || r.Term != 4+store.RestoreMargin || r.SHA256 != SHA256(m.File) || !r.BackupAt.Equal(now) || r.By != "coordinator-1" {
		t.Errorf("%+v, %v", r, err)
	}
	facts, _, err := store.ReadStateFacts(t.Context(), to)
	if err != nil || !errors.Is(facts.Regressed(), store.ErrStateRegression) {
		t.Errorf("restored records do not halt: %+v, %v", facts, err)
	}
	if _, err := Restore(t.Context(), to, demo, m.File, "coordinator-1", now, nil); !errors.Is(err, ErrRestored) {
		t.Errorf("a second restore: %v", err)
	}
	same(t, to, m)
}

func TestARestoreWritesTheRecordsAndHalts(t *testing.T) {
	restores(t, storetest.NewMemory(), storetest.NewMemory())
}

// TestARestoreWritesTheChainAfterTheRecords: the leader takes a record without entries for an edit,
// unless the record is older than the chain.
func TestARestoreWritesTheChainAfterTheRecords(t *testing.T) {
	from, to := storetest.NewMemory(), storetest.NewMemory()
	fill(t, from, 150)
	pause := store.OverrideKey(store.OverridePause, "pg")
	put(t, from, pause, store.Override{Reason: "old", By: "ann", At: now})
	put(t, from, store.AuditKey(7), audit.Entry{Number: 7, At: now, Who: audit.Operator, By: "ann", Verb: "apply", Object: store.GroupSpecKey("pg")})
	if _, err := Restore(t.Context(), to, demo, made(t, from).File, "coordinator-1", now, nil); err != nil {
		t.Fatal(err)
	}
	first, err := to.Get(t.Context(), store.AuditKey(7))
	for _, key := range []string{pause, store.GroupSpecKey("pg")} {
		record, readErr := to.Get(t.Context(), key)
		if err != nil || readErr != nil || record.Index >= first.Index {
			t.Errorf("%s has the index %d, and the chain begins at %d; %v, %v", key, record.Index, first.Index, err, readErr)
		}
	}
}

func TestARestoreIntoARealConsul(t *testing.T) {
	restores(t, storetest.NewConsul(t), storetest.NewConsul(t))
}

// TestGEN03_ARefusedFileWritesNothing.
func TestGEN03_ARefusedFileWritesNothing(t *testing.T) {
	from := storetest.NewMemory()
	fill(t, from, 3)
	m := made(t, from)
	other := demo
	other.Key = bytes.Repeat([]byte{8}, backup.KeySize)
	foreign := demo
	foreign.ID = strings.Repeat("ab", 16)
	for name, c := range map[string]struct {
		cluster Cluster
		file    []byte
		code    policy.Code
	}{
		"truncated":       {demo, m.File[:len(m.File)/2], backup.CodeTruncated},
		"edited":          {demo, bytes.Replace(m.File, []byte(`"state":9`), []byte(`"state":8`), 1), backup.CodeMAC},
		"other keys":      {other, m.File, backup.CodeMAC},
		"another cluster": {foreign, m.File, backup.CodeCluster},
	} {
		to := storetest.NewMemory()
		if _, err := Restore(t.Context(), to, c.cluster, c.file, "c", now, nil); backup.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if all, _, err := to.List(t.Context(), ""); err != nil || len(all) != 0 {
			t.Errorf("%s: written: %v, %v", name, all, err)
		}
	}
}

// TestGEN03_AnInterruptedRestoreBeginsAgain: after an end at any transaction, the store has no
// cluster ID, and another restore of this or of another file succeeds.
func TestGEN03_AnInterruptedRestoreBeginsAgain(t *testing.T) {
	from, older := storetest.NewMemory(), storetest.NewMemory()
	fill(t, from, 150)
	fill(t, older, 70)
	put(t, older, store.GroupPolicyKey("old"), policy.GroupPolicy{})
	first, second := made(t, older), made(t, from)
	crash := errors.New("the coordinator is stopped")
	for point := 1; ; point++ {
		to := storetest.NewMemory()
		ctx, cancel := context.WithCancelCause(t.Context())
		commits := 0
		to.OnCommit(func([]store.Op) storetest.Fault {
			if commits++; commits == point {
				cancel(crash)
			}
			return storetest.None
		})
		_, err := Restore(ctx, to, demo, first.File, "coordinator-0", now, nil)
		to.OnCommit(nil)
		cancel(nil)
		_, absent := to.Get(t.Context(), store.ClusterIDKey)
		if err == nil {
			if point < 4 {
				t.Errorf("done after %d transactions", point)
			}
			return
		}
		if absent == nil {
			// The last transaction arrived, and its answer did not.
			same(t, to, first)
			continue
		}
		if _, err := Restore(t.Context(), to, demo, second.File, "coordinator-1", now, nil); err != nil {
			t.Fatalf("after an end at transaction %d: %v", point, err)
		}
		same(t, to, second)
	}
}

// TestTwoRestoresDoNotMix: a restore that another one overtook writes nothing more.
func TestTwoRestoresDoNotMix(t *testing.T) {
	from, older := storetest.NewMemory(), storetest.NewMemory()
	fill(t, from, 150)
	fill(t, older, 70)
	first, second := made(t, older), made(t, from)
	for point := 1; point <= 3; point++ {
		to := storetest.NewMemory()
		overtaken := false
		_, err := Restore(t.Context(), to, demo, first.File, "coordinator-0", now, func(done, _ int) {
			if overtaken {
				return
			}
			overtaken = true
			if _, err := Restore(t.Context(), to, demo, second.File, "coordinator-1", now, nil); err != nil {
				t.Errorf("the second restore: %v", err)
			}
		})
		if !errors.Is(err, ErrRestored) && !errors.Is(err, ErrOvertaken) {
			t.Errorf("the first restore: %v", err)
		}
		same(t, to, second)
	}
}

// TestUnknownOutcomesAreSettled: each answer is lost once.
func TestUnknownOutcomesAreSettled(t *testing.T) {
	from := storetest.NewMemory()
	fill(t, from, 150)
	m := made(t, from)
	for _, fault := range []storetest.Fault{storetest.UnknownApplied, storetest.UnknownLost} {
		to := storetest.NewMemory()
		n := 0
		to.OnCommit(func([]store.Op) storetest.Fault {
			if n++; n%2 == 1 {
				return fault
			}
			return storetest.None
		})
		if _, err := Restore(t.Context(), to, demo, m.File, "coordinator-0", now, nil); err != nil {
			t.Errorf("%v: %v", fault, err)
		}
		to.OnCommit(nil)
		same(t, to, m)
	}
}
