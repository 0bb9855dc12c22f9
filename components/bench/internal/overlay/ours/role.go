package ours

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"cadre.dev/bench/internal/overlay/load"
	"cadre.dev/lab/worker"
	"cadre.dev/overlay"
)

// Await are the arguments of "await".
type Await struct {
	Carriers []Carrier     `json:"carriers"` // none means any
	Within   time.Duration `json:"within"`
}

// Flow are the arguments of "flow".
type Flow struct {
	Lasting time.Duration `json:"lasting"`
}

// Moved is the traffic of one stream of the Peer.
type Moved struct {
	Bytes int64         `json:"bytes"`
	Took  time.Duration `json:"took"` // since the first of them arrived
}

// Role is the role "node". Beyond the methods of package load on a Session itself
// (pings: see [streams]; "bulk", which comes from the Peer: see [running.flow]): "flow"
// of one stream for a time, "address" of its listener, "await" a Session with every
// Peer, "sessions", "peers" to replace the map, "memory".
func Role(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	var n Node
	if err := json.Unmarshal(raw, &n); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	runtime.GOMAXPROCS(overlay.Processors(runtime.GOMAXPROCS(0))) // as cadre-agent does
	s := newStreams()
	r, err := run(ctx, n, s.onControl)
	if err != nil {
		return worker.Actor{}, err
	}
	methods := load.Methods(load.Client(ctx, s.dial), &s.server)
	methods["flow"] = worker.Typed(func(ctx context.Context, a Flow) (Moved, error) { return r.flow(ctx, a.Lasting) })
	b := bulk{r: r}
	methods["bulk"] = worker.Typed(func(context.Context, load.BulkArgs) (load.Nothing, error) { return load.Nothing{}, b.start(ctx) })
	methods["bulk-stop"] = worker.Typed(func(context.Context, load.Nothing) (load.Nothing, error) { return load.Nothing{}, b.stop() })
	methods["address"] = worker.Typed(func(context.Context, load.Nothing) (string, error) { return r.address, nil })
	methods["sessions"] = worker.Typed(func(context.Context, load.Nothing) ([]Session, error) { return r.sessions(), nil })
	methods["await"] = worker.Typed(func(ctx context.Context, a Await) (load.Nothing, error) {
		ctx, cancel := context.WithTimeout(ctx, a.Within)
		defer cancel()
		return load.Nothing{}, r.await(ctx, a.Carriers)
	})
	methods["peers"] = worker.Typed(func(_ context.Context, all []Peer) (load.Nothing, error) {
		known, err := peers(all)
		if err == nil {
			r.node.SetPeers(known)
		}
		return load.Nothing{}, err
	})
	methods["memory"] = worker.Typed(func(context.Context, load.Nothing) (Memory, error) { return memory() })
	return worker.Actor{Methods: methods, Close: r.close}, nil
}

// Crowd is the role "crowd": many nodes in one process, as the far ends of a node under test. Its
// config is their list; "addresses" returns their listen addresses.
func Crowd(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	var nodes []Node
	if err := json.Unmarshal(raw, &nodes); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	var all []*running
	closeAll := func() {
		var wg sync.WaitGroup
		for _, r := range all {
			wg.Go(r.close)
		}
		wg.Wait()
	}
	var addresses []string
	for _, n := range nodes {
		r, err := run(ctx, n, nil)
		if err != nil {
			closeAll()
			return worker.Actor{}, err
		}
		all = append(all, r)
		addresses = append(addresses, r.address)
	}
	return worker.Actor{
		Methods: map[string]worker.Method{
			"addresses": worker.Typed(func(context.Context, load.Nothing) ([]string, error) { return addresses, nil }),
		},
		Close: closeAll,
	}, nil
}

// memory collects garbage, gives it back and looks.
func memory() (Memory, error) {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // finalizers of the first round
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Memory{}, err
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return Memory{
				Resident: kib << 10, Heap: int64(m.HeapAlloc), Stack: int64(m.StackInuse), Goroutines: runtime.NumGoroutine(),
			}, nil
		}
	}
	return Memory{}, fmt.Errorf("the kernel's status has no VmRSS")
}
