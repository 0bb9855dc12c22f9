package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/client/clienttest"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

func TestBackupPictures(t *testing.T) {
	b := newBench(t)
	t.Chdir(t.TempDir())
	b.SetBackups(func(s *clienttest.Backups) { s.LeftOut = []string{"groups/web/unknown"} })
	code, out := b.run("cluster", "backup", "-o", "demo.backup")
	if code != ExitOK {
		t.Errorf("exit %d: %s", code, out)
	}
	golden(t, "backup", out)
	for name, args := range map[string][]string{"backup_help": {"cluster", "backup", "--help"}, "restore_help": {"cluster", "restore", "--help"}} {
		_, out := b.run(args...)
		golden(t, name, out)
	}
	b.SetBackups(func(s *clienttest.Backups) {
		s.Last = &apiv1.GetLastBackupResponse{At: timestamppb.New(noon.Add(-30 * time.Hour)), Records: 41, By: "operator",
			RestoredAt: timestamppb.New(noon.Add(-2 * time.Hour)), RestoredBackupAt: timestamppb.New(noon.Add(-5 * time.Hour))}
	})
	if _, out := b.run("cluster", "status"); !strings.Contains(out, "last backup  1d06h ago, 41 records, by operator") || !strings.Contains(out, "restored     2h00m ago, from the backup of ") {
		t.Errorf("status: %s", out)
	}
	if _, out := b.run("cluster", "status", "-o", "json"); !strings.Contains(out, `"restored_backup_at"`) {
		t.Errorf("status: %s", out)
	}
}

func TestABackupIsWrittenWholeForItsOwnerAndOverNoFile(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "demo.backup")
	if code, out := b.run("cluster", "backup"); code != ExitUsage || !strings.Contains(out, "-o FILE is missing") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := b.run("cluster", "backup", "-o", path); code != ExitOK {
		t.Fatalf("exit %d: %s", code, out)
	}
	want, err := b.BackupFile(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	got, readErr := os.ReadFile(path)
	if err != nil || readErr != nil || info.Mode().Perm() != 0o600 || !bytes.Equal(got, want) {
		t.Errorf("%v, %v, %v", info, err, readErr)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := b.run("cluster", "backup", "-o", path); code != ExitUsage || !strings.Contains(out, "--force") {
		t.Errorf("exit %d: %s", code, out)
	}
	b.Fail("Backup", status.Error(codes.PermissionDenied, "the token may not take a backup"))
	if code, _ := b.run("cluster", "backup", "-o", path, "--force"); code == ExitOK {
		t.Error("a token without the right took a backup")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "mine" {
		t.Errorf("after refusals: %q, %v", got, err)
	}
	b.Fail("Backup", nil)
	if code, out := b.run("cluster", "backup", "-o", path, "--force"); code != ExitOK {
		t.Errorf("exit %d: %s", code, out)
	}
	if err := saveBackup(path, []byte("x"), false); err == nil {
		t.Error("a file that appeared meanwhile was overwritten")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

const restoreCluster = `cluster "demo" {
  platform "phala" {
    api_url = "http://127.0.0.1:1"
    api_key = "k"
  }
  gateway {
    domain  = "gw.test"
  }
  coordinator {
    compose       = "services:\n  coordinator:\n    image: c@sha256:%s\n# CADRE_RESTORE_CLUSTER_ID ${cadre.coordinator_app_id} ${cadre.trust_json}"
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.9"
  }
  trust {
    key_provider {
      name = "kms"
      id   = "ab"
    }
  }
}
`

// TestGEN03_ARefusedBackupMakesNoCoordinator: the platform of this test answers nothing.
func TestGEN03_ARefusedBackupMakesNoCoordinator(t *testing.T) {
	b := newBench(t)
	other := clienttest.NewOf(t, strings.Repeat("ab", 16))
	whole, err := b.BackupFile(noon)
	foreign, otherErr := other.BackupFile(noon)
	if err != nil || otherErr != nil {
		t.Fatal(err, otherErr)
	}
	dir := t.TempDir()
	cluster := filepath.Join(dir, "cluster.hcl")
	if err := os.WriteFile(cluster, []byte(strings.Replace(restoreCluster, "%s", strings.Repeat("a", 64), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file []byte
		args []string
		want string
	}{
		"another cluster": {foreign, nil, "BACKUP_OTHER_CLUSTER: cluster_id: the file is of cluster ID abab"},
		"truncated":       {whole[:len(whole)-90], nil, "BACKUP_TRUNCATED"},
		"older format":    {bytes.Replace(whole, []byte(`"version":1`), []byte(`"version":0`), 1), nil, "BACKUP_VERSION: version: the file has format version 0"},
		"no backup":       {[]byte("PK\x03\x04"), nil, "BACKUP_INVALID: this is no backup"},
		"wrong name":      {whole, []string{"--delete-existing", "prod"}, "delete-existing: \"prod\" is not the name of this cluster"},
	} {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		code, out := b.run(append([]string{"--context", b.context, "cluster", "restore", path, "--cluster-file", cluster}, c.args...)...)
		if code == ExitOK || !strings.Contains(out, c.want) || strings.Contains(out, "again to continue") && name != "wrong name" {
			t.Errorf("%s: exit %d: %s", name, code, out)
		}
	}
	if code, out := b.run("cluster", "restore", "x"); code != ExitUsage || !strings.Contains(out, "--cluster-file is missing") {
		t.Errorf("exit %d: %s", code, out)
	}
	missing := filepath.Join(dir, "absent.json")
	path := filepath.Join(dir, "whole")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := b.run("--context", missing, "cluster", "restore", path, "--cluster-file", cluster); code == ExitOK || !strings.Contains(out, "needs the context of cluster demo") {
		t.Errorf("exit %d: %s", code, out)
	}
}
