package tokens

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"
)

// Owned is a token that carries the policy of a Slot.
type Owned struct {
	Accessor, Slot string
	CreatedAt      time.Time
}

// SlotTokens lists the tokens that carry the policy of a Slot, whoever made them.
func (i *Issuer) SlotTokens(ctx context.Context) ([]Owned, error) {
	list, _, err := i.client.ACL().TokenList((&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	var out []Owned
	for _, t := range list {
		for _, p := range t.Policies {
			if slot, ok := slotOf(p.Name); ok {
				out = append(out, Owned{Accessor: t.AccessorID, Slot: slot, CreatedAt: t.CreateTime})
				break
			}
		}
	}
	return out, nil
}

// slotOf reads the Slot out of the name of a policy that was made for one.
func slotOf(policy string) (string, bool) {
	for _, kind := range policyKinds {
		slot, ok := strings.CutPrefix(policy, policyMark+kind+"-")
		if !ok {
			continue
		}
		if generated(policy) {
			slot = slot[:strings.LastIndexByte(slot, '-')]
		}
		return slot, true
	}
	return "", false
}

// Nodes are the names in Consul's catalog, and whether gossip calls each alive.
func (i *Issuer) Nodes(ctx context.Context) (map[string]bool, error) {
	query := (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	nodes, _, err := i.client.Catalog().Nodes(query)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	checks, _, err := i.client.Health().State(consul.HealthPassing, query)
	if err != nil {
		return nil, fmt.Errorf("list health of nodes: %w", err)
	}
	out := map[string]bool{}
	for _, n := range nodes {
		out[n.Node] = false
	}
	for _, c := range checks {
		if _, known := out[c.Node]; known && c.CheckID == "serfHealth" {
			out[c.Node] = true
		}
	}
	return out, nil
}

// Who names the holder of a token for the record: its accessor and description,
// never its secret.
func (i *Issuer) Who(ctx context.Context, token string) (string, error) {
	t, _, err := i.client.ACL().TokenReadSelf((&consul.QueryOptions{Token: token}).WithContext(ctx))
	if err != nil {
		if isNotFound(err) || strings.Contains(err.Error(), "Permission denied") {
			return "", errors.Join(ErrDenied, err)
		}
		return "", fmt.Errorf("read the caller's token: %w", err)
	}
	text := t.AccessorID
	if t.Description != "" {
		text = fmt.Sprintf("%.100s (%s)", t.Description, t.AccessorID)
	}
	return text, nil
}
