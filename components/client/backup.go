package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/backup"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// chunkBytes is the size of one part of a file.
const chunkBytes = 256 << 10

// LastBackup has the records about backups.
type LastBackup struct {
	// At is when the last backup was taken; zero: there is none since the records began.
	At      time.Time `json:"at,omitzero"`
	SHA256  string    `json:"sha256,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"`
	Records int       `json:"records,omitempty"`
	By      string    `json:"by,omitempty"`
	// RestoredAt is when the records were restored, from the backup of RestoredFrom; zero: never.
	RestoredAt     time.Time `json:"restored_at,omitzero"`
	RestoredFrom   time.Time `json:"restored_backup_at,omitzero"`
	RestoredSHA256 string    `json:"restored_sha256,omitempty"`
}

// Backup is a received backup.
type Backup struct {
	Header backup.Header `json:"header"`
	SHA256 string        `json:"sha256"`
	Bytes  int64         `json:"bytes"`
	// LeftOut are keys of records that no coordinator can use.
	LeftOut []string `json:"left_out,omitempty"`
	// File is the whole file.
	File []byte `json:"-"`
}

// Backup takes a backup of the records. It returns only a complete file of this cluster.
func (c *Client) Backup(ctx context.Context) (Backup, error) {
	doing := "back up " + c.ctx.Cluster
	stream, err := apiv1.NewBackupServiceClient(c.conn).Backup(ctx, &apiv1.BackupRequest{})
	if err != nil {
		return Backup{}, c.wrap(doing, err)
	}
	var (
		out  Backup
		last *apiv1.BackupSummary
	)
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Backup{}, c.wrap(doing, err)
		}
		if len(out.File)+len(part.GetChunk()) > backup.MaxBytes {
			return Backup{}, fmt.Errorf("%s: the coordinator sends more than %d MiB", doing, backup.MaxBytes>>20)
		}
		out.File, last = append(out.File, part.GetChunk()...), part.GetSummary()
	}
	sum := sha256.Sum256(out.File)
	out.SHA256, out.Bytes, out.LeftOut = hex.EncodeToString(sum[:]), int64(len(out.File)), last.GetLeftOut()
	if last == nil || last.GetSha256() != out.SHA256 {
		return Backup{}, fmt.Errorf("%s: the file did not arrive as a whole: repeat the command", doing)
	}
	out.Header, err = backup.Inspect(out.File, backup.Expect{Cluster: c.ctx.Cluster, ClusterID: c.ctx.ClusterID})
	if err != nil {
		return Backup{}, fmt.Errorf("%s: %w", doing, err)
	}
	return out, nil
}

// LastBackup returns the last backup, and the backup that the records come from.
func (c *Client) LastBackup(ctx context.Context) (LastBackup, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewBackupServiceClient(c.conn).GetLastBackup(ctx, &apiv1.GetLastBackupRequest{})
	if err != nil {
		return LastBackup{}, c.wrap("read the last backup of "+c.ctx.Cluster, err)
	}
	return LastBackup{
		At: timeOf(r.GetAt()), SHA256: r.GetSha256(), Bytes: int64(r.GetBytes()), Records: int(r.GetRecords()), By: r.GetBy(),
		RestoredAt: timeOf(r.GetRestoredAt()), RestoredFrom: timeOf(r.GetRestoredBackupAt()), RestoredSHA256: r.GetRestoredSha256(),
	}, nil
}

func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// Restore sends a file to a coordinator without records. progress receives the number of written
// records and of all.
func (c *Client) Restore(ctx context.Context, file []byte, progress func(done, all int)) error {
	doing := "restore " + c.ctx.Cluster
	stream, err := apiv1.NewBackupServiceClient(c.conn).Restore(ctx)
	if err != nil {
		return c.wrap(doing, err)
	}
	for part := range slices.Chunk(file, chunkBytes) {
		if stream.Send(&apiv1.RestoreRequest{Chunk: part}) != nil {
			break // Recv has the reason
		}
	}
	_ = stream.CloseSend()
	complete := false
	for {
		next, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && complete:
			return nil
		case errors.Is(err, io.EOF):
			return &Error{Kind: Unavailable, Doing: doing, Message: "the coordinator ended the restore without a result", Hint: "repeat the command: it continues"}
		case err != nil:
			return c.wrap(doing, err)
		}
		complete = next.GetComplete()
		progress(int(next.GetDone()), int(next.GetAll()))
	}
}
