package clienttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/backup"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Backups are the answers of BackupService.
type Backups struct {
	// LeftOut are the keys that a backup lacks.
	LeftOut []string
	// Last is the answer of GetLastBackup; nil: zero.
	Last *apiv1.GetLastBackupResponse
	// Waits: the coordinators have no records, and take a backup.
	Waits bool
	// Restored is the file that was restored.
	Restored []byte
}

// SetBackups changes the answers.
func (s *Server) SetBackups(change func(*Backups)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.backups)
}

// Backups returns the answers, and the restored file.
func (s *Server) Backups() Backups {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backups
}

// backupKey authenticates the Server's backups.
var backupKey = bytes.Repeat([]byte{7}, backup.KeySize)

// BackupFile is a backup of the Server's cluster.
func (s *Server) BackupFile(at time.Time) ([]byte, error) {
	return backup.Encode(backup.Header{Cluster: "demo", ClusterID: s.clusterID, At: at, Term: 3, State: 41, Kinds: map[string]int{
		"cluster_id": 1, "groups/<group>/spec": 1, "control/floor/<scope>": 1,
	}}, []backup.Record{{Key: "cluster_id", Value: []byte("{}")}, {Key: "control/floor/worker", Value: []byte("{}")}, {Key: "groups/worker/spec", Value: []byte("{}")}}, backupKey)
}

// Backup implements BackupService.
func (s *Server) Backup(_ *apiv1.BackupRequest, stream grpc.ServerStreamingServer[apiv1.BackupResponse]) error {
	err := s.enter(stream.Context(), "Backup")
	leftOut := s.backups.LeftOut
	s.mu.Unlock()
	if err != nil {
		return err
	}
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	file, err := s.BackupFile(at)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(file, 100) {
		if err := stream.Send(&apiv1.BackupResponse{Part: &apiv1.BackupResponse_Chunk{Chunk: part}}); err != nil {
			return err
		}
	}
	sum := sha256.Sum256(file)
	return stream.Send(&apiv1.BackupResponse{Part: &apiv1.BackupResponse_Summary{Summary: &apiv1.BackupSummary{
		At: timestamppb.New(at), Sha256: hex.EncodeToString(sum[:]), Bytes: uint64(len(file)), Records: 3, LeftOut: leftOut,
	}}})
}

// GetLastBackup implements BackupService.
func (s *Server) GetLastBackup(ctx context.Context, _ *apiv1.GetLastBackupRequest) (*apiv1.GetLastBackupResponse, error) {
	defer s.mu.Unlock()
	if err := s.enter(ctx, "GetLastBackup"); err != nil {
		return nil, err
	}
	switch {
	case s.backups.Waits:
		return nil, status.Error(codes.Unavailable, "GATE_UNREADABLE: coordinator-0 has no records")
	case s.backups.Last == nil:
		return &apiv1.GetLastBackupResponse{}, nil
	}
	return proto.Clone(s.backups.Last).(*apiv1.GetLastBackupResponse), nil
}

// Restore implements BackupService.
func (s *Server) Restore(stream grpc.BidiStreamingServer[apiv1.RestoreRequest, apiv1.RestoreResponse]) error {
	var file []byte
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		file = append(file, part.GetChunk()...)
	}
	err := s.enter(stream.Context(), "Restore")
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	if !s.backups.Waits {
		return status.Error(codes.FailedPrecondition, "ALREADY_RESTORED: the records of this cluster exist: nothing is restored over them")
	}
	if _, _, err := backup.Open(file, backup.Expect{Cluster: "demo", ClusterID: s.clusterID}, backupKey); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	sum := sha256.Sum256(file)
	s.backups.Waits, s.backups.Restored = false, file
	s.backups.Last = &apiv1.GetLastBackupResponse{RestoredAt: timestamppb.Now(), RestoredSha256: hex.EncodeToString(sum[:])}
	for _, r := range []*apiv1.RestoreResponse{{Done: 1, All: 3}, {Done: 3, All: 3, Complete: true}} {
		if err := stream.Send(r); err != nil {
			return err
		}
	}
	return nil
}
