package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/backup"
	"cadre.dev/coordinator/internal/callers"
	corebackup "cadre.dev/core/backup"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

const (
	// chunkBytes is the size of one part of a file; a message must be below maxMessage.
	chunkBytes = 256 << 10
	// backupTime bounds a backup or a restore.
	backupTime = 10 * time.Minute
	// maxLeftOut bounds the named keys that a backup lacks.
	maxLeftOut = 100
)

// Backup implements BackupService.
func (s *Server) Backup(_ *apiv1.BackupRequest, stream grpc.ServerStreamingServer[apiv1.BackupResponse]) error {
	ctx, cancel := context.WithTimeout(stream.Context(), backupTime)
	defer cancel()
	c, err := s.caller(ctx)
	if err != nil {
		return err
	}
	may, err := s.cfg.Tokens.MayWrite(ctx, c.token, store.DefaultPrefix+store.LastBackupKey)
	if err != nil {
		return wire(err)
	}
	if !may {
		return status.Errorf(codes.PermissionDenied, "the token may not take a backup: it needs the right to write %s", store.DefaultPrefix+store.LastBackupKey)
	}
	if c.by, err = s.cfg.Tokens.NameOf(ctx, c.token); err != nil {
		return wire(err)
	}
	done, err := s.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	made, err := backup.Make(ctx, s.cfg.Store, s.cluster(), s.cfg.Now())
	if err != nil {
		return wireBackup(err)
	}
	for part := range slices.Chunk(made.File, chunkBytes) {
		if err := stream.Send(&apiv1.BackupResponse{Part: &apiv1.BackupResponse_Chunk{Chunk: part}}); err != nil {
			return err
		}
	}
	last := store.LastBackup{
		At: made.Header.At, SHA256: backup.SHA256(made.File), Bytes: int64(len(made.File)), Records: made.Header.Records, By: c.by,
	}
	if err := c.noteBackup(ctx, last); err != nil {
		return err
	}
	s.cfg.Log.Info("backup taken", "by", c.by, "records", last.Records, "bytes", last.Bytes, "sha256", last.SHA256)
	return stream.Send(&apiv1.BackupResponse{Part: &apiv1.BackupResponse_Summary{Summary: &apiv1.BackupSummary{
		At: timestamppb.New(last.At), Sha256: last.SHA256, Bytes: uint64(last.Bytes), Records: uint32(last.Records),
		LeftOut: made.LeftOut[:min(len(made.LeftOut), maxLeftOut)],
	}}})
}

func (s *Server) cluster() backup.Cluster {
	return backup.Cluster{Name: s.cfg.Cluster, ID: s.cfg.Root.ClusterID(), Key: s.cfg.Root.BackupKey()}
}

// takeTurn waits for the turn of a backup or a restore.
func (s *Server) takeTurn(ctx context.Context) (done func(), err error) {
	wait, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	select {
	case s.backups <- struct{}{}:
		return func() { <-s.backups }, nil
	case <-wait.Done():
		return nil, status.Error(codes.ResourceExhausted, "OVERLOADED: another backup or restore is running: try again after its end")
	}
}

// noteBackup records a backup as an act of the caller.
func (c *caller) noteBackup(ctx context.Context, last store.LastBackup) error {
	before, err := c.store.Get(ctx, store.LastBackupKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return wire(err)
	}
	op, err := store.Put(store.LastBackupKey, last, before.Index)
	if err != nil {
		return wire(err)
	}
	return wire(c.act(ctx, "backup", "", "", op))
}

// GetLastBackup implements BackupService. Each operator may read it.
func (s *Server) GetLastBackup(ctx context.Context, _ *apiv1.GetLastBackupRequest) (*apiv1.GetLastBackupResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	out := &apiv1.GetLastBackupResponse{}
	last, _, err := store.Read[store.LastBackup](ctx, c.store, store.LastBackupKey)
	switch {
	case err == nil:
		out.At, out.Sha256, out.By = timestamppb.New(last.At), last.SHA256, last.By
		out.Bytes, out.Records = uint64(max(last.Bytes, 0)), uint32(max(last.Records, 0))
	case !errors.Is(err, store.ErrNotFound) && len(store.RecordErrors(err)) == 0:
		return nil, wire(err)
	}
	from, _, err := store.Read[store.Restored](ctx, c.store, store.RestoredKey)
	switch {
	case err == nil:
		out.RestoredAt, out.RestoredBackupAt, out.RestoredSha256 = timestamppb.New(from.At), timestamppb.New(from.BackupAt), from.SHA256
	case !errors.Is(err, store.ErrNotFound):
		return nil, wire(err)
	}
	return out, nil
}

// Restore implements BackupService. A coordinator without records has no Consul tokens of
// operators, so the caller proves that it has the token of the trust file.
func (s *Server) Restore(stream grpc.BidiStreamingServer[apiv1.RestoreRequest, apiv1.RestoreResponse]) error {
	ctx, cancel := context.WithTimeout(stream.Context(), backupTime)
	defer cancel()
	if !s.waits() {
		return status.Error(codes.FailedPrecondition, backup.ErrRestored.Error())
	}
	if token, ok := callers.TokenOf(metadata.ValueFromIncomingContext(ctx, tokenHeader)); !ok || !s.isFirst(digestOf(token)) {
		return status.Error(codes.PermissionDenied, "only the operators' token that the coordinators' trust file names (operator_token_sha256) restores a backup")
	}
	done, err := s.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	file, err := receive(stream)
	if err != nil {
		return err
	}
	var lost error
	header, err := backup.Restore(ctx, s.cfg.Store, s.cluster(), file, s.cfg.Slot, s.cfg.Now(), func(done, all int) {
		if lost == nil {
			lost = stream.Send(&apiv1.RestoreResponse{Done: uint32(done), All: uint32(all)})
		}
	})
	if err != nil {
		s.cfg.Log.Error("backup not restored", "error", err)
		return wireBackup(err)
	}
	s.cfg.Log.Warn("backup restored; the cluster is halted until an operator accepts the restore", "records", header.Records, "at", header.At, "sha256", backup.SHA256(file))
	all := uint32(header.Records)
	return stream.Send(&apiv1.RestoreResponse{Done: all, All: all, Complete: true})
}

// receive returns the whole file, which is bounded.
func receive(stream grpc.BidiStreamingServer[apiv1.RestoreRequest, apiv1.RestoreResponse]) ([]byte, error) {
	var file []byte
	for {
		part, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return file, nil
		case err != nil:
			return nil, err
		case len(file)+len(part.GetChunk()) > corebackup.MaxBytes:
			return nil, status.Errorf(codes.InvalidArgument, "%s: the file has more than %d MiB", corebackup.CodeTooLarge, corebackup.MaxBytes>>20)
		}
		file = append(file, part.GetChunk()...)
	}
}

// wireBackup gives the errors of a backup their status codes.
func wireBackup(err error) error {
	switch {
	case corebackup.CodeOf(err) == corebackup.CodeTooLarge, errors.Is(err, backup.ErrRestored), errors.Is(err, backup.ErrTampered):
		return status.Error(codes.FailedPrecondition, err.Error())
	case corebackup.CodeOf(err) != "":
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, backup.ErrOvertaken):
		return status.Error(codes.Aborted, err.Error())
	}
	return wire(err)
}

func (s *Server) waits() bool { return s.cfg.Waits != nil && s.cfg.Waits() }

// open are the methods that a coordinator without records serves.
var open = []string{apiv1.ClusterService_AttestCoordinator_FullMethodName, apiv1.BackupService_Restore_FullMethodName}

// hasRecords refuses a method while this coordinator waits for a backup.
func (s *Server) hasRecords(method string) error {
	if slices.Contains(open, method) || !s.waits() {
		return nil
	}
	return status.Errorf(codes.Unavailable, "%s: %s has no records: it waits for `cadre cluster restore`, and serves nothing else", policy.CodeGateUnreadable, s.cfg.Slot)
}

func (s *Server) awaitRecords(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := s.hasRecords(info.FullMethod); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (s *Server) awaitRecordsStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := s.hasRecords(info.FullMethod); err != nil {
		return err
	}
	return handle(srv, stream)
}
