package ice

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	pion "github.com/pion/ice/v3"
	"github.com/pion/stun/v2"
)

// start makes the agents and begins gathering.
func (a *Search) start(stunHosts []string, relays []*stun.URI) error {
	var err error
	if a.net, err = newRelayNet(a.life, relays, a.conf.Roots, a.policy); err != nil {
		return err
	}
	if !a.conf.RelayOnly {
		a.port = newPort(a.conf.Mux, a.ufrag, a.pwd, a.policy, a.known, a.review)
		if err := a.conf.Mux.add(a.port); err != nil {
			return err
		}
		if a.direct, err = newDirectAgent(a); err != nil {
			return fmt.Errorf("make direct agent: %w", err)
		}
		a.gatherers++
	}
	if len(relays) > 0 {
		if a.relayed, err = newRelayAgent(a, relays); err != nil {
			return fmt.Errorf("make relay agent: %w", err)
		}
		a.gatherers++
	}
	agents := a.agents()
	for _, agent := range agents {
		a.searching[agent] = true
	}
	for _, agent := range agents {
		if err := a.watch(agent); err != nil {
			return err
		}
	}
	if !a.conf.RelayOnly {
		a.gather(a.life, stunHosts)
	}
	return nil
}

// watch hears of an agent's changes and has it gather.
func (a *Search) watch(agent *pion.Agent) error {
	onCandidate := func(pion.Candidate) {} // the socket's own is offered by gather
	if agent == a.relayed {
		onCandidate = a.relayGathered
	}
	if err := agent.OnCandidate(onCandidate); err != nil {
		return fmt.Errorf("hear of candidates: %w", err)
	}
	// A failed agent has dropped its pairs and finds nothing more.
	if err := agent.OnConnectionStateChange(func(s pion.ConnectionState) {
		if s == pion.ConnectionStateFailed {
			a.ended(agent, ErrNoPath)
		}
	}); err != nil {
		return fmt.Errorf("hear of agent's state: %w", err)
	}
	if err := agent.OnSelectedCandidatePairChange(func(local, remote pion.Candidate) {
		if agent == a.relayed {
			a.relaySelected(local, remote)
		}
	}); err != nil {
		return fmt.Errorf("hear of agent's pair: %w", err)
	}
	if err := agent.GatherCandidates(); err != nil {
		return fmt.Errorf("gather candidates: %w", err)
	}
	return nil
}

// search runs an agent's checks until it selects a pair.
func (a *Search) search(agent *pion.Agent, controlling bool, ufrag, pwd string) {
	begin := agent.Accept
	if controlling {
		begin = agent.Dial
	}
	conn, err := begin(a.life, ufrag, pwd)
	if err != nil {
		if errors.Is(err, pion.ErrCanceledByCaller) {
			err = context.Cause(a.life)
		}
		a.ended(agent, err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nominated = true
	if agent == a.relayed {
		a.relayFrom = conn
	}
	a.reviewLocked()
}

// relaySelected notes which pair the relay agent uses now.
func (a *Search) relaySelected(local, remote pion.Candidate) {
	pair := &pion.CandidatePair{Local: local, Remote: remote}
	to := candidateAddr(remote)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.relay == nil {
		a.relay = newRelayConn(pair)
	} else {
		a.relay.pair.Store(pair)
	}
	a.relayPair = Found{
		Kind: Relay, Local: candidateAddr(local), Remote: to,
		LocalType: typeRelay, RemoteType: a.known.kindOf(to), Relay: a.relay,
	}
	a.reviewLocked()
}

// ended notes an agent that finds nothing more.
func (a *Search) ended(agent *pion.Agent, err error) {
	a.mu.Lock()
	delete(a.searching, agent)
	none := len(a.searching) == 0
	a.mu.Unlock()
	if none {
		a.finish(err)
	}
}

// finish says that nothing more will be found. The first reason counts.
func (a *Search) finish(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
		close(a.over)
	}
}

// review is reviewLocked for callers without the lock.
func (a *Search) review() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reviewLocked()
}

// reviewLocked computes the results of Wait and Better from all answers. It is called
// after every change and does not block.
func (a *Search) reviewLocked() {
	if a.closed {
		return
	}
	var list []Found
	for addr, r := range a.known.valid() {
		list = append(list, a.fromSocket(addr, r))
	}
	if a.relay != nil && a.relayFrom != nil {
		if !a.pumping {
			a.pumping = true
			relay, from := a.relay, a.relayFrom
			a.wg.Go(func() { relay.pump(from) })
		}
		if a.relay.open() {
			list = append(list, a.relayPair)
		}
	}
	best, ok := choose(list)
	switch {
	case !ok:
	case best.Kind == Relay && !a.nominated && !a.have:
		// Direct pairs still have their time.
	case !a.have:
		a.have, a.last = true, best
		a.log.Info("path found", "path", best.Kind, "remote", best.Remote,
			"local_type", best.LocalType, "remote_type", best.RemoteType, "rtt", best.RTT)
		close(a.found)
	case !best.same(a.last):
		a.last = best
		select {
		case <-a.better: // unread and now stale
		default:
		}
		a.better <- best // has room: only this sends, with the lock held
	}
}

// fromSocket describes a pair of the shared socket, with the lock held.
func (a *Search) fromSocket(addr netip.AddrPort, r remote) Found {
	f := Found{
		Kind: Direct, Local: a.conf.Mux.localFor(addr), Remote: addr, Mapped: r.mapped,
		LocalType: typeHost, RemoteType: r.kind, RTT: r.rtt,
	}
	if r.kind == typeRelay {
		f.Kind = Relay
	}
	if r.mapped.IsValid() && r.mapped != f.Local {
		if f.LocalType = a.offered[r.mapped]; f.LocalType == "" {
			f.LocalType = typePrflx
		}
	}
	return f
}
