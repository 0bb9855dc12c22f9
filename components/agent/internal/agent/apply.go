package agent

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"

	"cadre.dev/agent/internal/desired"
	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/words"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
)

// faults are what this agent cannot do as it should, for its report.
func (a *Agent) faults() []string {
	out := a.disk.Faults()
	if err, _ := a.refused.Get(); err != nil {
		out = append(out, "the newest configuration is not in force: "+err.Error())
	}
	if err := a.set.Fault(); err != nil {
		out = append(out, "the workload's set is not changed: "+err.Error())
	}
	return out
}

// applyDesired hands each newest desired state to the parts, idempotently.
func (a *Agent) applyDesired(ctx context.Context) error {
	return desired.Follow(ctx, a.hub.Desired(), desired.Parts{
		Configure: a.applyConfig,
		Configured: func() bool {
			current, _ := a.config.Get()
			return current != nil
		},
		Order: a.lifecycle.Load().Apply, Refused: &a.refused, Log: a.cfg.Log,
	})
}

func (a *Agent) applyConfig(data []byte) error {
	if len(data) == 0 {
		return nil // the coordinator cannot read what belongs to this Boot: the old one stays
	}
	next, ignored, err := desired.Config(data)
	if err != nil {
		return err
	}
	slot := a.self().Slot
	if next.Slot != slot {
		return fmt.Errorf("slot: it is for %q, this is %q", next.Slot, slot)
	}
	old, _ := a.config.Get()
	if old != nil && reflect.DeepEqual(*old, *next) {
		return nil
	}
	var d driver.Driver
	if old == nil || !reflect.DeepEqual(old.Workload, next.Workload) {
		if d, err = driver.New(driver.Config{
			Kind: next.Workload.Kind, Settings: next.Workload.Settings, Self: slot, VIP: a.vipOf, SlotAt: a.slotAt, Log: a.cfg.Log,
		}); err != nil {
			return err
		}
	}
	// Before the driver: a Boot of which nothing but that is asked yet would seem well.
	a.told.Set(words.OfChecks(next.HealthChecks))
	a.checker.SetChecks(next.HealthChecks)
	if d != nil {
		a.member.SetDriver(d)
	}
	a.backends.Set(words.OfBackends(next.Mesh))
	a.configText.Store(&data)
	a.config.Set(next)
	if err := a.service.set(a, slot, next.Mesh); err != nil {
		// The rest of the configuration is in force, and routes with nothing wrong are served.
		a.cfg.Log.Error("not all routes are served", "error", err)
	}
	a.cfg.Log.Info("configuration applied", "slot", slot, "workload", next.Workload.Kind,
		"hooks", len(next.LifecycleHooks), "checks", len(next.HealthChecks))
	if ignored != nil {
		a.cfg.Log.Info("configuration is of a newer coordinator, what this agent does not know of it is ignored", "error", ignored)
	}
	return nil
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

// hooks are those of the newest configuration.
func (a *Agent) hooks() []group.LifecycleHook {
	if c, _ := a.config.Get(); c != nil {
		return c.LifecycleHooks
	}
	return nil
}

// conduct is the Revision that the configuration in force is of.
func (a *Agent) conduct() string {
	if c, _ := a.config.Get(); c != nil {
		return c.Conduct
	}
	return ""
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
