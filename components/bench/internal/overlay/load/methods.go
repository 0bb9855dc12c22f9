package load

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"cadre.dev/lab/worker"
)

// BulkArgs, PingArgs and BeatArgs are the arguments of the methods of [Client].
type (
	// BulkArgs open Streams connections to To.
	BulkArgs struct {
		To      string `json:"to"`
		Streams int    `json:"streams"`
	}
	// PingArgs ping To for a time.
	PingArgs struct {
		To      string        `json:"to"`
		Lasting time.Duration `json:"lasting"`
	}
	// BeatArgs ping To at an interval.
	BeatArgs struct {
		To    string        `json:"to"`
		Every time.Duration `json:"every"`
	}
	// Nothing is no arguments, or no result.
	Nothing struct{}
)

// Client gives the methods of a source of traffic: "bulk" and "bulk-stop", one
// bulk at a time; "ping"; "beat" and "beat-stop", one beat at a time. life ends
// with the worker.
func Client(life context.Context, dial Dialer) map[string]worker.Method {
	var (
		mu     sync.Mutex
		flow   *bulk
		pulse  *beat
		errOne = errors.New("one at a time")
	)
	return map[string]worker.Method{
		"bulk": worker.Typed(func(_ context.Context, a BulkArgs) (Nothing, error) {
			mu.Lock()
			defer mu.Unlock()
			if flow != nil {
				return Nothing{}, errOne
			}
			f, err := startBulk(life, dial, a.To, a.Streams)
			if err != nil {
				return Nothing{}, err
			}
			flow = f
			return Nothing{}, nil
		}),
		"bulk-stop": worker.Typed(func(context.Context, Nothing) (Nothing, error) {
			mu.Lock()
			defer mu.Unlock()
			if flow == nil {
				return Nothing{}, nil
			}
			err := flow.stop()
			flow = nil
			return Nothing{}, err
		}),
		"ping": worker.Typed(func(ctx context.Context, a PingArgs) (Latency, error) {
			return pings(ctx, dial, a.To, a.Lasting)
		}),
		"beat": worker.Typed(func(_ context.Context, a BeatArgs) (Nothing, error) {
			mu.Lock()
			defer mu.Unlock()
			if pulse != nil {
				return Nothing{}, errOne
			}
			b, err := startBeat(life, dial, a.To, a.Every)
			if err != nil {
				return Nothing{}, err
			}
			pulse = b
			return Nothing{}, nil
		}),
		"beat-stop": worker.Typed(func(context.Context, Nothing) (Silence, error) {
			mu.Lock()
			defer mu.Unlock()
			if pulse == nil {
				return Silence{}, errors.New("no beat to stop")
			}
			s := pulse.stop()
			pulse = nil
			return s, nil
		}),
	}
}

// Methods adds "count" of a server to the methods of a client.
func Methods(client map[string]worker.Method, s *Server) map[string]worker.Method {
	all := maps.Clone(client)
	all["count"] = worker.Typed(func(context.Context, Nothing) (Count, error) { return s.Count(), nil })
	return all
}
