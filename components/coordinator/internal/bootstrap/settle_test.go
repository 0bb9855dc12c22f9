package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/core/clusterid"
	"cadre.dev/raced/synctest"
)

// set are coordinators that ask for the cluster IDs on each other's disks, if they are reachable.
type set struct {
	t    *testing.T
	dirs []string
	// restore is the hint of the hinted coordinators.
	restore string
	hinted  []int

	mu  sync.Mutex
	cut map[int]bool // guarded by mu; coordinators that do not answer
}

func newSet(t *testing.T, n int) *set {
	s := &set{t: t, cut: map[int]bool{}}
	for range n {
		s.dirs = append(s.dirs, t.TempDir())
	}
	return s
}

func (s *set) config(ordinal int) Config {
	hint := ""
	if slices.Contains(s.hinted, ordinal) {
		hint = s.restore
	}
	return Config{
		Restore: hint, Ordinal: ordinal, Replicas: len(s.dirs), StateDir: s.dirs[ordinal], Log: slog.New(slog.DiscardHandler),
		Ask: func(_ context.Context, other int) (string, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.cut[other] || s.cut[ordinal] {
				return "", errors.New("unreachable")
			}
			stored, err := Load(s.dirs[other])
			return stored.ClusterID, err
		},
	}
}

func (s *set) isolate(cut bool, which ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range which {
		s.cut[n] = cut
	}
}

func (s *set) knows(ordinal int) string {
	s.t.Helper()
	stored, err := Load(s.dirs[ordinal])
	if err != nil {
		s.t.Fatal(err)
	}
	return stored.ClusterID
}

// start settles those coordinators in the background.
func (s *set) start(ctx context.Context, which ...int) (wait func()) {
	var all sync.WaitGroup
	for _, n := range which {
		all.Go(func() {
			if stored, err := Settle(ctx, s.config(n)); err == nil && stored.ClusterID != s.knows(n) {
				s.t.Errorf("coordinator-%d has %q, its disk %q", n, stored.ClusterID, s.knows(n))
			}
		})
	}
	return all.Wait
}

// Any number of coordinators that start at once agree on one cluster ID.
func TestGEN01_CoordinatorsThatStartAtOnceAgreeOnOneClusterID(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range []int{1, 3, 5} {
		synctest.Test(t, func(t *testing.T) {
			s := newSet(t, n)
			var which []int
			for i := range n {
				which = append(which, i)
			}
			s.start(t.Context(), which...)()
			first := s.knows(0)
			if err := clusterid.Check(first); err != nil || seen[first] {
				t.Errorf("%d coordinators: cluster ID %q: %v", n, first, err)
			}
			seen[first] = true
			for i := range n {
				if s.knows(i) != first {
					t.Errorf("coordinator-%d of %d is of %q, coordinator-0 of %q", i, n, s.knows(i), first)
				}
			}
		})
	}
}

// A silent coordinator may have a cluster ID, so a part of the coordinators makes none. Once all
// answer, there is one.
func TestGEN01_APartOfTheCoordinatorsCreatesNoClusterID(t *testing.T) {
	for name, away := range map[string][]int{"coordinator-0": {0}, "one other": {2}, "both others": {1, 2}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSet(t, 3)
			s.isolate(true, away...)
			wait := s.start(t.Context(), 0, 1, 2)
			time.Sleep(time.Hour)
			for n := range 3 {
				if id := s.knows(n); id != "" {
					t.Errorf("without %s coordinator-%d is of cluster ID %s", name, n, id)
				}
			}
			s.isolate(false, away...)
			wait()
			if first := s.knows(0); first == "" || s.knows(1) != first || s.knows(2) != first {
				t.Errorf("after %s came back: %q, %q, %q", name, first, s.knows(1), s.knows(2))
			}
		})
	}
}

// Coordinator-0 too makes no second cluster ID, and waits for the coordinators that may have one.
func TestGEN01_GEN05_AnEmptyDiskJoinsTheOthersClusterID(t *testing.T) {
	for lost := range 3 {
		synctest.Test(t, func(t *testing.T) {
			s := newSet(t, 3)
			for n := range 3 {
				if n != lost {
					if err := (Stored{ClusterID: one, Recorded: true}).save(s.dirs[n]); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.isolate(true, (lost+1)%3, (lost+2)%3)
			wait := s.start(t.Context(), lost)
			time.Sleep(time.Hour)
			if id := s.knows(lost); id != "" {
				t.Fatalf("coordinator-%d is of %s while the others are away", lost, id)
			}
			s.isolate(false, (lost+1)%3)
			wait()
			if id := s.knows(lost); id != one {
				t.Errorf("coordinator-%d is of %q", lost, id)
			}
		})
	}
}

// Given two cluster IDs, a coordinator with an empty disk chooses neither and does not start.
func TestGEN01_TwoClusterIDsAreNotChosenFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, 3)
		if err := errors.Join((Stored{ClusterID: one}).save(s.dirs[1]), (Stored{ClusterID: another}).save(s.dirs[2])); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait := s.start(ctx, 0)
		time.Sleep(time.Hour)
		cancel()
		wait()
		if id := s.knows(0); id != "" {
			t.Errorf("it chose %s", id)
		}
		err := Disagree(t.Context(), s.config(1), one)
		if err == nil || !strings.Contains(err.Error(), "GENESIS_CONFLICT") || !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), another) {
			t.Errorf("%v", err)
		}
	})
}

// With a cluster ID in the measured trust file, coordinators with empty disks make no second
// cluster.
func TestGEN02_APinnedClusterIDIsJoinedAndNeverMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, 1)
		cfg := s.config(0)
		cfg.Pinned = one
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if stored, err := Settle(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) || s.knows(0) != "" {
			t.Errorf("an empty disk: %+v, %v", stored, err)
		}
		if err := (Stored{ClusterID: another}).save(cfg.StateDir); err != nil {
			t.Fatal(err)
		}
		_, err := Settle(t.Context(), cfg)
		if _, other := errors.AsType[*clusterid.MismatchError](err); !other || !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), another) {
			t.Errorf("a disk of another: %v", err)
		}
		cfg.Pinned = another
		if stored, err := Settle(t.Context(), cfg); err != nil || stored.ClusterID != another {
			t.Errorf("a disk of that one: %+v, %v", stored, err)
		}
	})
}

// A disk with Consul's records and without a cluster ID has lost it, so no new one is made.
func TestGEN01_NoClusterIDIsCreatedOverOldRecords(t *testing.T) {
	s := newSet(t, 1)
	if err := os.MkdirAll(filepath.Join(s.dirs[0], "consul", "raft"), 0o700); err != nil {
		t.Fatal(err)
	}
	if stored, err := Settle(t.Context(), s.config(0)); err == nil || !strings.Contains(err.Error(), "DISK_IDENTITY_MISMATCH") {
		t.Errorf("%+v, %v", stored, err)
	}
}
