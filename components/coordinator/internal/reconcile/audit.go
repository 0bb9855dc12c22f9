package reconcile

import (
	"cmp"
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
	"cadre.dev/core/names"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/store"
)

// auditEvery is the pace of the comparison (CTL-20).
const auditEvery = 30 * time.Second

// auditFinding is a node or token that no admission explains, or a name in gossip that is not a
// coordinator.
type auditFinding struct {
	// group that the name belongs to. Empty means none, so every group reports the finding.
	group, text string
	code        policy.Code
}

// audit compares Consul's nodes and tokens with the admissions until ctx ends. It alone revokes
// tokens that no admission explains (TOK-12, CTL-20). Coordinators put members into the catalog. A
// node in gossip holds a key that only coordinators have. The name of such a node is unverified, so
// the audit reports the node and does not evict it (IDN-09).
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

// auditOnce reads the admissions after Consul's own lists, so admissions made in between are known.
func (r *Reconciler) auditOnce(ctx context.Context) error {
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
		// The record may be the admission that a token belongs to.
		return fmt.Errorf("a record cannot be read: %w", bad)
	}
	found := unexpectedNodes(v, nodes, r.cfg.LeaseNode)
	unrecorded := tokens.Unrecorded(owned, func(slot, accessor string) bool {
		return slices.Contains(v.Admissions[slot].Value.TokenAccessors, accessor)
	}, r.cfg.Now())
	var accessors []string
	for _, t := range unrecorded {
		found = append(found, auditFinding{group: groupOf(v, t.Slot), text: fmt.Sprintf("token %s of %s belongs to no admission and was revoked", t.Accessor, t.Slot), code: policy.CodePeerNotAdmitted})
		accessors = append(accessors, t.Accessor)
	}
	// Revoke tries all tokens before it returns an error: a failed revocation protects no other token.
	if err := r.cfg.Members.Revoke(ctx, accessors...); err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b auditFinding) int { return strings.Compare(a.text, b.text) })
	r.mu.Lock()
	known := r.auditFindings
	r.auditFindings = found
	r.mu.Unlock()
	var errs []error
	for name, boot := range unexplained(v, nodes, r.cfg.LeaseNode) {
		if r.cfg.RemoveNode != nil {
			errs = append(errs, r.cfg.RemoveNode(ctx, name, boot))
		}
	}
	for _, s := range found {
		if !slices.Contains(known, s) {
			r.log.Warn("node or token without an admission found", "group", s.group, "code", s.code, "reason", s.text)
		}
	}
	return errors.Join(errs...)
}

// unexplained returns the nodes of the catalog that no admission explains, with the Boot that each
// was registered for. An eviction was interrupted, or another writer created the node.
// Coordinators are left out, since they have nodes of their own. Nodes in gossip are left out, since
// their agents would register again.
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

// unexpectedNodes finds names without a Slot, and all nodes in gossip that are not coordinators. The
// name alone decides: a holder of the gossip key may take a coordinator's name. leaseNode is not a
// machine.
func unexpectedNodes(v *view.View, nodes map[string]tokens.Node, leaseNode string) []auditFinding {
	var out []auditFinding
	for name, n := range nodes {
		_, slot := v.Slots[name]
		code, text := policy.CodePeerNotAdmitted, ""
		switch {
		case strings.HasPrefix(name, peering.CoordinatorGroup+"-"):
		case name == leaseNode && (n.Alive || len(n.IDs) > 0):
			code, text = policy.CodeTokenScopeDenied, fmt.Sprintf("a node of Consul has the name %q, which is reserved for the sessions of the leader and of Boots", name)
		case n.Alive || len(n.IDs) > 0:
			code, text = policy.CodeTokenScopeDenied, fmt.Sprintf("node %q at %s is an agent of Consul, and members have none: it has a gossip key of the coordinators, or is of an earlier version", name, cmp.Or(n.Address, "no address"))
		case name == leaseNode:
		case !slot && n.Listed:
			text = fmt.Sprintf("node %q is in Consul's catalog and is no slot", name)
		}
		if text != "" {
			out = append(out, auditFinding{group: groupOf(v, name), text: text, code: code})
		}
	}
	return out
}

// groupOf returns the group that a name belongs to, or "" if there is no such group.
func groupOf(v *view.View, name string) string {
	g, _, err := group.ParseSlot(name)
	if err != nil || !slices.Contains(v.Known(), g) {
		return ""
	}
	return g
}

// unexplainedMembers returns the Condition of one group; ok is false without findings.
func (r *Reconciler) unexplainedMembers(name string, now time.Time) (c group.Condition, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	for _, s := range r.auditFindings {
		if s.group == "" || s.group == name {
			texts = append(texts, s.text)
		}
	}
	return group.Condition{
		Type: rollout.ConditionUnexplainedMembers, Status: true, Reason: string(policy.CodePeerNotAdmitted), Message: bounded(names.Few(texts, "; ")), Since: now,
	}, len(texts) > 0
}
