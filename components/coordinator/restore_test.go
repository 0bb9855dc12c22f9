package coordinator_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/bootstrap"
	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/core/backup"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// backups is an API client for backups.
type backups struct {
	apiv1.BackupServiceClient
	cluster  apiv1.ClusterServiceClient
	recovery apiv1.RecoveryServiceClient
	ctx      context.Context //nolint:containedctx // it carries the token and ends with the test
}

func (h *harness) backups(token string) *backups {
	h.t.Helper()
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:7444", grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return &backups{apiv1.NewBackupServiceClient(conn), apiv1.NewClusterServiceClient(conn), apiv1.NewRecoveryServiceClient(conn),
		metadata.AppendToOutgoingContext(h.t.Context(), "x-consul-token", token)}
}

func (b *backups) take() (file []byte, last *apiv1.BackupSummary, err error) {
	stream, err := b.Backup(b.ctx, &apiv1.BackupRequest{})
	if err != nil {
		return nil, nil, err
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return file, last, nil
		}
		if err != nil {
			return nil, nil, err
		}
		file, last = append(file, part.GetChunk()...), part.GetSummary()
	}
}

func (b *backups) restore(file []byte) (last *apiv1.RestoreResponse, err error) {
	stream, err := b.Restore(b.ctx)
	if err != nil {
		return nil, err
	}
	for part := range slices.Chunk(file, 256<<10) {
		if err := stream.Send(&apiv1.RestoreRequest{Chunk: part}); err != nil {
			break // Recv has the reason
		}
	}
	_ = stream.CloseSend()
	for {
		next, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
		last = next
	}
}

// TestGEN03_ARestoredCoordinatorContinuesUnderItsClusterID: a coordinator with an empty disk and the
// hint serves its proof and the restore alone. It takes only an unchanged file of its own cluster,
// and from the operators' token alone. It then has the same cluster ID and CA, and halts until an
// operator accepts the restore.
func TestGEN03_ARestoredCoordinatorContinuesUnderItsClusterID(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	h := newHarness(t)
	t.Cleanup(h.Platform.Close)
	log := &logged{}
	ended, stop := h.run(log)
	api, own := h.dial(h.OperatorToken), h.backups(h.OperatorToken)
	h.Eventually("the spec is applied", func() error {
		_, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "one")})
		return err
	})
	if _, err := own.restore([]byte("x")); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "ALREADY_RESTORED") {
		t.Errorf("a restore over records: %v", err)
	}
	if _, _, err := h.backups("9f3c2c86-58a5-4c4f-8e0e-1b7ab7a7aaaa").take(); err == nil {
		t.Error("a token that Consul does not know took a backup")
	}
	file, summary, err := own.take()
	if err != nil || summary.GetBytes() != uint64(len(file)) || len(summary.GetLeftOut()) > 0 {
		t.Fatalf("backup: %v, %v", summary, err)
	}
	noted, err := own.GetLastBackup(own.ctx, &apiv1.GetLastBackupRequest{})
	if err != nil || noted.GetSha256() != summary.GetSha256() || noted.GetBy() == "" || noted.GetRestoredAt() != nil {
		t.Errorf("noted: %v, %v", noted, err)
	}
	before, err := own.cluster.GetCluster(own.ctx, &apiv1.GetClusterRequest{})
	if err != nil {
		t.Fatal(err)
	}
	halt(t, ended, stop)
	header, err := backup.Inspect(file, backup.Expect{Cluster: "demo", ClusterID: before.GetClusterId()})
	if err != nil || header.Kinds["groups/<group>/spec"] != 1 {
		t.Fatalf("%+v, %v", header, err)
	}
	if bytes.Contains(file, []byte(h.OperatorToken)) {
		t.Error("the file has the operator's token")
	}

	// An empty disk with the hint: nothing but the proof and the restore is served.
	h.Config.StateDir, h.Config.RestoreClusterID = t.TempDir(), before.GetClusterId()
	log = &logged{}
	ended, stop = h.run(log)
	h.Eventually("the proof", func() error {
		_, err := api.AttestCoordinator(t.Context(), &apiv1.AttestCoordinatorRequest{Nonce: bytes.Repeat([]byte{5}, 32)})
		return err
	})
	if _, err := api.ListGroups(api.ctx, &apiv1.ListGroupsRequest{}); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "cadre cluster restore") {
		t.Errorf("a call to a coordinator without records: %v", err)
	}
	if _, _, err := own.take(); status.Code(err) != codes.Unavailable {
		t.Errorf("a backup of a coordinator without records: %v", err)
	}
	for name, c := range map[string]struct {
		as   *backups
		file []byte
		want policy.Code
	}{
		"without a token": {h.backups(""), file, "token"},
		"another token":   {h.backups("9f3c2c86-58a5-4c4f-8e0e-1b7ab7a7aaaa"), file, ""},
		"truncated":       {own, file[:len(file)-100], backup.CodeTruncated},
		"edited":          {own, bytes.Replace(file, []byte(`"term":`), []byte(`"term":1`), 1), backup.CodeMAC},
		"another cluster": {own, bytes.ReplaceAll(file, []byte(before.GetClusterId()), []byte(strings.Repeat("ab", 16))), backup.CodeCluster},
		"older format":    {own, bytes.Replace(file, []byte(`"version":1`), []byte(`"version":0`), 1), backup.CodeVersion},
		"no file":         {own, nil, backup.CodeInvalid},
	} {
		if _, err := c.as.restore(c.file); err == nil || !strings.Contains(err.Error(), string(c.want)) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	halt(t, ended, stop)
	if stored, err := bootstrap.Load(h.Config.StateDir); err != nil || stored.ClusterID != before.GetClusterId() || !stored.Waits() {
		t.Errorf("the disk after refused restores: %+v, %v", stored, err)
	}

	// Started again it waits again, and takes the file.
	ended, stop = h.run(log)
	defer stop()
	var done *apiv1.RestoreResponse
	h.Eventually("the restore", func() (err error) {
		done, err = own.restore(file)
		return err
	})
	if !done.GetComplete() || done.GetDone() != uint32(header.Records) {
		t.Errorf("restored: %v", done)
	}
	var after *apiv1.GetClusterResponse
	h.Eventually("the halt", func() (err error) {
		if after, err = own.cluster.GetCluster(own.ctx, &apiv1.GetClusterRequest{}); err == nil && !strings.Contains(after.GetHalted(), "EPOCH_REGRESSION") {
			err = errors.New("it is not halted: " + after.GetHalted())
		}
		return err
	})
	if after.GetClusterId() != before.GetClusterId() {
		t.Errorf("cluster ID %s, was %s", after.GetClusterId(), before.GetClusterId())
	}
	if groups, err := api.ListGroups(api.ctx, &apiv1.ListGroupsRequest{}); err != nil || len(groups.GetGroups()) != 1 {
		t.Errorf("groups: %v, %v", groups, err)
	}
	if noted, err := own.GetLastBackup(own.ctx, &apiv1.GetLastBackupRequest{}); err != nil || noted.GetRestoredSha256() != summary.GetSha256() || noted.GetAt() != nil {
		t.Errorf("noted: %v, %v", noted, err)
	}
	if _, err := own.restore(file); err == nil || !strings.Contains(err.Error(), "ALREADY_RESTORED") {
		t.Errorf("a second restore: %v", err)
	}
	if _, err := own.recovery.Recover(own.ctx, &apiv1.RecoverRequest{Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	h.Eventually("the end of the halt", func() error {
		after, err := own.cluster.GetCluster(own.ctx, &apiv1.GetClusterRequest{})
		if err == nil && (after.GetHalted() != "" || after.GetTerm() <= before.GetTerm()) {
			err = errors.New("halted: " + after.GetHalted())
		}
		return err
	})
	if stored, err := bootstrap.Load(h.Config.StateDir); err != nil || !stored.Recorded {
		t.Errorf("the disk: %+v, %v", stored, err)
	}
	halt(t, ended, stop)
}
