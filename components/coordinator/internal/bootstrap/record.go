package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/core/clusterid"
	"cadre.dev/store"
)

// HaltError means that the records belong to another cluster ID, or are incomplete. A retry cannot
// succeed, and the coordinator must not write.
type HaltError struct{ message string }

// Error begins with the code.
func (e *HaltError) Error() string { return e.message }

func halt(format string, args ...any) error { return &HaltError{fmt.Sprintf(format, args...)} }

// Record compares the records with the disk. If there is no record of the cluster ID, the coordinator
// that drew the ID creates it, and any other one returns an error until it exists. When it returns, the disk has the fact that the record exists. *HaltError is final; after any
// other error the caller must retry.
func Record(ctx context.Context, s store.Store, stateDir string, stored Stored, self string, now time.Time) error {
	switch there, err := read(ctx, s); {
	case err != nil:
		return err
	case there == "" && stored.Recorded:
		return halt("STATE_ROLLBACK_DETECTED: the records name no cluster ID, but this coordinator saw cluster ID %s in them: they are lost. Bring back the disks of a majority of the coordinators; for a new cluster ID on purpose give all coordinators empty disks, and then configure the new ID for agents and operators", stored.ClusterID)
	case there == "" && stored.Waits():
		return fmt.Errorf("no record has cluster ID %s: this coordinator did not draw it, and waits until the coordinator that did writes it, or until `cadre cluster restore` has restored a backup", stored.ClusterID)
	case there == "":
		if err := create(ctx, s, stored.ClusterID, self, now); err != nil {
			return err
		}
	case there != stored.ClusterID:
		return halt("GENESIS_CONFLICT: the records are of cluster ID %s, this coordinator's disk is of cluster ID %s. It serves neither: give it an empty disk, and it joins the others", there, stored.ClusterID)
	}
	if stored.Recorded {
		return nil
	}
	stored.Recorded, stored.Drawn = true, false
	return stored.save(stateDir)
}

// read returns the recorded cluster ID; "" while there is none.
func read(ctx context.Context, s store.Store) (string, error) {
	rec, _, err := store.Read[store.ClusterIDRecord](ctx, s, store.ClusterIDKey)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err == nil {
		if bad := clusterid.Check(rec.ClusterID); bad != nil {
			return "", halt("STATE_TAMPERED: record %s: %v; restore it", store.ClusterIDKey, bad)
		}
	}
	if bad := store.RecordErrors(err); len(bad) > 0 {
		return "", halt("STATE_TAMPERED: %v; restore it", bad[0])
	}
	return rec.ClusterID, err
}

// create writes the record if the store is empty: records without a cluster ID belong to a cluster
// that lost it.
func create(ctx context.Context, s store.Store, id, self string, now time.Time) error {
	entries, _, err := s.List(ctx, "")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Key == store.ClusterIDKey {
			return errors.New("another coordinator recorded the cluster ID meanwhile")
		}
	}
	if len(entries) > 0 {
		return halt("STATE_TAMPERED: there are %d records, %s among them, but none of the cluster ID: it was deleted, or they are another cluster's. Restore it; no new one is written over them", len(entries), entries[0].Key)
	}
	op, err := store.Put(store.ClusterIDKey, store.ClusterIDRecord{ClusterID: id, At: now.UTC(), By: self}, 0)
	if err != nil {
		return err
	}
	return s.Commit(ctx, op)
}
