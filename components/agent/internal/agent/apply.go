package agent

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
)

// applyDesired hands each newest desired state to the parts, idempotently.
func (a *Agent) applyDesired(ctx context.Context) error {
	return a.config.Follow(ctx, a.hub.Desired(), a.lifecycle.Load().Apply)
}

// apply applies next to all parts.
func (a *Agent) apply(old, next *group.AgentConfig) (err error) {
	var d driver.Driver
	if old == nil || !reflect.DeepEqual(old.Workload, next.Workload) {
		if d, err = driver.New(driver.Config{
			Kind: next.Workload.Kind, Settings: next.Workload.Settings, Self: next.Slot, VIP: a.vipOf, SlotAt: a.slotAt, Members: a.members, Commands: a.command, Log: a.cfg.Log,
		}); err != nil {
			return err
		}
	}
	// Before the driver: without its checks, a new driver's Boot would seem healthy.
	a.checker.SetChecks(next.HealthChecks)
	// After the checks: a removed check would fail without its reports, and a new one would count
	// at once, together with the old checks.
	a.checkReports.Set(selfreport.OfChecks(next.HealthChecks))
	if d != nil {
		a.member.SetDriver(d)
	}
	a.backends.Set(selfreport.OfBackends(next.ServiceMesh))
	return nil
}

// route applies the configuration in force to the service layer, which looks up its routes there.
func (a *Agent) route(now *group.AgentConfig) {
	if err := a.service.set(a, now.Slot, now.ServiceMesh); err != nil {
		// The other parts of the configuration are in force, and the routes without a fault are
		// served.
		a.cfg.Log.Error("not all routes are served", "error", err)
	}
}

// applyPeers hands each newest peer map to the overlay.
func (a *Agent) applyPeers(ctx context.Context) error {
	var index uint64
	for {
		list, now, err := a.hub.Peers().Wait(ctx, index)
		if err != nil {
			return nil //nolint:nilerr // only ctx ends it
		}
		index = now
		if list == nil {
			continue
		}
		a.setPeers(list)
	}
}

func (a *Agent) setPeers(list []overlay.Peer) {
	if a.ended.Load() != nil {
		return
	}
	a.peers.Set(list)
	a.node.Load().SetPeers(list)
	a.changed.Set(struct{}{})
}

// vipOf finds a Slot's address in the newest peer map.
func (a *Agent) vipOf(slot string) (netip.Addr, bool) {
	if current, _ := a.admitted.Get(); current != nil && slot == current.ID.Slot {
		vip, err := parseVIP(current.Grant.GetVip())
		return vip, err == nil
	}
	list, _ := a.peers.Get()
	for _, p := range list {
		if p.ID.Slot == slot {
			return p.VIP, true
		}
	}
	return netip.Addr{}, false
}

func (a *Agent) self() overlay.ID {
	if current, _ := a.admitted.Get(); current != nil {
		return current.ID
	}
	return overlay.ID{}
}

func parseVIP(text string) (netip.Addr, error) {
	vip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("virtual address: %w", err)
	}
	return vip, nil
}
