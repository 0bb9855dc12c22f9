package e2e_upgrade

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/operation"
	"cadre.dev/core/version"
	"cadre.dev/demo/internal/rig"
	"cadre.dev/demo/internal/rigtest"
)

// limit bounds each test; an idle machine needs a third of it.
const limit = 14 * time.Minute

// The image of older versions of Patroni and PostgreSQL 15. It has PostgreSQL 17 too.
const (
	olderImage      = "patroni40"
	olderPatroni    = "4.0.11"
	olderPostgres   = "15.18"
	anotherMajor    = "17.10"
	anotherMajorBin = "/usr/lib/postgresql/17/bin"
)

// story is a local cloud with one of the examples.
type story struct {
	*testing.T
	*rig.Rig
	n *rig.Narrator
}

// TestMinorVersionsGoUpAndBackAndAMajorOneDoesNot moves real members under load from Patroni 4.0 with an older minor version
// of PostgreSQL to newer ones, and back: one hand-over each. A major version in place is refused; where the spec names no
// version, the first replica fails with the reason, and an undo brings it back. No acknowledged write is missing at the end.
func TestMinorVersionsGoUpAndBackAndAMajorOneDoesNot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s := begin(ctx, t, "postgres")
	s.PostgresImage = olderImage
	s.must("deploy PostgreSQL", s.Deploy(ctx, s.n))

	older := s.versions(ctx)
	if older != (versions{olderPatroni, olderPostgres}) {
		t.Fatalf("the image %s runs %v", olderImage, older)
	}
	s.PostgresImage = ""
	s.rolls(ctx, "2", "up")
	newer := s.versions(ctx)
	if !after(newer.patroni, older.patroni) || !after(newer.postgres, older.postgres) {
		t.Fatalf("from %v to %v is no upgrade", older, newer)
	}
	s.refusesAMajor(ctx)
	s.failsAtTheFirst(ctx, newer)

	s.PostgresImage = olderImage
	s.rolls(ctx, "4", "back")
	if is := s.versions(ctx); is != older {
		t.Errorf("back from %v: %v, want %v", newer, is, older)
	}

	verdict, err := s.StopLoad(ctx)
	s.must("stop the load and read its rows", err)
	s.n.Say("%d writes acknowledged, %d missing", verdict.Acknowledged, verdict.Missing)
	if verdict.Missing != 0 || verdict.Acknowledged == 0 {
		t.Errorf("%+v", verdict)
	}
}

// begin prepares a local cloud, and takes it down at the end. A failed test shows the logs of a service.
func begin(ctx context.Context, t *testing.T, service string) *story {
	t.Helper()
	if os.Getenv("CADRE_TEST_UPGRADES") == "" {
		t.Skip("make test-upgrades runs it: changes of versions under load, ten minutes")
	}
	root := rigtest.Needs(t, []string{"bwrap"}, []string{"cadre", "cadre-local", "cadre-agent", "cadre-coordinator", "cadre-load", "cadre-rendezvous"})
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "cadre.log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, Rig: rig.New(root, filepath.Join(dir, "state"), time.Second, log), n: rig.NewNarrator(t.Output(), false, time.Now())}
	s.Net = rig.DefaultNet
	t.Cleanup(func() {
		if t.Failed() {
			s.dump(log.Name())
			services, _ := filepath.Glob(filepath.Join(s.State, "cloud/cvms/*/logs", service+"*.log"))
			for _, path := range services {
				s.dump(path)
			}
		}
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := errors.Join(s.Down(down), log.Close()); err != nil {
			t.Errorf("take the cloud down: %v", err)
		}
	})
	return s
}

// dump shows the end of a log.
func (s *story) dump(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		s.T.Log(err)
		return
	}
	s.Logf("%s:\n%s", path, data[max(0, len(data)-3000):])
}

func (s *story) must(doing string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", doing, err)
	}
}

// rolls rolls all members to the image: the leader last, after one hand-over, each on its disk.
func (s *story) rolls(ctx context.Context, release, direction string) {
	s.Helper()
	from := time.Now()
	var report rig.Report
	s.must("roll "+direction, s.Planned(ctx, s.n, release, &report))
	if report.Transfers != 1 || report.LeadershipMoves != 1 || len(report.Slots) != 3 {
		s.Fatalf("%s: %d hand-overs, leadership moved %d times, %d members moved; want 1, 1 and 3", direction, report.Transfers, report.LeadershipMoves, len(report.Slots))
	}
	for i, slot := range report.Slots {
		if slot.Led != (i == 2) || !slot.DiskKept || !slot.Admitted {
			s.Errorf("%s: %+v went as number %d", direction, slot, i+1)
		}
	}
	summary, err := s.LoadSummary(ctx, from, time.Now())
	s.must("ask for the figures", err)
	s.n.Say("%s in %.0f s: %d writes acknowledged, %d failed, longest gap %d ms", direction, report.RolloutS, summary.Acknowledged, summary.Failed, report.GapMS.Planned)
}

// versions are those of the members' servers.
type versions struct{ patroni, postgres string }

// versions fails unless all members run the same ones, by their own word.
func (s *story) versions(ctx context.Context) versions {
	s.Helper()
	var all []versions
	for _, slot := range []string{"postgres-0", "postgres-1", "postgres-2"} {
		patroni, postgres, err := s.PostgresVersions(ctx, slot)
		s.must("ask "+slot, err)
		all = append(all, versions{patroni, postgres})
	}
	if all = slices.Compact(all); len(all) != 1 {
		s.Fatalf("the members run different versions: %v", all)
	}
	return all[0]
}

// after reports that version a is newer than b.
func after(a, b string) bool {
	x, okX := version.Parse(a)
	y, okY := version.Parse(b)
	return okX && okY && x.Compare(y) > 0
}

// inPlace applies the image with PostgreSQL of another major version.
func (s *story) inPlace(ctx context.Context, named string) error {
	s.PostgresImage = olderImage
	defer func() { s.PostgresImage = "" }()
	return s.ApplyPostgres(ctx, "3", "--var", "postgres_bin="+anotherMajorBin, "--var", "postgres_version="+named, "--var", "healthy_deadline=90s")
}

// refusesAMajor: with the version in the spec, the API refuses the spec, and no member moves.
func (s *story) refusesAMajor(ctx context.Context) {
	s.Helper()
	before := s.group(ctx)
	s.n.Say("PostgreSQL %s in place, with its version in the spec", anotherMajor)
	err := s.inPlace(ctx, anotherMajor)
	s.n.Say("refused: %v", err)
	for _, want := range []string{
		`VERSION_STEP: workload.settings["version"]`, "PostgreSQL " + anotherMajor + " cannot open this disk, which PostgreSQL 15 wrote", "new group",
		"postgres-0, postgres-1, postgres-2",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			s.Errorf("an apply of PostgreSQL %s on data of 15: %v; want %q", anotherMajor, err, want)
		}
	}
	if is := s.group(ctx); is.Index != before.Index || is.Status.Available != 3 {
		s.Errorf("the spec was at %d and is at %d; %d members are available", before.Index, is.Index, is.Status.Available)
	}
}

func (s *story) group(ctx context.Context) client.Group {
	s.Helper()
	c, err := s.Client()
	s.must("dial the cluster", err)
	g, err := c.Group(ctx, rig.Postgres)
	s.must("read the group", err)
	return g
}

// failsAtTheFirst: without a version nothing is refused. One replica fails with the reason, the others keep the old
// revision, writes continue at the same leader, and an undo brings the replica back on its disk.
func (s *story) failsAtTheFirst(ctx context.Context, was versions) {
	s.Helper()
	leads, err := s.Leader(ctx, rig.Postgres)
	s.must("find the leader", err)
	from := time.Now()
	s.n.Say("PostgreSQL %s in place, without a version in the spec", anotherMajor)
	s.must("apply it", s.inPlace(ctx, ""))
	v, err := s.Follow(ctx, rig.Postgres, s.n.Rollout)
	var stopped *client.RolloutError
	if !errors.As(err, &stopped) || stopped.State != operation.FailedState {
		s.Fatalf("the rollout ends with %v, want it failed", err)
	}
	s.n.Say("the rollout failed after %.0f s: %s", time.Since(from).Seconds(), stopped.Reason)
	for _, want := range []string{"PostgreSQL does not start", "data of its own major version only, here 15", "go back to the revision before"} {
		if !strings.Contains(stopped.Reason, want) {
			s.Errorf("the rollout's reason %q does not say %q", stopped.Reason, want)
		}
	}
	failed := ""
	for _, i := range v.Status.Instances {
		if i.State == client.StateAvailable {
			continue
		}
		if failed != "" || i.Slot == leads {
			s.Errorf("%s is %s too; %s leads", i.Slot, i.State, leads)
		}
		failed = i.Slot
	}
	s.must("wait for writes", s.AwaitWrites(ctx, time.Now(), 50))
	_, err = s.Cadre(ctx, "rollout", "undo", rig.Postgres, "--yes", "--wait", "--timeout", "3m")
	s.must("undo", err)
	if is := s.versions(ctx); is != was {
		s.Errorf("after the undo the members run %v, want %v", is, was)
	}
	summary, err := s.LoadSummary(ctx, from, time.Now())
	s.must("ask for the figures", err)
	s.n.Say("undone: %d writes acknowledged, %d failed, longest gap %d ms", summary.Acknowledged, summary.Failed, summary.Gap.Milliseconds())
	if len(summary.Servers) != 1 || !s.DiskKept(ctx, failed) {
		s.Errorf("%s failed, its disk kept: %t; %v acknowledged writes, want one leader", failed, s.DiskKept(ctx, failed), summary.Servers)
	}
}
