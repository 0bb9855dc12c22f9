package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/report"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// configLimit bounds the configuration that Desired carries.
const configLimit = 1 << 20

// applyDesired hands each newest desired state to the parts, idempotently.
func (a *Agent) applyDesired(ctx context.Context) error {
	var index uint64
	for {
		desired, now, err := a.hub.Desired().Wait(ctx, index)
		if err != nil {
			return nil //nolint:nilerr // only ctx ends it
		}
		index = now
		if desired == nil {
			continue
		}
		// A configuration that cannot be read leaves the old one in force; the
		// order does not depend on it and is still obeyed.
		if err := a.applyConfig(desired.GetConfigJson()); err != nil {
			a.cfg.Log.Error("configuration is refused, the old one stays", "version", desired.GetVersion(), "error", err)
		}
		if current, _ := a.config.Get(); current == nil {
			continue // no driver and no hooks yet: nothing could be carried out
		}
		a.lifecycle.Load().Apply(orderOf(desired.GetOperation()))
	}
}

func (a *Agent) applyConfig(data []byte) error {
	if len(data) == 0 {
		return nil // the coordinator cannot read what belongs to this Boot: the old one stays
	}
	next, err := decodeConfig(data)
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
	if old == nil || !reflect.DeepEqual(old.Workload, next.Workload) {
		d, err := driver.New(driver.Config{
			Kind: next.Workload.Kind, Settings: next.Workload.Settings, Self: slot, VIP: a.vipOf, Log: a.cfg.Log,
		})
		if err != nil {
			return err
		}
		a.member.SetDriver(d)
	}
	a.checker.SetChecks(next.HealthChecks)
	a.config.Set(next)
	a.cfg.Log.Info("configuration applied", "slot", slot, "workload", next.Workload.Kind,
		"hooks", len(next.LifecycleHooks), "checks", len(next.HealthChecks))
	return nil
}

func decodeConfig(data []byte) (*group.AgentConfig, error) {
	if len(data) > configLimit {
		return nil, fmt.Errorf("configuration has %d bytes, at most %d are taken", len(data), configLimit)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var out group.AgentConfig
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("configuration: data after the JSON value")
	}
	return &out, nil
}

func orderOf(o *controlv1.OperationOrder) *lifecycle.Order {
	if o.GetOperationId() == "" {
		return nil
	}
	out := &lifecycle.Order{
		Key: lifecycle.Key{
			Operation: o.GetOperationId(), Verb: report.VerbFromProto(o.GetVerb()), Attempt: o.GetAttempt(),
		},
		ExpectedLeader: o.GetExpectedLeader(), Candidates: o.GetTransferCandidates(),
	}
	if o.GetDeadline() != nil {
		out.Deadline = o.GetDeadline().AsTime()
	}
	return out
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
