package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
)

var (
	// ErrBenchForbidden reports a Peer that lets this node measure nothing.
	ErrBenchForbidden = errors.New("the peer has no permission to take part in a bench")
	// ErrBenchBusy reports that either node takes part in another bench.
	ErrBenchBusy = errors.New("another bench is running")
	// errSlowBench ends a bench that does not get on.
	errSlowBench = errors.New("bench took too long")
)

// BenchDirection selects the sender.
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
	// benchSlack bounds opening, answering and ending together.
	benchSlack = 10 * time.Second
	// benchPing is how often the round trip under load is measured.
	benchPing = 100 * time.Millisecond
)

// BenchResult is the result of one bench.
type BenchResult struct {
	Peer      identity.ID
	Direction BenchDirection
	// Bytes arrived within Took, which begins with the first of them.
	Bytes uint64
	Took  time.Duration
	// Path and Carrier describe the Session that carried it. Moved: the Link's path
	// changed meanwhile, so that the figures mix paths.
	Path    link.Kind
	Carrier string
	Moved   bool
	// RTT is one round trip before, LoadedRTT the median of those meanwhile; 0 when
	// there was time for none.
	RTT, LoadedRTT time.Duration
}

// Mbps is the throughput in millions of bits a second, without the carrier's overhead; 0
// without a measurement.
func (r BenchResult) Mbps() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Bytes) * 8 / 1e6 / r.Took.Seconds()
}

// Bench moves bytes over one stream of the Session in use for d, or until MaxBenchBytes
// have arrived, and returns their rate.
func Bench(ctx context.Context, l Link, at *Place, d time.Duration, direction BenchDirection) (BenchResult, error) {
	req := frame.BenchRequest{Direction: frame.BenchSend, Time: d, Bytes: MaxBenchBytes}
	switch {
	case direction == BenchReceive:
		req.Direction = frame.BenchReceive
	case direction != BenchSend:
		return BenchResult{}, fmt.Errorf("direction %q: want %s or %s", direction, BenchSend, BenchReceive)
	}
	if d < time.Millisecond || d > MaxBenchTime {
		return BenchResult{}, fmt.Errorf("%v: want 1ms to %v", d, MaxBenchTime)
	}
	if !at.Take() {
		return BenchResult{}, ErrBenchBusy
	}
	defer at.Give()
	l.Await(ctx)
	s, path, err := l.Used()
	if err != nil {
		return BenchResult{}, err
	}
	defer l.Retain(s)()
	res := BenchResult{Path: path, Carrier: s.Path.Carrier, Direction: direction}
	moves := l.Moves()
	ctx, cancel := context.WithTimeoutCause(ctx, req.Time+benchSlack, errSlowBench)
	defer cancel()
	if res.RTT, err = s.Ping(ctx); err != nil {
		return BenchResult{}, err
	}
	count, loaded, err := begin(ctx, s, req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return BenchResult{}, err
	}
	res.Bytes, res.Took, res.LoadedRTT = uint64(count.Bytes), count.Took, loaded
	res.Moved = l.Moves() != moves
	return res, nil
}

// begin asks for a bench on a stream of its own and carries it out.
func begin(ctx context.Context, s carrier.Session, req frame.BenchRequest) (frame.BenchCount, time.Duration, error) {
	st, err := s.OpenStream()
	if err != nil {
		return frame.BenchCount{}, 0, err
	}
	reset := sync.OnceFunc(st.Reset)
	defer reset()
	defer context.AfterFunc(ctx, reset)()
	if _, err := st.Write(req.Append(frame.Header{Kind: frame.KindBench}.Append(nil))); err != nil {
		return frame.BenchCount{}, 0, err
	}
	if err := accepted(st); err != nil {
		return frame.BenchCount{}, 0, err
	}
	var rtt time.Duration
	loaded, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { rtt = medianRTT(loaded, s) })
	ended := func() {
		cancel()
		beside.Wait()
	}
	defer ended()
	var count frame.BenchCount
	if req.Direction == frame.BenchReceive {
		count, err = receive(st, req)
	} else {
		beside.Go(func() { send(st, req) })
		count, err = frame.ReadBenchCount(st)
		reset() // data that is still on its way is of no use
	}
	ended()
	return count, rtt, err
}

// accepted reads the Peer's answer.
func accepted(st carrier.Stream) error {
	code, err := frame.ReadReply(st)
	switch {
	case err != nil:
		return err
	case code == frame.BenchForbidden:
		return ErrBenchForbidden
	case code == frame.Overloaded:
		return fmt.Errorf("%w at the peer", ErrBenchBusy)
	case code != frame.Accepted:
		return fmt.Errorf("the peer refuses: %s", code)
	}
	return nil
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
