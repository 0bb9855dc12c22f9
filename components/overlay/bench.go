package overlay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
)

var (
	// ErrBenchForbidden reports a Peer that lets this node measure nothing.
	ErrBenchForbidden = errors.New("the peer was not told to take part in a bench")
	// ErrBenchBusy reports that either node takes part in another bench.
	ErrBenchBusy = errors.New("another bench is running")
)

// BenchDirection tells who sends.
type BenchDirection string

const (
	// BenchSend: this node sends to the Peer.
	BenchSend BenchDirection = "send"
	// BenchReceive: the Peer sends to this node.
	BenchReceive BenchDirection = "receive"
)

// Bounds of one bench, kept by both sides.
const (
	// MaxBenchTime is how long it may last.
	MaxBenchTime = frame.MaxBenchTime
	// MaxBenchBytes is how much it may move.
	MaxBenchBytes = frame.MaxBenchBytes
	// benchSlack is what opening, answering and ending may take together.
	benchSlack = 10 * time.Second
	// benchWait is how long a bench waits for the end of another.
	benchWait = time.Second
	// benchPing is how often the round trip under load is measured.
	benchPing = 100 * time.Millisecond
)

// BenchResult is what one bench measured.
type BenchResult struct {
	Peer      ID
	Direction BenchDirection
	// Bytes arrived within Took, which begins with the first of them.
	Bytes uint64
	Took  time.Duration
	// Path and Carrier are those of the Session that carried it. Moved tells that
	// the Link's path changed meanwhile: then the figures are of more than one path.
	Path    PathKind
	Carrier string
	Moved   bool
	// RTT is one round trip before, LoadedRTT the median of those meanwhile; 0 when
	// there was time for none.
	RTT, LoadedRTT time.Duration
}

// Mbps is the throughput in millions of bits a second, without what the carrier
// adds; 0 when nothing was measured.
func (r BenchResult) Mbps() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Bytes) * 8 / 1e6 / r.Took.Seconds()
}

// Bench moves bytes over one stream of the Session in use for d, at most
// [MaxBenchTime], or until [MaxBenchBytes] have arrived, and tells how fast they
// came. It loads the path as any forwarded connection would. The Peer takes part
// only if this node is a coordinator of its map, or if it was told to with
// [Node.AllowBench]. A node takes part in one bench at a time.
func (n *Node) Bench(ctx context.Context, id ID, d time.Duration, direction BenchDirection) (BenchResult, error) {
	req := frame.BenchRequest{Direction: frame.BenchSend, Time: d, Bytes: MaxBenchBytes}
	switch {
	case direction == BenchReceive:
		req.Direction = frame.BenchReceive
	case direction != BenchSend:
		return BenchResult{}, fmt.Errorf("bench %s: direction %q: want %s or %s", id, direction, BenchSend, BenchReceive)
	}
	if d < time.Millisecond || d > MaxBenchTime {
		return BenchResult{}, fmt.Errorf("bench %s: %v: want 1ms to %v", id, d, MaxBenchTime)
	}
	l, err := n.link(id)
	if err != nil {
		return BenchResult{}, fmt.Errorf("bench %s: %w", id, err)
	}
	if !n.beginBench() {
		return BenchResult{}, fmt.Errorf("bench %s: %w", id, ErrBenchBusy)
	}
	defer n.endBench()
	res, err := l.bench(ctx, req)
	if err != nil {
		return BenchResult{}, fmt.Errorf("bench %s: %w", id, err)
	}
	res.Peer, res.Direction = id, direction
	return res, nil
}

// beginBench takes the one place there is. One bench may begin a moment before the
// end of another has come through, so it waits a little.
func (n *Node) beginBench() bool {
	wait := time.NewTimer(benchWait)
	defer wait.Stop()
	select {
	case n.benching <- struct{}{}:
		return true
	case <-wait.C:
		return false
	}
}

func (n *Node) endBench() { <-n.benching }

func (l *peerLink) bench(ctx context.Context, req frame.BenchRequest) (BenchResult, error) {
	l.awaitSession(ctx)
	s, path, err := l.used()
	if err != nil {
		return BenchResult{}, err
	}
	l.forward.Hold(s.Session)
	defer l.forward.Release(s.Session)
	res := BenchResult{Path: path, Carrier: s.path.carrier}
	changes := l.pathChanges()
	ctx, cancel := context.WithTimeoutCause(ctx, req.Time+benchSlack, errSlowBench)
	defer cancel()
	if res.RTT, err = s.Ping(ctx); err != nil {
		return BenchResult{}, err
	}
	st, err := s.OpenStream()
	if err != nil {
		return BenchResult{}, err
	}
	reset := sync.OnceFunc(st.Reset)
	defer reset()
	stop := context.AfterFunc(ctx, reset)
	defer stop()

	count, err := runBench(ctx, s, st, reset, req, &res)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return BenchResult{}, err
	}
	res.Bytes, res.Took = uint64(count.Bytes), count.Took
	res.Moved = l.pathChanges() != changes
	return res, nil
}

// errSlowBench ends a bench that does not get on.
var errSlowBench = errors.New("bench took too long")

// runBench asks for the bench on st and carries it out.
func runBench(ctx context.Context, s carrier.Session, st carrier.Stream, reset func(), req frame.BenchRequest, res *BenchResult) (frame.BenchCount, error) {
	if _, err := st.Write(req.Append(frame.Header{Kind: frame.KindBench}.Append(nil))); err != nil {
		return frame.BenchCount{}, err
	}
	code, err := frame.ReadReply(st)
	switch {
	case err != nil:
		return frame.BenchCount{}, err
	case code == frame.BenchForbidden:
		return frame.BenchCount{}, ErrBenchForbidden
	case code == frame.Overloaded:
		return frame.BenchCount{}, fmt.Errorf("%w at the peer", ErrBenchBusy)
	case code != frame.Accepted:
		return frame.BenchCount{}, fmt.Errorf("the peer refuses: %s", code)
	}
	loaded, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { res.LoadedRTT = medianRTT(loaded, s) })
	defer beside.Wait()
	defer cancel()
	if req.Direction == frame.BenchReceive {
		return countBench(st, req)
	}
	beside.Go(func() { sendBench(st, req) })
	count, err := frame.ReadBenchCount(st)
	reset() // what is still on its way is of no use
	return count, err
}

// medianRTT measures round trips until ctx ends.
func medianRTT(ctx context.Context, s carrier.Session) time.Duration {
	tick := time.NewTicker(benchPing)
	defer tick.Stop()
	var all []time.Duration
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			if len(all) == 0 {
				return 0
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		if rtt, err := s.Ping(ctx); err == nil {
			all = append(all, rtt)
		}
	}
}

// pathChanges is how often the Link's path has changed.
func (l *peerLink) pathChanges() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history.total
}
