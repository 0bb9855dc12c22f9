package contest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/bench/internal/overlay/ours"
	"cadre.dev/lab/worker"
)

// line is a contender that is set up: where traffic goes in and out.
type line struct {
	bulkFrom, bulkAt *worker.Process
	bulkTo           string
	pingFrom         *worker.Process
	pingTo           string
	// ends are all processes of bulk at either end; tunnels are the ones among them that are not
	// the application.
	ends, tunnels []*worker.Process
	// session: bulk is a stream of the overlay's own Session. The coordinator asks the other end
	// for it, which permits one stream of a coordinator at a time.
	session bool
}

// Workload is a task for a contender.
type Workload string

const (
	// OneStream is bulk on one stream.
	OneStream Workload = "one-stream"
	// EightStreams is bulk on eight.
	EightStreams Workload = "eight-streams"
	// IdlePing is ping-pong while nothing else runs.
	IdlePing Workload = "idle-ping"
	// LoadedPing is ping-pong while one stream of bulk runs.
	LoadedPing Workload = "loaded-ping"
)

// Workloads are all of them, in the order they are run.
var Workloads = []Workload{IdlePing, OneStream, EightStreams, LoadedPing}

// Flow is a measured bulk.
type Flow struct {
	Mbps float64
	// CPU is CPU seconds for a gigabyte (10^9 bytes), of both ends; Tunnel is the
	// part of it that the application has not used.
	CPU, Tunnel float64
}

// Result is a contender's result in a round; workloads that were not run are zero.
type Result struct {
	One, Eight   Flow
	Idle, Loaded load.Latency
}

// pace is how long things are measured.
type pace struct {
	window time.Duration // of a measurement
	warm   time.Duration // before it
}

func paceOf(window time.Duration) pace {
	return pace{window: window, warm: min(window/3, time.Second)}
}

// settleTime bounds the arrival of queued bytes after bulk has stopped.
const settleTime = 5 * time.Second

// measure runs the workloads that are wanted.
func (l *line) measure(ctx context.Context, p pace, wanted map[Workload]bool) (Result, error) {
	var r Result
	for _, w := range Workloads {
		if !wanted[w] {
			continue
		}
		var err error
		switch w {
		case IdlePing:
			r.Idle, err = l.ping(ctx, p.window/2)
		case OneStream:
			r.One, err = l.flow(ctx, p, 1)
		case EightStreams:
			if !l.session {
				r.Eight, err = l.flow(ctx, p, 8)
			}
		case LoadedPing:
			r.Loaded, err = l.loadedPing(ctx, p)
		}
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", w, err)
		}
	}
	return r, nil
}

// flow measures bulk inside a window, when it has warmed up: bytes at the
// receiver, CPU time at both ends.
func (l *line) flow(ctx context.Context, p pace, streams int) (Flow, error) {
	if l.session {
		return l.sessionFlow(ctx, p)
	}
	var f Flow
	err := l.during(ctx, streams, func() error {
		if err := wait(ctx, p.warm); err != nil {
			return err
		}
		before, err := l.look(ctx)
		if err != nil {
			return err
		}
		if err := wait(ctx, p.window); err != nil {
			return err
		}
		after, err := l.look(ctx)
		if err != nil {
			return err
		}
		f, err = after.since(before)
		return err
	})
	return f, err
}

// sessionFlow is flow where one end reports the arrived bytes. The Session that has warmed up is
// measured.
func (l *line) sessionFlow(ctx context.Context, p pace) (Flow, error) {
	if err := l.bulkAt.Call(ctx, "flow", ours.Flow{Lasting: p.warm}, nil); err != nil {
		return Flow{}, err
	}
	before, err := l.spent()
	if err != nil {
		return Flow{}, err
	}
	var moved ours.Moved
	if err := l.bulkAt.Call(ctx, "flow", ours.Flow{Lasting: p.window}, &moved); err != nil {
		return Flow{}, err
	}
	after, err := l.spent()
	if err != nil {
		return Flow{}, err
	}
	after.count = load.Count{Bytes: moved.Bytes, At: moved.Took}
	return after.since(before)
}

func (l *line) loadedPing(ctx context.Context, p pace) (load.Latency, error) {
	var latency load.Latency
	err := l.during(ctx, 1, func() error {
		if err := wait(ctx, p.warm); err != nil {
			return err
		}
		var err error
		latency, err = l.ping(ctx, p.window)
		return err
	})
	return latency, err
}

func (l *line) ping(ctx context.Context, lasting time.Duration) (load.Latency, error) {
	var latency load.Latency
	err := l.pingFrom.Call(ctx, "ping", load.PingArgs{To: l.pingTo, Lasting: lasting}, &latency)
	return latency, err
}

// during runs f while bulk runs, and returns when all bulk has arrived.
func (l *line) during(ctx context.Context, streams int, f func() error) error {
	if err := l.bulkFrom.Call(ctx, "bulk", load.BulkArgs{To: l.bulkTo, Streams: streams}, nil); err != nil {
		return err
	}
	err := f()
	if err := errors.Join(err, l.bulkFrom.Call(ctx, "bulk-stop", struct{}{}, nil)); err != nil {
		return err
	}
	return l.settle(ctx)
}

func (l *line) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleTime, errors.New("bulk went on after its end"))
	defer cancel()
	last := int64(-1)
	for {
		count, err := ask[load.Count](ctx, l.bulkAt, "count")
		if err != nil {
			return err
		}
		if count.Bytes == last {
			return nil
		}
		last = count.Bytes
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// reading is the work done up to a moment.
type reading struct {
	count       load.Count
	cpu, tunnel time.Duration
}

func (l *line) look(ctx context.Context) (reading, error) {
	count, err := ask[load.Count](ctx, l.bulkAt, "count")
	if err != nil {
		return reading{}, err
	}
	r, err := l.spent()
	r.count = count
	return r, err
}

// spent is a reading without the count.
func (l *line) spent() (r reading, err error) {
	if r.cpu, err = cpu(l.ends); err != nil {
		return reading{}, err
	}
	r.tunnel, err = cpu(l.tunnels)
	return r, err
}

func cpu(processes []*worker.Process) (time.Duration, error) {
	var sum time.Duration
	for _, p := range processes {
		t, err := p.CPU()
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

func (r reading) since(before reading) (Flow, error) {
	bytes := float64(r.count.Bytes - before.count.Bytes)
	if bytes <= 0 {
		return Flow{}, errors.New("no bulk arrived")
	}
	return Flow{
		Mbps:   bytes * 8 / 1e6 / (r.count.At - before.count.At).Seconds(),
		CPU:    (r.cpu - before.cpu).Seconds() / (bytes / 1e9),
		Tunnel: (r.tunnel - before.tunnel).Seconds() / (bytes / 1e9),
	}, nil
}

// wait is the pause of a measurement.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
