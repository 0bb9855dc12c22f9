package peering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"cadre.dev/platform"
)

// CoordinatorGroup is the group name of all coordinators.
const CoordinatorGroup = "coordinator"

// Poll intervals: fast until every coordinator is known, then slow, because a recreated coordinator
// gets a new instance id.
const (
	pollSearching = 2 * time.Second
	pollKnown     = 15 * time.Second
)

// CoordinatorVIP is the fixed virtual address of coordinator-n.
func CoordinatorVIP(n int) string { return "127.50.0." + strconv.Itoa(n+1) }

// CoordinatorSlot is the Slot name of coordinator n.
func CoordinatorSlot(n int) string { return "coordinator-" + strconv.Itoa(n) }

// CoordinatorOrdinal reads n from "coordinator-<n>".
func CoordinatorOrdinal(slot string) (int, error) {
	text, ok := strings.CutPrefix(slot, "coordinator-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 || n > 200 || CoordinatorSlot(n) != slot {
		return 0, fmt.Errorf("slot %q: want coordinator-<n>, such as coordinator-0", slot)
	}
	return n, nil
}

// Lister is the one call of the platform that discovery needs.
type Lister interface {
	List(ctx context.Context, appID string) ([]platform.Instance, error)
}

// Coordinators has the locations of the cluster's coordinators. Safe for concurrent use.
type Coordinators struct {
	cluster  string
	appID    string
	replicas int
	lister   Lister
	log      *slog.Logger

	mu      sync.Mutex
	members []Member // guarded by mu; always replicas long, by ordinal
}

// NewCoordinators starts with the names and addresses that need no request, including self's
// instance id.
func NewCoordinators(cluster, appID string, replicas int, lister Lister, log *slog.Logger) *Coordinators {
	c := &Coordinators{cluster: cluster, appID: appID, replicas: replicas, lister: lister, log: log}
	for n := range replicas {
		c.members = append(c.members, Member{
			Group: CoordinatorGroup, Slot: CoordinatorSlot(n), VIP: CoordinatorVIP(n), AppID: appID, Coordinator: true,
		})
	}
	return c
}

// Members lists all coordinators; an unknown InstanceID is empty.
func (c *Coordinators) Members() []Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Member(nil), c.members...)
}

// Run polls the platform, hands each listing of the app to listed, and calls changed after each
// change. It returns when ctx ends.
func (c *Coordinators) Run(ctx context.Context, changed func(), listed func([]platform.Instance)) error {
	failing := false
	for {
		list, err := c.lister.List(ctx, c.appID)
		// The nodes that answered name their coordinators; a coordinator without a listing keeps its location.
		_, partial := errors.AsType[*platform.Unanswered](err)
		switch {
		case err != nil && ctx.Err() == nil && !partial:
			// The known locations stay: a failed list is not an empty one.
			if !failing {
				c.log.Warn("coordinators not listed", "error", err)
			}
			failing = true
		case err == nil || partial:
			failing = false
			listed(list)
			if c.learn(list) {
				changed()
			}
		}
		interval := pollKnown
		if !c.complete() {
			interval = pollSearching
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// learn stores instance ids by CVM name, and reports whether one changed.
func (c *Coordinators) learn(list []platform.Instance) bool {
	byName := map[string]string{}
	for _, i := range list {
		if i.AppID == c.appID && i.InstanceID != "" {
			byName[i.Name] = i.InstanceID
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := false
	for n := range c.members {
		m := &c.members[n]
		if id := byName[c.cluster+"-"+m.Slot]; id != "" && id != m.InstanceID {
			m.InstanceID = id
			changed = true
			c.log.Info("coordinator found", "slot", m.Slot, "instance", id)
		}
	}
	return changed
}

func (c *Coordinators) complete() bool {
	for _, m := range c.Members() {
		if m.InstanceID == "" {
			return false
		}
	}
	return true
}
