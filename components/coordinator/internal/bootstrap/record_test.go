package bootstrap

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

const (
	one     = "0123456789abcdef0123456789abcdef"
	another = "fedcba9876543210fedcba9876543210"
)

func record(t *testing.T, s store.Store, dir string, stored Stored) error {
	t.Helper()
	return Record(t.Context(), s, dir, stored, "coordinator-0", time.Unix(1, 0))
}

func written(t *testing.T, s store.Store) string {
	t.Helper()
	rec, _, err := store.Read[store.ClusterIDRecord](t.Context(), s, store.ClusterIDKey)
	if errors.Is(err, store.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return rec.ClusterID
}

// Coordinators that start at once write one record, and the disk of each has the fact that it
// exists.
func TestGEN01_TheFirstCoordinatorRecordsTheClusterIDForGood(t *testing.T) {
	s := storetest.NewMemory()
	var all sync.WaitGroup
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		all.Go(func() {
			for {
				err := Record(context.Background(), s, dir, Stored{ClusterID: one, Drawn: true}, dir, time.Unix(1, 0))
				if err == nil {
					return
				}
				if _, halted := errors.AsType[*HaltError](err); halted {
					t.Errorf("a start at the same time halts: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	_, first, err := store.Read[store.ClusterIDRecord](t.Context(), s, store.ClusterIDKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		stored, err := Load(dir)
		if err != nil || stored != (Stored{ClusterID: one, Recorded: true}) {
			t.Errorf("disk: %+v, %v", stored, err)
		}
		if err := record(t, s, dir, stored); err != nil {
			t.Errorf("at the next start: %v", err)
		}
	}
	if _, again, _ := store.Read[store.ClusterIDRecord](t.Context(), s, store.ClusterIDKey); again != first {
		t.Errorf("the record was written again: index %d, then %d", first, again)
	}
}

// A disk and records of two cluster IDs halt the coordinator, and so does the loss of either.
func TestGEN01_GEN02_ADiskAndRecordsOfTwoClusterIDsHalt(t *testing.T) {
	other, err := store.Put(store.OverrideKey(store.OverrideFreeze, store.Everywhere), store.Override{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	damaged := store.Op{Kind: store.OpPut, Key: store.ClusterIDKey, Value: []byte(`{"cluster_id":`)}
	foreign, err := store.Put(store.ClusterIDKey, store.ClusterIDRecord{ClusterID: "none of ours"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	own, err := store.Put(store.ClusterIDKey, store.ClusterIDRecord{ClusterID: another}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		there  []store.Op
		stored Stored
		want   string
	}{
		"a disk of one, records of another":          {[]store.Op{own, other}, Stored{ClusterID: one, Recorded: true}, "GENESIS_CONFLICT: the records are of cluster ID " + another},
		"the same at the first start":                {[]store.Op{own}, Stored{ClusterID: one, Drawn: true}, "disk is of cluster ID " + one},
		"records that are gone":                      {nil, Stored{ClusterID: one, Recorded: true}, "STATE_ROLLBACK_DETECTED"},
		"records of a cluster that lost its own":     {[]store.Op{other}, Stored{ClusterID: one, Drawn: true}, "STATE_TAMPERED: there are 1 records, control/freeze/_all among them"},
		"the same on a disk that saw it":             {[]store.Op{other}, Stored{ClusterID: one, Recorded: true}, "STATE_ROLLBACK_DETECTED"},
		"a record that cannot be read":               {[]store.Op{damaged}, Stored{ClusterID: one, Drawn: true}, "STATE_TAMPERED: record cluster_id"},
		"a record with a cluster ID that is no such": {[]store.Op{foreign}, Stored{ClusterID: one, Drawn: true}, "STATE_TAMPERED: record cluster_id"},
	} {
		s, dir := storetest.NewMemory(), t.TempDir()
		if len(c.there) > 0 {
			if err := s.Commit(t.Context(), c.there...); err != nil {
				t.Fatal(err)
			}
		}
		before, _, err := s.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		err = record(t, s, dir, c.stored)
		if _, halted := errors.AsType[*HaltError](err); !halted || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a halt with %s", name, err, c.want)
		}
		after, _, err := s.List(t.Context(), "")
		if err != nil || len(after) != len(before) || len(after) > 0 && after[0].Index != before[0].Index {
			t.Errorf("%s: something was written: %v, %v", name, after, err)
		}
	}
}

// A store that does not answer causes a retry, and no halt.
func TestGEN01_AStoreThatDoesNotAnswerIsNoHalt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Record(ctx, storetest.NewMemory(), t.TempDir(), Stored{ClusterID: one, Drawn: true}, "coordinator-0", time.Unix(1, 0))
	if _, halted := errors.AsType[*HaltError](err); err == nil || halted {
		t.Errorf("%v", err)
	}
	s := storetest.NewMemory()
	if err := record(t, s, t.TempDir(), Stored{ClusterID: one, Drawn: true}); err != nil || written(t, s) != one {
		t.Errorf("%q, %v", written(t, s), err)
	}
}

// A damaged file does not count as an empty disk: no new cluster ID replaces it.
func TestGEN01_ADamagedFileIsNotAnEmptyDisk(t *testing.T) {
	for _, text := range []string{"", "{", `{"cluster_id":"","recorded":true}`, `{"cluster_id":"` + strings.ToUpper(another) + `"}`, strings.Repeat("x", 1<<20)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if stored, err := Load(dir); err == nil || !strings.Contains(err.Error(), "DISK_IDENTITY_MISMATCH") || !strings.Contains(err.Error(), fileName) {
			t.Errorf("%.40q: %+v, %v", text, stored, err)
		}
	}
	if stored, err := Load(t.TempDir()); err != nil || stored != (Stored{}) {
		t.Errorf("an empty disk: %+v, %v", stored, err)
	}
}
