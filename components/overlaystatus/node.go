package overlaystatus

import (
	"context"
	"time"

	"cadre.dev/overlay"
)

// Node is the node that is asked. Safe for concurrent use.
type Node interface {
	Sessions() []overlay.SessionInfo
	PathChanges(id overlay.ID) []overlay.PathChange
	Stats() overlay.Stats
	Ping(ctx context.Context, id overlay.ID, count int) (overlay.PingResult, error)
	Bench(ctx context.Context, id overlay.ID, d time.Duration, direction overlay.BenchDirection) (overlay.BenchResult, error)
	AllowBench(id overlay.ID, d time.Duration) error
}

var _ Node = (*overlay.Node)(nil)
