package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/core/group"
)

// setRetry is between two tries of a change of the set, and after one until the coordinator
// saw it: a change that is made twice is made once.
const setRetry = time.Second

// changeSet makes the change of the workload's set that this member is told to make, again
// and again until it is told otherwise. It is made only while the member leads its set and a
// coordinator is connected: what one of yesterday wanted may be the opposite by now.
func (a *Agent) changeSet(ctx context.Context) error {
	var (
		told error
		made group.SetChange
	)
	for {
		_, seen := a.config.Get()
		change := a.setChange()
		var again <-chan time.Time
		if change == nil {
			told, made = nil, group.SetChange{}
		} else {
			told = a.tellSetChange(*change, a.makeSetChange(ctx, *change, &made), told)
			again = time.After(setRetry)
		}
		a.setFault.Set(told)
		select {
		case <-ctx.Done():
			return nil
		case <-a.config.Changed(seen):
		case <-again:
		}
	}
}

func (a *Agent) setChange() *group.SetChange {
	config, _ := a.config.Get()
	if config == nil || config.Membership == nil || a.ended.Load() != nil {
		return nil
	}
	return config.Membership.Change
}

// makeSetChange makes change, unless it is not this member's turn; made is the last one that
// was, for the log.
func (a *Agent) makeSetChange(ctx context.Context, change group.SetChange, made *group.SetChange) error {
	if sessions, _ := a.hub.Sessions().Get(); sessions == 0 {
		return nil // told again once one is there
	}
	if state := a.member.State(); state.View.Role != driver.RoleLeader {
		return nil // whoever leads is told next
	}
	err := driver.Change(ctx, a.member.Driver(), change)
	a.member.Kick()
	if err == nil && *made != change {
		*made = change
		a.cfg.Log.Info("the set of the workload is changed", "do", change.Do, "slot", change.Slot)
	}
	return err
}

// tellSetChange logs what is new, and gives what stands in the report.
func (a *Agent) tellSetChange(change group.SetChange, err, before error) error {
	if err == nil {
		return nil
	}
	told := fmt.Errorf("%s %s: %w", change.Do, change.Slot, err)
	if before == nil || before.Error() != told.Error() {
		a.cfg.Log.Warn("the set of the workload is not changed yet", "error", told)
	}
	return told
}

// joins are the Slots among which this member joins the set, nil where it joins none; waits:
// nobody has listed it yet, so its workload must not start.
func joins(config *group.AgentConfig) (set []string, waits bool) {
	m := config.Membership
	if m == nil || !m.Joins {
		return nil, false
	}
	return slices.Clone(m.Set), m.Waits()
}

// slotAt is the inverse of vipOf.
func (a *Agent) slotAt(vip netip.Addr) (string, bool) {
	if current, _ := a.admitted.Get(); current != nil {
		if own, err := parseVIP(current.Grant.GetVip()); err == nil && own == vip {
			return current.ID.Slot, true
		}
	}
	list, _ := a.peers.Get()
	for _, p := range list {
		if p.VIP == vip {
			return p.ID.Slot, true
		}
	}
	return "", false
}
