package genesis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/appcompose"
)

func sumOf(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// proven pins the clienttest cluster in the context, as Pin does.
func (b *bench) proven(t *testing.T, s *clienttest.Server) client.Context {
	t.Helper()
	c, err := client.LoadContext(b.opts.ContextPath)
	if err != nil {
		t.Fatal(err)
	}
	c.CAPEM, c.ClusterID = string(s.CAPEM()), clienttest.ClusterID
	if err := c.Save(b.opts.ContextPath); err != nil {
		t.Fatal(err)
	}
	return c
}

// withHint makes the cluster file's compose text pass the cluster ID of a restore.
func (b *bench) withHint(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.hcl")
	if err := os.WriteFile(path, []byte(strings.Replace(clusterFile, "# ${", "# "+appcompose.RestoreClusterIDEnv+" ${", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := groupfile.Load([]string{path}, groupfile.Vars{})
	if err != nil {
		t.Fatal(err)
	}
	b.opts.Cluster = file.Clusters[0]
}

func (b *bench) restore(t *testing.T, file []byte, discard string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	o := b.opts
	o.Say = func(s string) {
		b.opts.Say(s)
		if strings.Contains(s, "prove itself") {
			cancel()
		}
	}
	_, err := Restore(ctx, o, file, sumOf(file), discard)
	return err
}

// TestRestoreMakesCoordinatorsThatWait: each new one has the cluster ID in its environment, under the
// compose hash of the lost ones. Existing coordinators are no part of a restore.
func TestRestoreMakesCoordinatorsThatWait(t *testing.T) {
	s := clienttest.New(t)
	file, err := s.BackupFile(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	if err := b.restore(t, file, ""); err == nil || !strings.Contains(err.Error(), "needs the context of cluster demo") {
		t.Errorf("without a context: %v", err)
	}
	_, _ = b.create(t)
	if err := b.restore(t, file, ""); err == nil || !strings.Contains(err.Error(), "has no cluster ID") {
		t.Errorf("a context of coordinators that were never proven: %v", err)
	}
	b.proven(t, s)
	if err := b.restore(t, file, "demo"); err == nil || !strings.Contains(err.Error(), "coordinator.compose: it does not pass CADRE_RESTORE_CLUSTER_ID") {
		t.Errorf("a compose text without the hint: %v", err)
	}
	if got := b.names(t); len(got) != 3 {
		t.Errorf("a refused restore deleted coordinators: %v", got)
	}

	b = newBench(t)
	b.withHint(t)
	_, _ = b.create(t)
	if env := b.fake.Env(three[0]); env[appcompose.RestoreClusterIDEnv] != "" {
		t.Errorf("a new cluster has the hint %q", env[appcompose.RestoreClusterIDEnv])
	}
	before := b.proven(t, s)
	calls := len(b.fake.Calls())
	if err := b.restore(t, file, ""); err == nil || !strings.Contains(err.Error(), "coordinators exist: demo-coordinator-0, demo-coordinator-1, demo-coordinator-2") {
		t.Errorf("existing coordinators: %v", err)
	}
	for _, call := range b.fake.Calls()[calls:] {
		if strings.HasPrefix(call, "DELETE") {
			t.Errorf("a refused restore deleted something: %s", call)
		}
	}
	_ = b.restore(t, file, "demo")
	if got := b.names(t); !slices.Equal(got, three) {
		t.Fatalf("CVMs = %v\n%s", got, strings.Join(b.said, "\n"))
	}
	for _, name := range three {
		if env := b.fake.Env(name); env[appcompose.RestoreClusterIDEnv] != clienttest.ClusterID {
			t.Errorf("env of %s = %v", name, env)
		}
	}
	after, err := client.LoadContext(b.opts.ContextPath)
	// The name of the hint is measured, so these coordinators have a compose hash of their own. Without a restore no
	// document has the name: agents of the previous version refuse it.
	if err != nil || !after.Restoring || after.Token != before.Token || len(after.CoordinatorComposeHashes) != len(before.CoordinatorComposeHashes)+1 {
		t.Errorf("context %+v, %v", after, err)
	}
	// The second run continues.
	calls = len(b.fake.Calls())
	_ = b.restore(t, file, "")
	for _, call := range b.fake.Calls()[calls:] {
		if !strings.HasSuffix(call, "/provision") && !strings.HasSuffix(call, "/status/batch") {
			t.Errorf("a second run changed something: %s", call)
		}
	}
}

// TestABackupIsSentUntilACoordinatorTookIt.
func TestABackupIsSentUntilACoordinatorTookIt(t *testing.T) {
	s := clienttest.New(t)
	c := s.Start(t)
	file, err := s.BackupFile(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.SetBackups(func(b *clienttest.Backups) { b.Waits = true })
	s.Fail("Restore", status.Error(codes.Unavailable, "No cluster leader"))
	var said []string
	o := Options{Poll: time.Millisecond, Say: func(text string) {
		if said = append(said, text); strings.Contains(text, "do not take the backup yet") {
			s.Fail("Restore", nil)
		}
	}}
	if already, err := send(t.Context(), o, c, file, sumOf(file)); err != nil || already {
		t.Errorf("%t, %v", already, err)
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "No cluster leader") || !strings.Contains(all, "3 of 3 records are written") {
		t.Errorf("said:\n%s", all)
	}
	if string(s.Backups().Restored) != string(file) {
		t.Error("the coordinator has another file")
	}
	if already, err := send(t.Context(), o, c, file, sumOf(file)); err != nil || !already {
		t.Errorf("again: %t, %v", already, err)
	}
	if _, err := send(t.Context(), o, c, file, "another"); err == nil || !strings.Contains(err.Error(), "of another origin than this file") {
		t.Errorf("over other records: %v", err)
	}
	s.SetBackups(func(b *clienttest.Backups) { b.Waits = true })
	edited := append([]byte(nil), file...)
	edited[len(edited)/2] ^= 1
	if _, err := send(t.Context(), o, c, edited, sumOf(edited)); err == nil || client.KindOf(err) != client.Invalid {
		t.Errorf("an edited file: %v", err)
	}
}
