package scale

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/bench/internal/cloud"
	"cadre.dev/bench/internal/fleet"
	"cadre.dev/bench/internal/world"
	"cadre.dev/lab/natlab"
	"cadre.dev/lab/worker"
	"cadre.dev/overlay"
	"cadre.dev/platform"
)

const (
	// replicas is how many coordinators there are.
	replicas = 3
	// gatewayAddress and pccsAddress are of the lab's own internet.
	gatewayAddress, pccsAddress = "10.213.0.1:443", "10.213.0.1:8081"
	// filesPerAgent is the number of open files of one agent of a fleet: three Sessions with
	// coordinators and two with members, each with both ends of its way through the gateway, and a
	// listener.
	filesPerAgent = 15
)

// cluster is all that runs.
type cluster struct {
	options Options
	dir     string // on the disk, unlike memory
	memory  string
	lab     *natlab.Lab
	hosts   [replicas]*natlab.Host
	sockets [replicas]string
	cloud   *cloud.Cloud
	socket  string
	serving sync.WaitGroup
	close   []func() error

	outside      *worker.Process
	coordinators [replicas]*worker.Process
	fleets       []*worker.Process

	groups int // applied so far
	large  int // Slots of the large group, if it was applied
}

// newCluster makes networks, platform and fleets, and founds the coordinators. The caller
// must end it, also after an error.
func newCluster(ctx context.Context, options Options) (*cluster, error) {
	c := &cluster{options: options}
	if err := c.enoughFiles(); err != nil {
		return c, err
	}
	if err := natlab.Available(); err != nil {
		return c, fmt.Errorf("networks of coordinators: %w", err)
	}
	var err error
	if c.dir, err = c.folder(""); err != nil {
		return c, err
	}
	// Coordinators refuse to keep secrets outside of memory.
	if c.memory, err = c.folder("/dev/shm"); err != nil {
		return c, err
	}
	if c.lab, err = natlab.New(ctx, natlab.Config{Router: netip.MustParseAddr("10.213.0.1")}); err != nil {
		return c, err
	}
	c.close = append(c.close, c.lab.Close)
	hardware, err := attestsim.OpenCloud(filepath.Join(c.dir, "cloud"))
	if err != nil {
		return c, err
	}
	if _, err := writeTrust(hardware, c.dir, "http://"+pccsAddress); err != nil {
		return c, err
	}
	routes, there, err := c.places(hardware)
	if err != nil {
		return c, err
	}
	if err := c.serveCloud(ctx, there); err != nil {
		return c, err
	}
	if c.outside, err = worker.Start(ctx, c.lab, outsideName, outsideConfig{
		Cloud: filepath.Join(c.dir, "cloud"), Sockets: c.sockets[:], Routes: routes, Gateway: gatewayAddress, PCCS: pccsAddress,
	}, options.Log); err != nil {
		return c, err
	}
	c.close = append(c.close, c.outside.Stop)
	for range options.Fleets {
		p, err := worker.Start(ctx, c.lab, fleet.Name, fleet.Config{
			Cloud: filepath.Join(c.dir, "cloud"), Routes: routes, OnlyCoordinators: options.OnlyCoordinators,
		}, options.Log)
		if err != nil {
			return c, err
		}
		c.fleets = append(c.fleets, p)
		c.close = append(c.close, func() error { p.Kill(); return nil }) // thousands need not part one by one
	}
	for n := range replicas {
		if err := c.startCoordinator(ctx, n); err != nil {
			return c, err
		}
	}
	return c, nil
}

// enoughFiles lets processes open as many files as this one may, and says so where that is
// too few.
func (c *cluster) enoughFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil { // else children get less
		return err
	}
	largest := c.options.Sizes[len(c.options.Sizes)-1] + c.options.Large
	if need := uint64(filesPerAgent*largest/c.options.Fleets + 256); need > limit.Cur {
		return fmt.Errorf("%d agents in %d processes need %d open files each, and %d are allowed (ulimit -n): ask for more --fleets", largest, c.options.Fleets, need, limit.Cur)
	}
	if largest+1024 > int(limit.Cur) {
		return fmt.Errorf("a coordinator with %d agents needs as many open files, and %d are allowed (ulimit -n)", largest, limit.Cur)
	}
	return nil
}

func (c *cluster) folder(in string) (string, error) {
	dir, err := os.MkdirTemp(in, "cadre-bench-scale-")
	c.close = append(c.close, func() error { return os.RemoveAll(dir) })
	return dir, err
}

// places gives each coordinator a machine in the lab, and returns the gateway's routes to them and
// the platform's list of them.
func (c *cluster) places(hardware *attestsim.Cloud) (routes map[string][]string, there []platform.Instance, err error) {
	gateway := overlay.Gateway{Domain: world.Domain}
	routes = map[string][]string{}
	for n := range replicas {
		slot := fmt.Sprintf("coordinator-%d", n)
		if c.hosts[n], err = c.lab.Public(slot); err != nil {
			return nil, nil, err
		}
		c.sockets[n] = filepath.Join(c.dir, fmt.Sprintf("guest-%d", n))
		guest, err := bootCoordinator(hardware, c.dir, n)
		if err != nil {
			return nil, nil, err
		}
		at := net.JoinHostPort(c.hosts[n].Addr().String(), "7443")
		for _, name := range []string{gateway.Name(world.CoordinatorApp), gateway.Name(guest.InstanceID())} {
			routes[name] = append(routes[name], at)
		}
		there = append(there, platform.Instance{
			ID: slot, VMUUID: slot, Name: world.Cluster + "-" + slot, AppID: world.CoordinatorApp, InstanceID: guest.InstanceID(), Status: "running",
		})
	}
	return routes, there, nil
}

func (c *cluster) serveCloud(ctx context.Context, there []platform.Instance) error {
	c.cloud = cloud.New(func(ctx context.Context, m cloud.Machine) (id string, err error) {
		return id, c.fleetOf(m.Name).Call(ctx, "boot", m, &id)
	}, there...)
	c.socket = filepath.Join(c.dir, "platform")
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", c.socket)
	if err != nil {
		return err
	}
	c.serving.Go(func() { _ = c.cloud.Serve(listener) })
	c.close = append(c.close, func() error { err := listener.Close(); c.serving.Wait(); return err })
	return nil
}

// fleetOf is the process that plays a machine. All members of a group share one process and find
// each other there, except the large group's, which open no Sessions on their own.
func (c *cluster) fleetOf(machine string) *worker.Process {
	sum := fnv.New32a()
	name := machine[:max(0, strings.LastIndexByte(machine, '-'))]
	if strings.HasSuffix(name, "-"+largeGroup) {
		name = machine
	}
	_, _ = sum.Write([]byte(name))
	return c.fleets[int(sum.Sum32())%len(c.fleets)]
}

// startCoordinator starts coordinator n, for the first time or again on its disk.
func (c *cluster) startCoordinator(ctx context.Context, n int) error {
	slot := fmt.Sprintf("coordinator-%d", n)
	p, err := worker.Start(ctx, c.hosts[n], coordinatorName, coordinatorConfig{
		Slot: slot, Replicas: replicas, Dir: c.dir, StateDir: filepath.Join(c.dir, slot), RunDir: filepath.Join(c.memory, slot),
		Consul: c.options.Consul, Gateway: gatewayAddress, Guest: c.sockets[n], Cloud: c.socket,
	}, c.options.Log)
	c.coordinators[n] = p
	return err
}

// end stops everything, the newest first.
func (c *cluster) end() error {
	var errs []error
	for _, p := range c.coordinators {
		if p != nil {
			p.Kill()
		}
	}
	for i := len(c.close) - 1; i >= 0; i-- {
		errs = append(errs, c.close[i]())
	}
	return errors.Join(errs...)
}

func (c *cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.options.Progress, time.Now().Format("15:04:05")+" "+format+"\n", args...)
}

// every calls f each interval until it is done, gives up with an error, or ctx ends.
func every(ctx context.Context, interval time.Duration, f func() (done bool, err error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if done, err := f(); done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// health asks coordinator n; the zero one: it does not answer.
func (c *cluster) health(ctx context.Context, n int) health {
	var out health
	if c.coordinators[n] == nil || c.coordinators[n].Call(ctx, "health", nothing{}, &out) != nil {
		return health{}
	}
	return out
}

// ready waits until every coordinator knows one leader and reads the records, and Consul's
// servers know each other.
func (c *cluster) ready(ctx context.Context, within time.Duration) (leader int, term uint64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errors.New("the coordinators did not agree on a leader in time"))
	defer cancel()
	err = every(ctx, 100*time.Millisecond, func() (bool, error) {
		leader, term = -1, 0
		for n := range replicas {
			h := c.health(ctx, n)
			var r raft
			err := c.coordinators[n].Call(ctx, "raft", nothing{}, &r)
			agreed := h.Records && h.Leader != "" && (n == 0 || h.Term == term)
			if err != nil || !agreed || r.Peers != replicas-1 {
				return false, nil //nolint:nilerr // it is asked again
			}
			term = h.Term
			for i := range replicas {
				if h.Leader == fmt.Sprintf("coordinator-%d", i) {
					leader = i
				}
			}
		}
		return leader >= 0, nil
	})
	return leader, term, err
}
