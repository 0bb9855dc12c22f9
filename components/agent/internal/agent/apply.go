package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/report"
	"cadre.dev/agent/internal/words"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// configLimit bounds the configuration that Desired carries.
const configLimit = 1 << 20

// faults are what this agent cannot do as it should, for its report.
func (a *Agent) faults() []string {
	out := a.disk.Faults()
	if err, _ := a.refused.Get(); err != nil {
		out = append(out, "the newest configuration is not in force: "+err.Error())
	}
	if err, _ := a.setFault.Get(); err != nil {
		out = append(out, "the workload's set is not changed: "+err.Error())
	}
	return out
}

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
		err = a.applyConfig(desired.GetConfigJson())
		a.refused.Set(err)
		if err != nil {
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
	next, ignored, err := decodeConfig(data)
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
			Kind: next.Workload.Kind, Settings: next.Workload.Settings, Self: slot, VIP: a.vipOf, SlotAt: a.slotAt, Log: a.cfg.Log,
		})
		if err != nil {
			return err
		}
		a.member.SetDriver(d)
	}
	a.told.Set(words.OfChecks(next.HealthChecks))
	a.checker.SetChecks(next.HealthChecks)
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

// decodeConfig reads what a coordinator wants. This is the one text that is not refused
// for fields that the reader does not know: coordinators are upgraded first, and an agent
// of yesterday goes on to serve by what it does know. Fields that may not be ignored are
// named in must_understand. ignored names the first unknown field; nil: there is none.
func decodeConfig(data []byte) (out *group.AgentConfig, ignored, err error) {
	if len(data) > configLimit {
		return nil, nil, fmt.Errorf("configuration has %d bytes, at most %d are taken", len(data), configLimit)
	}
	out = &group.AgentConfig{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	if err := out.Understood(); err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	return out, strict.Decode(&group.AgentConfig{}), nil
}

func orderOf(o *controlv1.OperationOrder) *lifecycle.Order {
	if o.GetOperationId() == "" {
		return nil
	}
	out := &lifecycle.Order{
		Key: lifecycle.Key{
			Operation: o.GetOperationId(), Verb: report.VerbFromProto(o.GetVerb()), Attempt: o.GetAttempt(),
		},
		ExpectedLeader: o.GetExpectedLeader(), Candidates: o.GetTransferCandidates(), Service: o.GetService(),
	}
	if o.GetDeadline() != nil {
		out.Deadline = o.GetDeadline().AsTime()
	}
	if limit := o.GetLimit().AsDuration(); limit > 0 {
		out.Limit = limit
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
