package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// auditEvery is the pace of the comparison (CTL-20).
const auditEvery = 30 * time.Second

// stranger is a member or token that no admission accounts for.
type stranger struct {
	// group that its name belongs to; empty: none, so every group tells of it.
	group, text string
}

// audit compares what Consul knows with the admissions, until ctx ends, and revokes
// the tokens that none accounts for: nothing else does (TOK-12, CTL-20).
func (r *Reconciler) audit(ctx context.Context) {
	if r.cfg.Members == nil {
		return
	}
	ticker := time.NewTicker(auditEvery)
	defer ticker.Stop()
	for {
		if err := r.auditOnce(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("members not compared with admissions", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// auditOnce reads the admissions after Consul's own lists: what was admitted in
// between is known then.
func (r *Reconciler) auditOnce(ctx context.Context) error {
	nodes, err := r.cfg.Members.Nodes(ctx)
	if err != nil {
		return err
	}
	owned, err := r.cfg.Members.SlotTokens(ctx)
	if err != nil {
		return err
	}
	v, err := view.Read(ctx, r.cfg.Store)
	if err != nil {
		return err
	}
	if bad := v.BadBelow(store.AdmissionsPrefix, store.SlotsPrefix); bad != nil {
		// It may be the admission that a token belongs to.
		return fmt.Errorf("a record cannot be read: %w", bad)
	}
	found := strangeNodes(v, nodes)
	strange := tokens.Unrecorded(owned, func(slot, accessor string) bool {
		return slices.Contains(v.Admissions[slot].Value.TokenAccessors, accessor)
	}, r.cfg.Now())
	var accessors []string
	for _, t := range strange {
		found = append(found, stranger{group: groupOf(v, t.Slot), text: fmt.Sprintf("token %s of %s belongs to no admission and was revoked", t.Accessor, t.Slot)})
		accessors = append(accessors, t.Accessor)
	}
	// All of them before any error counts: one that cannot be revoked keeps no other alive.
	if err := r.cfg.Members.Revoke(ctx, accessors...); err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b stranger) int { return strings.Compare(a.text, b.text) })
	r.mu.Lock()
	known := r.strangers
	r.strangers = found
	r.mu.Unlock()
	for _, s := range found {
		if !slices.Contains(known, s) {
			r.log.Warn("stranger found", "group", s.group, "code", policy.CodePeerNotAdmitted, "reason", s.text)
		}
	}
	return nil
}

// strangeNodes are names that are no Slot's, and live nodes of Slots that nobody was
// admitted to. A coordinator's name is its own: only coordinators may register it.
func strangeNodes(v *view.View, nodes map[string]bool) []stranger {
	var out []stranger
	for name, alive := range nodes {
		_, slot := v.Slots[name]
		_, admitted := v.Admissions[name]
		switch {
		case admitted, strings.HasPrefix(name, peering.CoordinatorGroup+"-"):
		case !slot:
			out = append(out, stranger{group: groupOf(v, name), text: fmt.Sprintf("node %q is in Consul's catalog and is no slot", name)})
		case alive:
			out = append(out, stranger{group: groupOf(v, name), text: fmt.Sprintf("node %q is alive in Consul and nobody was admitted to the slot", name)})
		}
	}
	return out
}

// groupOf is the group that a name belongs to, if there is such a group.
func groupOf(v *view.View, name string) string {
	g, _, err := group.ParseSlot(name)
	if err != nil || !slices.Contains(v.Known(), g) {
		return ""
	}
	return g
}

// strangersOf is the Condition of one group; ok is false when there is nothing to tell.
func (r *Reconciler) strangersOf(name string, now time.Time) (c group.Condition, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	for _, s := range r.strangers {
		if s.group == "" || s.group == name {
			texts = append(texts, s.text)
		}
	}
	return group.Condition{
		Type: rollout.ConditionStrangers, Status: true, Reason: string(policy.CodePeerNotAdmitted), Message: bounded(strings.Join(texts, "; ")), Since: now,
	}, len(texts) > 0
}
