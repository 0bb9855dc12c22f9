package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/link"
)

const (
	// MaxPings bounds the round trips of one [Ping].
	MaxPings = 50
	// pingEvery is the pause between two round trips.
	pingEvery = 200 * time.Millisecond
	// pingWait is how long an answer may take before it counts as lost.
	pingWait = 2 * time.Second
)

// errNoAnswer ends a round trip that takes too long.
var errNoAnswer = fmt.Errorf("no answer within %v", pingWait)

// PingSample is one round trip.
type PingSample struct {
	// RTT is 0 when Err is not nil.
	RTT time.Duration
	// Path and Carrier describe the Session that carried it.
	Path    link.Kind
	Carrier string
	// Err is why there was no answer.
	Err error
}

// PingResult is the result of one [Ping], in the order of time.
type PingResult struct {
	Peer    identity.ID
	Samples []PingSample
}

// Ping measures count round trips, 200 ms apart, each over the Session in use at its
// start. An error means that nothing was measured. When ctx ends, Ping returns the samples
// so far.
func Ping(ctx context.Context, l Link, count int) ([]PingSample, error) {
	if count < 1 || count > MaxPings {
		return nil, fmt.Errorf("%d round trips: want 1 to %d", count, MaxPings)
	}
	l.Await(ctx)
	var samples []PingSample
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		sample := pingOnce(ctx, l)
		if len(samples) == 0 && sample.Err != nil && (errors.Is(sample.Err, ErrNoSession) || ctx.Err() != nil) {
			return nil, sample.Err
		}
		if ctx.Err() != nil && sample.Err != nil {
			return samples, nil // the last one was cut short
		}
		samples = append(samples, sample)
		if len(samples) == count {
			return samples, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return samples, nil
		}
	}
}

func pingOnce(ctx context.Context, l Link) PingSample {
	s, path, err := l.Used()
	if err != nil {
		return PingSample{Path: link.KindNone, Err: err}
	}
	if ctx.Err() != nil {
		// The answer may come as soon as it is asked for.
		return PingSample{Path: path, Carrier: s.Path.Carrier, Err: context.Cause(ctx)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pingWait, errNoAnswer)
	defer cancel()
	rtt, err := s.Ping(ctx)
	return PingSample{RTT: rtt, Path: path, Carrier: s.Path.Carrier, Err: err}
}
