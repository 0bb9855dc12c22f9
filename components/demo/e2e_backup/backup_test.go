package e2e_backup

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
	"cadre.dev/demo/internal/rigtest"
	"cadre.dev/demo/internal/s3store"
)

const (
	storePort = 9443
	restored  = "restored"
	keyID     = "TESTKEYID"
	keySecret = "a-secret-of-the-store"
	cipher    = "a-passphrase-that-only-members-know"
	// marker is in the rows, so that the store sees it if it gets a byte in the clear.
	marker = "plain-text-of-a-row"
)

type story struct {
	*testing.T
	*rig.Rig
	n     *rig.Narrator
	store *s3store.Store
	dir   string
	// key is the id of the store's present access key.
	key string
}

func (s *story) must(doing string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", doing, err)
	}
}

// TestPITR archives a database, backs it up, loses its data, and restores a new group to the time
// before the loss. A restart of the leader waits for a backup that runs.
func TestPITR(t *testing.T) {
	if os.Getenv("CADRE_TEST_CLUSTERS") == "" {
		t.Skip("make test-long runs it: two groups of PostgreSQL, three minutes")
	}
	root := rigtest.Needs(t, []string{"bwrap"}, []string{"cadre", "cadre-local", "cadre-agent", "cadre-coordinator", "cadre-rendezvous"})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	s := deploy(ctx, t, root)

	leader, err := s.Leader(ctx, rig.Postgres)
	s.must("find the leader", err)
	w := s.write(ctx, leader)
	s.backup(ctx, leader)
	s.checkFollower(ctx, leader)
	s.checkArchive(ctx, leader)

	w.await(ctx, 200)
	until := s.target()
	w.await(ctx, 100)
	rows := w.stop()
	s.lose(ctx, leader)

	s.checkDisturbed(ctx, leader)
	s.checkRekeyed(ctx)
	s.restore(ctx, until)
	s.checkRestored(ctx, until, rows)
	if leaked := s.store.Leaked(); len(leaked) > 0 {
		t.Errorf("%d uploads had rows or secrets in the clear: %q", len(leaked), leaked[0])
	}
}

func deploy(ctx context.Context, t *testing.T, root string) *story {
	t.Helper()
	var log bytes.Buffer
	dir := t.TempDir()
	s := &story{T: t, Rig: rig.New(root, filepath.Join(dir, "rig"), time.Second, &log), n: rig.NewNarrator(t.Output(), false, time.Now()), dir: dir, key: keyID}
	s.Net = rig.DefaultNet // with the rendezvous, whose network has the store
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("printed by cadre:\n%s", log.String())
			s.dump()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Down(ctx); err != nil {
			t.Errorf("take the cloud down: %v", err)
		}
	})
	s.n.Say("starting a local cloud, an S3 store and three coordinators")
	s.must("start the cloud", s.Up(ctx))
	l, err := s.ListenForCVMs(ctx, storePort)
	s.must("listen for the store", err)
	s.store, err = s3store.Serve(l, rig.StoreHost, keyID, marker, keySecret, cipher)
	s.must("start the store", err)
	t.Cleanup(func() { _ = s.store.Close() })
	s.file("ca.pem", s.store.CA)
	s.must("create the coordinators", s.CreateCluster(ctx))
	s.n.Say("applying group %s with an archive", rig.Postgres)
	s.apply(ctx, rig.Postgres, "backup.hcl")
	return s
}

// apply writes the group's spec, gives it the two secrets, and waits until it is whole.
func (s *story) apply(ctx context.Context, name, file string, flags ...string) {
	s.Helper()
	flags = append(flags, "--var", fmt.Sprintf("store_endpoint=%s:%d", rig.StoreHost, storePort), "--var", "store_ca="+filepath.Join(s.dir, "ca.pem"))
	s.must("apply "+name, s.ApplyBackups(ctx, file, flags...))
	s.secret(ctx, name+"/repo-cipher", cipher)
	s.secret(ctx, name+"/s3-key", s.key+"\n"+keySecret+"\n")
	_, err := s.Follow(ctx, name, s.n.Rollout)
	s.must("deploy "+name, err)
}

// secret seals a value as an operator does.
func (s *story) secret(ctx context.Context, name, value string) {
	s.Helper()
	_, err := s.Cadre(ctx, "secret", "set", name, "--from-file", s.file("secret", value))
	s.must("give the secret "+name, err)
}

func (s *story) file(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	s.must("write "+name, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// backup takes a full backup as an operator does.
func (s *story) backup(ctx context.Context, leader string) {
	s.Helper()
	began := time.Now()
	_, err := s.Cadre(ctx, "instance", "run", leader, "postgres", "backup-full", "--timeout", "5m")
	s.must("take a backup", err)
	s.n.Say("a full backup under load took %.1f s", time.Since(began).Seconds())
	out, err := s.Cadre(ctx, "instance", "run", leader, "postgres", "backups")
	s.must("list the backups", err)
	if !strings.Contains(out, "full backup:") || !strings.Contains(out, "cipher: aes-256-cbc") || !strings.Contains(out, "status: ok") {
		s.Fatalf("the list of backups has no encrypted full one:\n%s", out)
	}
	s.Logf("the list of backups:\n%s", out)
}

// checkFollower: a member that follows takes none, and says where to ask.
func (s *story) checkFollower(ctx context.Context, leader string) {
	s.Helper()
	follower := "postgres-0"
	if follower == leader {
		follower = "postgres-1"
	}
	out, err := s.Cadre(ctx, "instance", "run", follower, "postgres", "backup")
	if err == nil || !strings.Contains(out, "does not lead") {
		s.Errorf("a backup of the follower %s: %v\n%s", follower, err, out)
	}
}

// checkArchive measures how long a finished WAL file takes to the store.
func (s *story) checkArchive(ctx context.Context, leader string) {
	s.Helper()
	c, err := s.AsSuperuser(ctx, leader, "app")
	s.must("log in", err)
	defer c.Close(context.WithoutCancel(ctx))
	var name string
	began := time.Now()
	s.must("end a WAL file", c.QueryRow(ctx, "SELECT pg_walfile_name(pg_switch_wal())").Scan(&name))
	at, err := s.store.Await(ctx, name, began)
	s.must("wait for the archive", err)
	s.n.Say("a WAL file was in the archive %.1f s after its end", at.Sub(began).Seconds())
}

// target is a time at which a write may be in flight. All CVMs have the clock of this machine.
func (s *story) target() time.Time {
	at := time.Now()
	s.n.Say("the time to restore to: %s", at.UTC().Format(time.RFC3339Nano))
	return at
}

// lose deletes all rows, which is in the archive then.
func (s *story) lose(ctx context.Context, leader string) {
	s.Helper()
	c, err := s.AsSuperuser(ctx, leader, "app")
	s.must("log in", err)
	defer c.Close(context.WithoutCancel(ctx))
	began := time.Now()
	_, err = c.Exec(ctx, "DELETE FROM marks")
	s.must("delete the rows", err)
	var name string
	s.must("end the WAL file", c.QueryRow(ctx, "SELECT pg_walfile_name(pg_switch_wal())").Scan(&name))
	_, err = s.store.Await(ctx, name, began)
	s.must("wait for the archive", err)
}

// checkDisturbed holds a backup in the middle: a step of the leader waits for its end.
func (s *story) checkDisturbed(ctx context.Context, leader string) {
	s.Helper()
	waits := s.store.Hold("/postgres/backup/main/")
	ended, restarted := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.Cadre(ctx, "instance", "run", leader, "postgres", "backup-full", "--timeout", "5m")
		ended <- err
	}()
	select {
	case <-waits:
	case err := <-ended:
		s.Fatalf("the backup ended before its first upload: %v", err)
	case <-ctx.Done():
		s.Fatal(ctx.Err())
	}
	s.n.Say("a backup runs: restarting the leader")
	go func() {
		_, err := s.Cadre(ctx, "instance", "restart", leader, "--reason", "a backup runs", "--wait", "--timeout", "5m")
		restarted <- err
	}()
	c, err := s.Client()
	s.must("open a client", err)
	s.must("watch the leader", c.Watch(ctx, rig.Postgres, 0, func(v client.View) (bool, error) {
		s.n.Rollout(v)
		return !slices.ContainsFunc(v.Status.Instances, func(i group.InstanceStatus) bool {
			return i.Slot == leader && i.Phase == string(operation.Draining)
		}), nil
	}, nil))
	// Only the hook keeps the drain from its next step now.
	select {
	case err := <-ended:
		s.Errorf("the backup ended while its uploads were held: %v", err)
	default:
	}
	s.store.Release()
	s.must("take the backup under a restart", <-ended)
	s.must("restart the leader", <-restarted)
	if now, err := s.Leader(ctx, rig.Postgres); err != nil || now == leader {
		s.Errorf("after the restart %s leads (%v): the leader was to hand over", now, err)
	}
}

// checkRekeyed: the store gets another access key, and the archive goes on with it.
func (s *story) checkRekeyed(ctx context.Context) {
	s.Helper()
	s.key = "ANOTHERKEYID"
	s.store.Rekey(s.key)
	s.secret(ctx, rig.Postgres+"/s3-key", s.key+"\n"+keySecret+"\n")
	leader, err := s.Leader(ctx, rig.Postgres)
	s.must("find the leader", err)
	s.checkArchive(ctx, leader)
}

// restore makes a new group from the backups.
func (s *story) restore(ctx context.Context, until time.Time) {
	s.Helper()
	began := time.Now()
	s.n.Say("restoring into the new group %s", restored)
	s.apply(ctx, restored, "restored.hcl", "--var", "until="+until.UTC().Format("2006-01-02 15:04:05.000000+00"))
	s.n.Say("the new group was whole after %.1f s", time.Since(began).Seconds())
}

// checkRestored: the new group has each row that was acknowledged before the time, and no row that
// was sent after it. Its roles have its own passwords, all members are copies of the first, and it
// archives to a path of its own.
func (s *story) checkRestored(ctx context.Context, until time.Time, rows []row) {
	s.Helper()
	leader, err := s.Leader(ctx, restored)
	s.must("find the new leader", err)
	c, err := s.AsSuperuser(ctx, leader, "app")
	s.must("log in to the new group with its own password", err)
	defer c.Close(context.WithoutCancel(ctx))
	there := map[int64]bool{}
	found, err := c.Query(ctx, "SELECT id FROM marks")
	s.must("read the rows", err)
	for found.Next() {
		var id int64
		s.must("read a row", found.Scan(&id))
		there[id] = true
	}
	s.must("read the rows", found.Err())
	var before, after int
	for _, r := range rows {
		switch {
		case r.acknowledged.Before(until):
			before++
			if !there[r.id] {
				s.Errorf("row %d, acknowledged %s before the time, is missing", r.id, until.Sub(r.acknowledged))
			}
		case r.sent.After(until):
			after++
			if there[r.id] {
				s.Errorf("row %d, sent %s after the time, is there", r.id, r.sent.Sub(until))
			}
		}
	}
	s.n.Say("%d rows from before the time are there, and none of %d from after it", before, after)
	if before < 200 || after < 100 {
		s.Errorf("%d rows before and %d after the time are too few", before, after)
	}
	var replicas int
	s.must("count the copies", c.QueryRow(ctx, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'").Scan(&replicas))
	if replicas != 2 {
		s.Errorf("%d members follow, want 2: they log in with the new passwords", replicas)
	}
	s.backup(ctx, leader)
	if n, _ := s.store.Uploads("/restored/archive/main/"); n == 0 {
		s.Error("the new group archives nothing below its own path")
	}
}

// dump shows the ends of the services' logs.
func (s *story) dump() {
	logs, _ := filepath.Glob(filepath.Join(s.State, "cloud/cvms/*/logs/postgres*.log"))
	for _, path := range logs {
		data, err := os.ReadFile(path)
		if err != nil {
			s.T.Log(err)
			continue
		}
		s.Logf("%s:\n%s", path, data[max(0, len(data)-4000):])
	}
}
