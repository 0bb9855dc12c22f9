package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"cadre.dev/bench/internal/agents"
	"cadre.dev/bench/internal/world"
	"cadre.dev/overlay"
)

// member is one Slot's CVM.
type member struct {
	fleet *fleet
	agent *agents.Agent // of run's goroutine
	slot  world.Slot
	stop  context.CancelFunc
	done  chan struct{}

	mu   sync.Mutex
	seen seen                 // guarded by mu
	last *hub                 // of the present Boot; nil: not admitted; guarded by mu
	told map[string]int       // refusals by code; guarded by mu
	ords map[string]time.Time // first sight of each Operation; guarded by mu
	cut  context.CancelFunc   // ends the present Boot; guarded by mu
}

// seen is the history of the present Boot.
type seen struct {
	Since    time.Time // the Boot's begin
	Admitted time.Time
	Tries    int
	Err      string
}

// run boots again and again until ctx ends.
func (m *member) run(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		boot, cut := context.WithCancel(ctx)
		m.mu.Lock()
		m.seen, m.last, m.cut = seen{Since: time.Now()}, nil, cut
		m.mu.Unlock()
		err := m.boot(boot)
		cut()
		if err == nil || ctx.Err() != nil {
			continue
		}
		m.mu.Lock()
		m.seen.Err = err.Error()
		m.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// boot is the life of one Boot: it ends with ctx, without an error, or is not admitted.
func (m *member) boot(ctx context.Context) error {
	if err := m.agent.Restart(); err != nil {
		return err
	}
	tries, err := m.agent.AdmitUntil(ctx, func() string { return m.fleet.gateway.Address() }, nil, func(code string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.told[code]++
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.seen.Admitted, m.seen.Tries = time.Now(), tries
	m.mu.Unlock()
	return m.live(ctx)
}

// live runs the overlay's node and the control loops.
func (m *member) live(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	credentials, err := m.agent.Credentials()
	if err != nil {
		return err
	}
	vip, err := netip.ParseAddr(m.agent.Grant.GetVip())
	if err != nil {
		return err
	}
	h := newHub(m, cancel)
	self := overlay.ID{Cluster: world.Cluster, Group: m.agent.Grant.GetGroup(), Slot: m.agent.Grant.GetSlot()}
	gateway := overlay.Gateway{Domain: world.Domain, Address: m.fleet.gateway.Address()}
	h.node, err = overlay.New(overlay.Config{
		Self: self, SelfVIP: vip, Listen: "127.0.0.1:0", Gateway: gateway,
		Paths: []overlay.PathKind{overlay.PathGateway}, OnControl: h.serve, OnDemand: true,
	})
	if err != nil {
		return err
	}
	h.node.SetCredentials(credentials)
	if err := h.takePeers(0, 0, m.agent.Peers); err != nil {
		return err
	}
	m.mu.Lock()
	m.last = h
	m.mu.Unlock()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		if err := h.node.Run(ctx); err != nil && ctx.Err() == nil {
			cancel(err)
		}
	})
	if err := m.route(ctx, h.node, gateway); err != nil {
		return err
	}
	all.Go(func() { h.renew(ctx) })
	<-ctx.Done()
	// After any end of this Boot, the next one begins.
	return nil
}

// route makes the node findable for Peers, once it listens.
func (m *member) route(ctx context.Context, node *overlay.Node, gateway overlay.Gateway) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if at := node.ListenAddr(); at != nil {
			m.fleet.gateway.Route(gateway.Name(m.agent.InstanceID()), at.String())
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("it ended before it listened"), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// restart ends the present Boot as a crash does.
func (m *member) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut()
}

// shutDown ends the CVM as a platform does that stops it in order.
func (m *member) shutDown(ctx context.Context) {
	m.mu.Lock()
	h := m.last
	m.mu.Unlock()
	if h != nil {
		h.farewell(ctx)
	}
	m.stop()
	<-m.done
}

// noteOrder remembers when an Operation was first seen.
func (m *member) noteOrder(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.ords[id]; !known {
		m.ords[id] = time.Now()
	}
}

// State is the state of one member.
type State struct {
	Slot string
	// Coordinators and Members count the Sessions that are up. Map counts the Peers of the map that
	// are no coordinators. MapBytes is the size of the last peer map.
	Coordinators, Members, Map int
	// Ordered: desired state was received in this Boot.
	Admitted, Ordered bool
	Tries             int
	// Took is from the Boot's begin to admission, in seconds.
	Took float64
	Err  string
}

func (m *member) state() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{Slot: m.slot.Name, Admitted: m.last != nil, Tries: m.seen.Tries, Err: m.seen.Err}
	if m.last == nil {
		return s
	}
	s.Took = m.seen.Admitted.Sub(m.seen.Since).Seconds()
	s.Ordered, s.Map = m.last.known()
	for _, one := range m.last.node.Sessions() {
		switch {
		case one.State != overlay.SessionUp:
		case one.Peer.Group == overlay.CoordinatorGroup:
			s.Coordinators++
		default:
			s.Members++
		}
	}
	return s
}

func (m *member) String() string { return fmt.Sprintf("member %s", m.slot.Name) }
