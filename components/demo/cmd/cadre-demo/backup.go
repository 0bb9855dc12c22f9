package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"cadre.dev/demo/internal/rig"
)

// drillBackup loses all coordinators of the PostgreSQL cluster under load.
func drillBackup(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string) error {
	return drill(ctx, r, lostTime, func(ctx context.Context) error {
		if err := r.Deploy(ctx, n); err != nil {
			return err
		}
		report, err := r.LoseCoordinators(ctx, n, rig.Lost{
			Group: rig.Postgres, ClusterFile: "clusters/postgres/cluster.hcl",
			Roll: func(ctx context.Context) error {
				if err := r.ApplyPostgres(ctx, "2"); err != nil {
					return err
				}
				_, err := r.Follow(ctx, rig.Postgres, n.Rollout)
				return err
			},
		})
		if err == nil {
			err = r.LoadVerdict(ctx, n, &report)
		}
		return writeLost(report, err, filepath.Join(out, "drill-backup.json"))
	})
}

// drillBackupOld loses all coordinators of the light cluster after a scale-out that the backup lacks.
func drillBackupOld(ctx context.Context, r *rig.Rig, n *rig.Narrator, out string) error {
	return drillLight(ctx, r, n, func(ctx context.Context, apply func(context.Context) error) error {
		grow := func(ctx context.Context) error {
			_, err := r.ApplyLight(ctx, r.LightFile(), "1", "--var", "replicas=4")
			return err
		}
		report, err := r.LoseCoordinators(ctx, n, rig.Lost{
			Group: rig.Light, ClusterFile: "clusters/light/cluster.hcl", SinceSlot: "light-3", Repeat: grow,
			Since: func(ctx context.Context) error {
				if err := grow(ctx); err != nil {
					return err
				}
				_, err := r.Follow(ctx, rig.Light, n.Rollout)
				return err
			},
			Roll: func(ctx context.Context) error {
				if _, err := r.ApplyLight(ctx, r.LightFile(), "2", "--var", "replicas=4"); err != nil {
					return err
				}
				_, err := r.Follow(ctx, rig.Light, n.Rollout)
				return err
			},
		})
		return writeLost(report, err, filepath.Join(out, "drill-backup-old.json"))
	})
}

// lostTime bounds a drill that makes all coordinators twice.
const lostTime = 25 * time.Minute

func writeLost(report rig.LostReport, err error, file string) error {
	if report.RestoredS > 0 {
		report.Print(os.Stdout)
		err = errors.Join(err, rig.Write(file, report))
	}
	return err
}
