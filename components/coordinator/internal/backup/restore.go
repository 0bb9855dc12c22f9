package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/backup"
	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// ErrRestored means that the store has a cluster ID already: nothing is restored over it.
var ErrRestored = errors.New(string(policy.CodeAlreadyRestored) + ": the records of this cluster exist: nothing is restored over them")

// ErrOvertaken means that another restore began meanwhile.
var ErrOvertaken = errors.New(string(policy.CodeRestoreOvertaken) + ": another restore has begun: wait for its end, then repeat this one if it failed")

// ErrTampered means that the store has records that no restore leaves.
var ErrTampered = errors.New(string(policy.CodeStateTampered))

// Restore verifies a file and writes its records into a store without a cluster ID. The record
// cluster_id comes last, in a transaction that follows all others: until then no coordinator uses
// the records, and another Restore begins again from any interruption. Each transaction checks that
// no other restore has begun since. by names this coordinator. progress receives the number of
// written records and of all; it may be nil.
//
// Errors: those of core/backup, ErrRestored, ErrOvertaken, and those of the store.
func Restore(ctx context.Context, s store.Store, c Cluster, file []byte, by string, now time.Time, progress func(done, all int)) (backup.Header, error) {
	header, records, err := backup.Open(file, c.expect(), c.Key)
	if err != nil {
		return header, err
	}
	values, err := usable(records, c.ID)
	if err != nil {
		return header, err
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	fence, err := begin(ctx, s, store.Restored{
		At: now.UTC(), By: by, BackupAt: header.At.UTC(), SHA256: SHA256(file),
		Term: header.Term + store.RestoreMargin, State: header.State + store.RestoreMargin,
	})
	if err != nil {
		return header, err
	}
	if err := write(ctx, s, fence, values, progress); err != nil {
		return header, err
	}
	if err := finish(ctx, s, fence, values); err != nil {
		return header, err
	}
	progress(len(values), len(values))
	return header, nil
}

// usable returns the values by key. The MAC was right, so a fault is one of another version.
func usable(records []backup.Record, id string) (map[string][]byte, error) {
	values := make(map[string][]byte, len(records))
	for _, r := range records {
		kind, err := store.KindOf(r.Key)
		switch {
		case err != nil:
			return nil, &backup.Error{Code: backup.CodeVersion, Message: fmt.Sprintf("this version has no record %s: restore with the version that made the file", r.Key)}
		case !kind.InBackup():
			return nil, &backup.Error{Code: backup.CodeVersion, Message: fmt.Sprintf("this version restores no record %s (%s): restore with the version that made the file", r.Key, kind.WhyNoBackup())}
		case len(r.Value) > kind.MaxBytes:
			return nil, &backup.Error{Code: backup.CodeVersion, Message: fmt.Sprintf("record %s has %d bytes, at most %d in this version: restore with the version that made the file", r.Key, len(r.Value), kind.MaxBytes)}
		}
		values[r.Key] = r.Value
	}
	own, err := store.Decode[store.ClusterIDRecord](store.Entry{Key: store.ClusterIDKey, Value: values[store.ClusterIDKey]})
	if err != nil || own.ClusterID != id {
		return nil, &backup.Error{Code: backup.CodeInvalid, Message: fmt.Sprintf("record %s: %q, want cluster ID %s", store.ClusterIDKey, own.ClusterID, id)}
	}
	return values, nil
}

// begin writes the record of the restore, and returns the checks of all other transactions.
func begin(ctx context.Context, s store.Store, r store.Restored) ([]store.Op, error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("name the restore: %w", err)
	}
	r.Attempt = hex.EncodeToString(random[:])
	before, err := s.Get(ctx, store.RestoredKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("read the record of an earlier restore: %w", err)
	}
	put, err := store.Put(store.RestoredKey, r, before.Index)
	if err != nil {
		return nil, err
	}
	absent := store.Op{Kind: store.OpCheckAbsent, Key: store.ClusterIDKey}
	if err := commit(ctx, s, []store.Op{absent, put}); err != nil {
		return nil, err
	}
	written, err := s.Get(ctx, store.RestoredKey)
	if err != nil {
		return nil, fmt.Errorf("read the record of this restore: %w", err)
	}
	if !bytes.Equal(written.Value, put.Value) {
		return nil, ErrOvertaken
	}
	return []store.Op{absent, {Kind: store.OpCheckIndex, Key: store.RestoredKey, Index: written.Index}}, nil
}

// last are the keys that one transaction writes after all others. A leader needs the first two, and
// each coordinator waits for the last one.
var last = []string{store.TermKey, store.StateKey, store.ClusterIDKey}

// write removes the remains of an earlier restore, and writes all records except the last ones.
func write(ctx context.Context, s store.Store, fence []store.Op, values map[string][]byte, progress func(done, all int)) error {
	entries, _, err := s.List(ctx, "")
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	present := map[string]bool{}
	var ops []store.Op
	for _, e := range entries {
		value, wanted := values[e.Key]
		switch {
		case e.Key == store.RestoredKey:
		case strings.HasPrefix(e.Key, store.LeasePrefix):
			// No coordinator leads before the end of a restore.
			return fmt.Errorf("%w: %s exists in a store without a cluster ID: give all coordinators empty disks, and restore again", ErrTampered, e.Key)
		case wanted && bytes.Equal(value, e.Value):
			present[e.Key] = true
		default:
			ops = append(ops, store.Op{Kind: store.OpDeleteCAS, Key: e.Key, Index: e.Index})
		}
	}
	for batch := range store.Batches(fence, ops) {
		if err := commit(ctx, s, append(slices.Clone(fence), batch...)); err != nil {
			return err
		}
	}
	ops = nil
	keys := slices.Sorted(maps.Keys(values))
	// The audit chain comes after the records. A record whose entries were removed is older than the
	// chain then, as it was before, and is no edit.
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(late(a), late(b)) })
	for _, key := range keys {
		if !present[key] && !slices.Contains(last, key) {
			ops = append(ops, store.Op{Kind: store.OpPutCAS, Key: key, Value: values[key]})
		}
	}
	done := len(present)
	for batch := range store.Batches(fence, ops) {
		if err := commit(ctx, s, append(slices.Clone(fence), batch...)); err != nil {
			return err
		}
		done += len(batch)
		progress(done, len(values))
	}
	return nil
}

func late(key string) int {
	if strings.HasPrefix(key, store.AuditPrefix) {
		return 1
	}
	return 0
}

// finish compares the store with the file, and writes the last records.
func finish(ctx context.Context, s store.Store, fence []store.Op, values map[string][]byte) error {
	entries, _, err := s.List(ctx, "")
	if err != nil {
		return fmt.Errorf("read the restored records: %w", err)
	}
	right := 0
	for _, e := range entries {
		if value, wanted := values[e.Key]; wanted && bytes.Equal(value, e.Value) {
			right++
		} else if e.Key != store.RestoredKey {
			return fmt.Errorf("%w: %s is not as in the file", ErrOvertaken, e.Key)
		}
	}
	ops := slices.Clone(fence)
	for _, key := range last {
		if value, wanted := values[key]; wanted {
			ops, right = append(ops, store.Op{Kind: store.OpPutCAS, Key: key, Value: value}), right+1
		}
	}
	if right != len(values) {
		return fmt.Errorf("%w: %d of %d records are there", ErrOvertaken, right, len(values))
	}
	return commit(ctx, s, ops)
}

// tries bounds the repetitions of one transaction.
const tries = 5

// commit commits a transaction of this restore. It repeats a transaction with an unknown outcome:
// a repetition after an applied attempt fails its checks, and is seen as applied.
func commit(ctx context.Context, s store.Store, ops []store.Op) error {
	for n := 1; ; n++ {
		err := store.CommitResolved(ctx, s, ops, func(ctx context.Context) (bool, error) { return applied(ctx, s, ops) })
		retry := errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnavailable)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrConflict):
			return conflict(ctx, s, ops, err)
		case !retry || n == tries || ctx.Err() != nil:
			return fmt.Errorf("write the records: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(n) * 200 * time.Millisecond):
		}
	}
}

// conflict explains a failed check.
func conflict(ctx context.Context, s store.Store, ops []store.Op, err error) error {
	if done, read := applied(ctx, s, ops); read == nil && done {
		return nil
	}
	if _, read := s.Get(ctx, store.ClusterIDKey); read == nil {
		return ErrRestored
	}
	return fmt.Errorf("%w: %w", ErrOvertaken, err)
}

// applied reports whether the last write of a transaction is in the store.
func applied(ctx context.Context, s store.Store, ops []store.Op) (bool, error) {
	op := ops[len(ops)-1]
	got, err := s.Get(ctx, op.Key)
	if op.Kind == store.OpDeleteCAS {
		return errors.Is(err, store.ErrNotFound), ignoreAbsent(err)
	}
	return err == nil && bytes.Equal(got.Value, op.Value), ignoreAbsent(err)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
