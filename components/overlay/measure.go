package overlay

import (
	"context"
	"fmt"
	"time"

	"cadre.dev/overlay/internal/measure"
)

const (
	// MaxPings bounds the round trips of one [Node.Ping].
	MaxPings = measure.MaxPings
	// MaxBenchTime is how long one [Node.Bench] may last, MaxBenchBytes how much it may
	// move. Both sides keep them.
	MaxBenchTime  = measure.MaxBenchTime
	MaxBenchBytes = measure.MaxBenchBytes

	// BenchSend: this node sends to the Peer.
	BenchSend = measure.BenchSend
	// BenchReceive: the Peer sends to this node.
	BenchReceive = measure.BenchReceive

	// maxBenchGrant is how long a Peer may be allowed to begin a bench.
	maxBenchGrant = time.Minute
)

// Ping measures count round trips to a Peer, 200 ms apart, each over the Session in use
// at its start, ahead of waiting bulk data. A round trip without an answer within 2 s, or
// with the end of its Session, is a sample with an error. An error of Ping itself,
// [ErrUnknownPeer] or [ErrNoSession] among others, means that nothing was measured. When
// ctx ends, Ping returns the samples so far.
func (n *Node) Ping(ctx context.Context, id ID, count int) (PingResult, error) {
	p, err := n.peer(id)
	if err == nil {
		var samples []PingSample
		if samples, err = measure.Ping(ctx, p, count); err == nil {
			return PingResult{Peer: id, Samples: samples}, nil
		}
	}
	return PingResult{}, fmt.Errorf("ping %s: %w", id, err)
}

// Bench moves bytes over one stream of the Session in use for d, at most [MaxBenchTime],
// or until [MaxBenchBytes] have arrived, and returns their rate. It loads the path as any
// forwarded connection would. The Peer takes part only if this node is a coordinator of
// its map, or after a permission by [Node.AllowBench]. A node takes part in one bench at
// a time.
func (n *Node) Bench(ctx context.Context, id ID, d time.Duration, direction BenchDirection) (BenchResult, error) {
	p, err := n.peer(id)
	if err == nil {
		var res BenchResult
		if res, err = measure.Bench(ctx, p, n.benches, d, direction); err == nil {
			res.Peer = id
			return res, nil
		}
	}
	return BenchResult{}, fmt.Errorf("bench %s: %w", id, err)
}

// AllowBench lets a Peer that is no coordinator begin one bench with this node within d,
// at most a minute. Only a coordinator can grant this to the node, over its control
// session. Coordinators of the map need no such permission.
func (n *Node) AllowBench(id ID, d time.Duration) error {
	if d <= 0 || d > maxBenchGrant {
		return fmt.Errorf("allow bench of %s: %v: want up to %v", id, d, maxBenchGrant)
	}
	p, err := n.peer(id)
	if err != nil {
		return fmt.Errorf("allow bench of %s: %w", id, err)
	}
	p.AllowBench(d)
	return nil
}
