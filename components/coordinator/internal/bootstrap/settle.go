package bootstrap

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cadre.dev/core/clusterid"
)

const (
	// askEvery is the time between two rounds of questions.
	askEvery = time.Second
	// askTime bounds one question: a quote takes about a second on real hardware.
	askTime = 20 * time.Second
)

// Config of Settle and Disagree. All fields are required except Pinned and Restore.
type Config struct {
	Ordinal, Replicas int
	// Pinned is the trust file's cluster ID; "" for none.
	Pinned string
	// Restore is the cluster ID of the backup that is to be restored, an untrusted hint; "" for
	// none.
	Restore  string
	StateDir string
	// Ask asks another coordinator to prove its cluster ID; "" for none. An error means that it did
	// not answer.
	Ask func(ctx context.Context, ordinal int) (string, error)
	Log *slog.Logger
}

// Settle returns the cluster ID of this coordinator. Settle takes the ID from its disk, else from
// the other coordinators, which must prove it. If no coordinator has one, coordinator-0 makes a new
// ID. The cluster ID is on the disk when Settle returns. Without answers Settle waits until ctx
// ends; any other error is final.
func Settle(ctx context.Context, cfg Config) (Stored, error) {
	stored, err := Load(cfg.StateDir)
	if err != nil {
		return Stored{}, err
	}
	if stored.ClusterID != "" {
		if cfg.Pinned != "" && cfg.Pinned != stored.ClusterID {
			return Stored{}, &clusterid.MismatchError{Who: "this coordinator's disk", Got: stored.ClusterID, Pinned: cfg.Pinned, Where: "the measured trust file",
				WayOut: "name the right one there, or give this coordinator an empty disk"}
		}
		return stored, nil
	}
	last := ""
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		step, err := clusterid.Settle(cfg.Ordinal, cfg.Replicas, cfg.Pinned, cfg.Restore, askAll(ctx, cfg))
		if ctx.Err() != nil {
			return Stored{}, ctx.Err()
		}
		switch {
		case err == nil && step.Join != "":
			stored.ClusterID = step.Join
			cfg.Log.Info("this coordinator joins the existing cluster", "cluster_id", stored.ClusterID)
			return stored, stored.save(cfg.StateDir)
		case err == nil && (step.Found || step.Restore != ""):
			if stored, err = begin(cfg, step.Restore); err != nil {
				return Stored{}, err
			}
			return stored, stored.save(cfg.StateDir)
		case err != nil && err.Error() != last:
			last = err.Error()
			cfg.Log.Error("the cluster ID is not settled; the coordinator does not start", "error", err)
		case err == nil && step.Wait != last:
			last = step.Wait
			cfg.Log.Info("the cluster ID is not settled yet", "missing", step.Wait)
		}
		select {
		case <-ctx.Done():
			return Stored{}, ctx.Err()
		case <-tick.C:
		}
	}
}

// begin draws a new cluster ID, or takes that of a backup, on a disk that was in no cluster. Only
// the coordinator that drew the ID creates its record (see Record).
func begin(cfg Config, restore string) (Stored, error) {
	old, err := os.ReadDir(filepath.Join(cfg.StateDir, "consul"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Stored{}, fmt.Errorf("create the cluster ID: %w", err)
	}
	if len(old) > 0 {
		return Stored{}, errors.New("DISK_IDENTITY_MISMATCH: this disk has Consul's records and no cluster ID, and no other coordinator has one. A new cluster ID is never created over old records: start the coordinators with complete disks, or give this one an empty disk")
	}
	if restore != "" {
		cfg.Log.Warn("this coordinator waits for the backup of a cluster", "cluster_id", restore)
		return Stored{ClusterID: restore}, nil
	}
	var random [clusterid.Size]byte
	if _, err := rand.Read(random[:]); err != nil {
		return Stored{}, fmt.Errorf("create the cluster ID: %w", err)
	}
	id := clusterid.Encode(random)
	cfg.Log.Info("this coordinator creates the cluster", "cluster_id", id)
	return Stored{ClusterID: id, Drawn: true}, nil
}

// askAll asks every other coordinator once, concurrently.
func askAll(ctx context.Context, cfg Config) clusterid.Answers {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var (
		mu      sync.Mutex
		answers = clusterid.Answers{}
		all     sync.WaitGroup
	)
	for n := range cfg.Replicas {
		if n == cfg.Ordinal {
			continue
		}
		all.Go(func() {
			id, err := cfg.Ask(ctx, n)
			if err != nil {
				cfg.Log.Debug("coordinator did not prove its cluster ID", "ordinal", n, "error", err)
				return
			}
			mu.Lock()
			answers[n] = id
			mu.Unlock()
		})
	}
	all.Wait()
	return answers
}

// Disagree asks the other coordinators once whether they also have own. The error
// (GENESIS_CONFLICT) names the coordinators with another cluster ID.
func Disagree(ctx context.Context, cfg Config, own string) error {
	said := map[string][]string{own: {slot(cfg.Ordinal)}}
	for n, id := range askAll(ctx, cfg) {
		if id != "" {
			said[id] = append(said[id], slot(n))
		}
	}
	if len(said) > 1 {
		return clusterid.Conflict(said)
	}
	return nil
}

func slot(n int) string { return fmt.Sprintf("coordinator-%d", n) }
