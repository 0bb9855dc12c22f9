package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/bench/internal/agents"
	"cadre.dev/bench/internal/cloud"
	"cadre.dev/bench/internal/gateway"
	"cadre.dev/bench/internal/world"
	"cadre.dev/lab/worker"
)

// Name of the role.
const Name = "fleet"

// Config of the role.
type Config struct {
	// Cloud is the folder of the simulated hardware.
	Cloud string
	// Routes of coordinators by server name.
	Routes map[string][]string
	// OnlyCoordinators takes no other Peers from the map, for maps that name every member.
	OnlyCoordinators bool
}

// Nothing is for calls without arguments or results.
type Nothing struct{}

// fleet is one process' members.
type fleet struct {
	cfg      Config
	hardware *attestsim.Cloud
	gateway  *gateway.Gateway
	ctx      context.Context //nolint:containedctx // of the process' role: members outlive the calls that boot them

	mu      sync.Mutex
	members map[string]*member // by platform name; guarded by mu
}

// Role is the role: "boot" a cloud.Machine, "states" of all, "restart" all, "orders" that
// were seen since a time.
func Role(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	var cfg Config
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	hardware, err := attestsim.OpenCloud(cfg.Cloud)
	if err != nil {
		return worker.Actor{}, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return worker.Actor{}, err
	}
	f := &fleet{cfg: cfg, hardware: hardware, gateway: gateway.New(listener), members: map[string]*member{}} //nolint:contextcheck // Close ends all connections
	var end context.CancelFunc
	f.ctx, end = context.WithCancel(context.WithoutCancel(ctx))
	for name, addresses := range cfg.Routes {
		f.gateway.Route(name, addresses...)
	}
	return worker.Actor{
		Close: func() {
			end()
			for _, m := range f.list() {
				<-m.done
			}
			f.gateway.Close()
		},
		Methods: map[string]worker.Method{
			"boot": worker.Typed(func(_ context.Context, m cloud.Machine) (string, error) { return f.boot(m) }), //nolint:contextcheck // the booted member outlives the call
			"states": worker.Typed(func(context.Context, Nothing) ([]State, error) {
				all := f.list()
				out := make([]State, 0, len(all))
				for _, m := range all {
					out = append(out, m.state())
				}
				return out, nil
			}),
			"restart": worker.Typed(func(context.Context, Nothing) (Nothing, error) {
				for _, m := range f.list() {
					m.restart()
				}
				return Nothing{}, nil
			}),
			"orders":   worker.Typed(func(_ context.Context, since time.Time) ([]Order, error) { return f.orders(since), nil }),
			"refusals": worker.Typed(func(context.Context, Nothing) (map[string]int, error) { return f.refusals(), nil }),
		},
	}, nil
}

func (f *fleet) list() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*member, 0, len(f.members))
	for _, m := range f.members {
		out = append(out, m)
	}
	return out
}

// boot starts a CVM, or ends its programs and starts it with other content on its disk.
func (f *fleet) boot(machine cloud.Machine) (instanceID string, err error) {
	f.mu.Lock()
	before := f.members[machine.Name]
	f.mu.Unlock()
	if before != nil {
		before.shutDown(f.ctx)
	}
	name := strings.TrimPrefix(machine.Name, world.Cluster+"-")
	cut := strings.LastIndexByte(name, '-')
	if cut < 0 {
		return "", errors.New("boot: a machine whose name is none of a Slot")
	}
	seed := sha256.Sum256([]byte(machine.Name))
	slot := world.Slot{Group: name[:cut], Name: name, AppID: machine.AppID, Compose: machine.AppCompose, Seed: seed[:20]}
	m := &member{fleet: f, slot: slot, done: make(chan struct{}), told: map[string]int{}, ords: map[string]time.Time{}, cut: func() {}}
	if before != nil {
		m.ords = before.ords // its goroutines have ended
	}
	if m.agent, err = agents.New(f.hardware, slot); err != nil {
		return "", err
	}
	var ctx context.Context
	ctx, m.stop = context.WithCancel(f.ctx)
	f.mu.Lock()
	f.members[machine.Name] = m
	f.mu.Unlock()
	go m.run(ctx)
	return m.agent.InstanceID(), nil
}

// Order is an Operation that a member received.
type Order struct {
	Group, Slot, Operation string
	At                     time.Time
}

func (f *fleet) orders(since time.Time) []Order {
	var out []Order
	for _, m := range f.list() {
		m.mu.Lock()
		for id, at := range m.ords {
			if at.After(since) {
				out = append(out, Order{Group: m.slot.Group, Slot: m.slot.Name, Operation: id, At: at})
			}
		}
		m.mu.Unlock()
	}
	return out
}

func (f *fleet) refusals() map[string]int {
	out := map[string]int{}
	for _, m := range f.list() {
		m.mu.Lock()
		for code, n := range m.told {
			out[code] += n
		}
		m.mu.Unlock()
	}
	return out
}
