package reconcile

import (
	"context"
	"errors"
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

// stranger is a member or token that no admission accounts for, or a member that is not
// who it says.
type stranger struct {
	// group that its name belongs to; empty: none, so every group tells of it.
	group, text string
	code        policy.Code
	// slot is the one whose Boot poses as another node; "": nobody's.
	slot string
}

// audit compares what Consul knows with the admissions, until ctx ends, revokes the
// tokens that none accounts for, as nothing else does (TOK-12, CTL-20), and evicts the
// Boots that pose as another node (IDN-09).
func (r *Reconciler) audit(ctx context.Context, lease store.Lease) {
	if r.cfg.Members == nil {
		return
	}
	ticker := time.NewTicker(auditEvery)
	defer ticker.Stop()
	for {
		if err := r.auditOnce(ctx, lease); err != nil && ctx.Err() == nil {
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
func (r *Reconciler) auditOnce(ctx context.Context, lease store.Lease) error {
	nodes, err := r.cfg.Members.Nodes(ctx)
	if err != nil {
		return err
	}
	owned, err := r.cfg.Members.SlotTokens(ctx)
	if err != nil {
		return err
	}
	latest, _ := r.cfg.Views.Latest()
	v, err := view.ReadMembers(ctx, r.cfg.Store, latest)
	if err != nil {
		return err
	}
	if bad := v.BadBelow(store.AdmissionsPrefix, store.SlotsPrefix); bad != nil {
		// It may be the admission that a token belongs to.
		return fmt.Errorf("a record cannot be read: %w", bad)
	}
	found := append(strangeNodes(v, nodes, r.cfg.LeaseNode), impostors(r.cfg.Cluster, v, nodes)...)
	strange := tokens.Unrecorded(owned, func(slot, accessor string) bool {
		return slices.Contains(v.Admissions[slot].Value.TokenAccessors, accessor)
	}, r.cfg.Now())
	var accessors []string
	for _, t := range strange {
		found = append(found, stranger{group: groupOf(v, t.Slot), text: fmt.Sprintf("token %s of %s belongs to no admission and was revoked", t.Accessor, t.Slot), code: policy.CodePeerNotAdmitted})
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
	var errs []error
	for name, boot := range unexplained(v, nodes, r.cfg.LeaseNode) {
		if r.cfg.RemoveNode != nil {
			errs = append(errs, r.cfg.RemoveNode(ctx, name, boot))
		}
	}
	for _, s := range found {
		switch {
		case !slices.Contains(known, s):
			r.log.Warn("stranger found", "group", s.group, "code", s.code, "reason", s.text)
		case s.slot != "":
			// Twice in a row: what one member says in another's name, that one contradicts.
			errs = append(errs, r.cfg.Evict(ctx, s.slot, s.code, s.text, lease.Fence()...))
		}
	}
	return errors.Join(errs...)
}

// unexplained are nodes of the catalog that no admission explains, with the Boot that each
// was registered for: an eviction was interrupted, or somebody else made them. Coordinators
// have nodes of their own, and those in gossip have agents that would come back.
func unexplained(v *view.View, nodes map[string]tokens.Node, leaseNode string) map[string]string {
	out := map[string]string{}
	for name, n := range nodes {
		a, admitted := v.Admissions[name]
		switch {
		case name == leaseNode, strings.HasPrefix(name, store.LeaseNodePrefix), strings.HasPrefix(name, peering.CoordinatorGroup+"-"):
		case !n.Listed, n.Alive, len(n.IDs) > 0:
		case !admitted, n.Boot != "" && n.Boot != a.Value.BootID:
			out[name] = n.Boot
		}
	}
	return out
}

// strangeNodes are names that are no Slot's, and live nodes of Slots that nobody was
// admitted to. A coordinator's name is its own: only coordinators may register it.
// leaseNode stands for no machine.
func strangeNodes(v *view.View, nodes map[string]tokens.Node, leaseNode string) []stranger {
	var out []stranger
	for name, n := range nodes {
		_, slot := v.Slots[name]
		_, admitted := v.Admissions[name]
		code, text := policy.CodePeerNotAdmitted, ""
		switch {
		case name == leaseNode && (n.Alive || len(n.IDs) > 0):
			code, text = policy.CodeTokenScopeDenied, fmt.Sprintf("somebody is in Consul as %q, which the leader's session and those of Boots are on", name)
		case name == leaseNode, admitted, strings.HasPrefix(name, peering.CoordinatorGroup+"-"):
		case !slot && n.Listed:
			text = fmt.Sprintf("node %q is in Consul's catalog and is no slot", name)
		case n.Listed && n.Alive:
			text = fmt.Sprintf("node %q is alive in Consul and nobody was admitted to the slot", name)
		}
		if text != "" {
			out = append(out, stranger{group: groupOf(v, name), text: text, code: code})
		}
	}
	return out
}

// impostors are names that bear the ID of another one (IDN-09): Consul would take them
// for that node renamed, and end what is on it. The ID of a Slot's node follows from its
// name, so it is known whose it is; coordinators made theirs up.
//
// Only a name that a Boot was admitted under is evicted: its owner contradicts whoever
// gossips in its place. An address is anybody's word, and evicting who answers there
// would let one member have all others evicted; it stands in the text as a hint.
func impostors(cluster string, v *view.View, nodes map[string]tokens.Node) []stranger {
	byID := map[string][]string{}
	for name, n := range nodes {
		for _, id := range n.IDs {
			byID[id] = append(byID[id], name)
		}
	}
	var out []stranger
	for id, names := range byID {
		if len(names) < 2 {
			continue
		}
		slices.Sort(names)
		owner := slices.IndexFunc(names, func(name string) bool { return group.NodeID(cluster, name) == id })
		if owner < 0 {
			owner = slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, peering.CoordinatorGroup+"-") })
		}
		for i, name := range names {
			if i != owner {
				s := stranger{group: groupOf(v, name), code: policy.CodeTokenScopeDenied,
					text: fmt.Sprintf("node %q at %s is in Consul with the ID of another one: %s of %s", name, nodes[name].Address, id, strings.Join(names, ", "))}
				if _, admitted := v.Admissions[name]; admitted {
					s.slot = name
				}
				out = append(out, s)
			}
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
		Type: rollout.ConditionStrangers, Status: true, Reason: string(policy.CodePeerNotAdmitted), Message: bounded(rollout.Few(texts, "; ")), Since: now,
	}, len(texts) > 0
}
