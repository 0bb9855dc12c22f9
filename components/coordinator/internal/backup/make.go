// Package backup makes a backup of the records, and restores one into an empty store. The format is
// in core/backup.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"cadre.dev/core/backup"
	"cadre.dev/store"
)

// Cluster identifies the cluster of a backup.
type Cluster struct {
	Name, ID string
	// Key authenticates the file (keys.Root.BackupKey).
	Key []byte
}

func (c Cluster) expect() backup.Expect {
	return backup.Expect{Cluster: c.Name, ClusterID: c.ID}
}

// Made is a backup.
type Made struct {
	File   []byte
	Header backup.Header
	// LeftOut are the keys of records that no coordinator could use: too long, or in no table.
	LeftOut []string
}

// SHA256 returns the digest of a file in hex.
func SHA256(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// Make reads the records with one consistent list and returns their backup.
func Make(ctx context.Context, s store.Store, c Cluster, now time.Time) (Made, error) {
	entries, _, err := s.List(ctx, "")
	if err != nil {
		return Made{}, fmt.Errorf("read the records: %w", err)
	}
	out := Made{Header: backup.Header{Cluster: c.Name, ClusterID: c.ID, At: now.UTC(), Kinds: map[string]int{}}}
	var records []backup.Record
	for _, e := range entries {
		kind, err := store.KindOf(e.Key)
		if err != nil || len(e.Value) > kind.MaxBytes {
			out.LeftOut = append(out.LeftOut, e.Key)
			continue
		}
		if !kind.InBackup() {
			continue
		}
		switch e.Key {
		case store.TermKey:
			record, err := store.Decode[store.TermRecord](e)
			if err != nil {
				return Made{}, err
			}
			out.Header.Term = record.Term
		case store.StateKey:
			record, err := store.Decode[store.StateRecord](e)
			if err != nil {
				return Made{}, err
			}
			out.Header.State = record.State
		}
		records = append(records, backup.Record{Key: e.Key, Value: e.Value})
		out.Header.Kinds[kind.Pattern]++
	}
	if out.File, err = backup.Encode(out.Header, records, c.Key); err != nil {
		return Made{}, err
	}
	out.Header, err = backup.Inspect(out.File, c.expect())
	return out, err
}
