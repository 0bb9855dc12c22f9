package tokens

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/store"
)

// issueTime is how long a token may exist before its admission names it. Normally moments pass
// between the creation and that record.
const issueTime = 2 * time.Minute

// Owned is a token of a Slot.
type Owned struct {
	Accessor, Slot string
	CreatedAt      time.Time
}

// Unrecorded returns the owned tokens that no admission names and that are older than issueTime.
// Such a token was never delivered, because its issue was interrupted (TOK-12), or it was created
// outside of Cadre (CTL-20). List owned before reading all admissions: a token issued in between is
// recorded then.
func Unrecorded(owned []Owned, recorded func(slot, accessor string) bool, now time.Time) []Owned {
	return slices.DeleteFunc(slices.Clone(owned), func(t Owned) bool {
		return now.Sub(t.CreatedAt) < issueTime || recorded(t.Slot, t.Accessor)
	})
}

// SlotTokens lists the tokens that carry the policy of a Slot, regardless of their creator, and the
// tokens issued for a Slot whose policy is gone.
func (i *Issuer) SlotTokens(ctx context.Context) ([]Owned, error) {
	list, _, err := i.client.ACL().TokenList((&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	var out []Owned
	for _, t := range list {
		if slot, ok := owner(t.Policies, t.Description); ok {
			out = append(out, Owned{Accessor: t.AccessorID, Slot: slot, CreatedAt: t.CreateTime})
		}
	}
	return out, nil
}

// owner returns the Slot of a token with these policies.
func owner(policies []*consul.ACLTokenPolicyLink, description string) (string, bool) {
	for _, p := range policies {
		if slot, ok := slotOf(p.Name); ok {
			return slot, true
		}
	}
	return describedSlot(description)
}

// slotOf parses the Slot from the name of a Slot's policy.
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

// Node is a node name from Consul's catalog or from gossip.
type Node struct {
	// IDs of the node, in lower case: usually one, none without an agent.
	IDs []string
	// Boot of its entry in the catalog; empty without one.
	Boot string
	// Address according to gossip; empty outside of gossip.
	Address string
	// Listed: the node is in the catalog. Alive: gossip reports it as alive.
	Listed, Alive bool
}

func (n *Node) bears(id string) {
	if id = strings.ToLower(id); id != "" && !slices.Contains(n.IDs, id) {
		n.IDs = append(n.IDs, id)
	}
}

// aliveMember is serf's status of an alive member.
const aliveMember = 1

// Nodes returns the node names that Consul knows. Two names with one ID appear only in gossip: the
// catalog keeps the last one.
func (i *Issuer) Nodes(ctx context.Context) (map[string]Node, error) {
	query := (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	nodes, _, err := i.client.Catalog().Nodes(query)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	checks, _, err := i.client.Health().State(consul.HealthPassing, query)
	if err != nil {
		return nil, fmt.Errorf("list health of nodes: %w", err)
	}
	members, err := i.client.Agent().Members(false)
	if err != nil {
		return nil, fmt.Errorf("list members of gossip: %w", err)
	}
	out := map[string]Node{}
	for _, n := range nodes {
		one := Node{Listed: true, Boot: n.Meta["cadre-boot"]}
		one.bears(n.ID)
		out[n.Node] = one
	}
	for _, c := range checks {
		if one, known := out[c.Node]; known && c.CheckID == "serfHealth" {
			one.Alive = true
			out[c.Node] = one
		}
	}
	for _, m := range members {
		if m.Status == aliveMember {
			one := out[m.Name]
			one.bears(m.Tags["id"])
			one.Address = m.Addr
			out[m.Name] = one
		}
	}
	return out, nil
}

// NameOf returns the name of a token's holder for the record: its accessor and description, never
// its secret. ErrDenied means that the token certainly does not exist.
func (i *Issuer) NameOf(ctx context.Context, token string) (string, error) {
	t, err := i.read(ctx, token)
	if err != nil {
		return "", err
	}
	if t.Description == "" {
		return t.AccessorID, nil
	}
	return nameText(t.Description, t.AccessorID), nil
}

func nameText(description, accessor string) string {
	return fmt.Sprintf("%.100s (%s)", description, accessor)
}

// NamedText is NameOf for the token of an operator with a record, before the token exists.
func NamedText(operator, accessor string) string {
	return nameText(operatorMark+operator, accessor)
}

// CheckOperator returns nil for a token of a caller outside the cluster. ErrDenied means that the
// token certainly does not exist, is a Slot's, or is Consul's anonymous one.
func (i *Issuer) CheckOperator(ctx context.Context, token string) error {
	t, err := i.read(ctx, token)
	if err != nil {
		return err
	}
	if slot, ok := owner(t.Policies, t.Description); ok {
		return fmt.Errorf("%w: the token is of slot %s", ErrDenied, slot)
	}
	if strings.HasPrefix(t.Description, descriptionMark) {
		return fmt.Errorf("%w: the token is a coordinator's own", ErrDenied)
	}
	if t.AccessorID == anonymousAccessor {
		return fmt.Errorf("%w: the token is Consul's anonymous one", ErrDenied)
	}
	return nil
}

// Owner returns the Slot that a token was issued for; "": the token is no Slot's, or does not
// exist. An error means that the owner is unknown.
func (i *Issuer) Owner(ctx context.Context, token string) (string, error) {
	t, err := i.read(ctx, token)
	switch {
	case errors.Is(err, ErrDenied):
		return "", nil
	case err != nil:
		return "", err
	}
	slot, _ := owner(t.Policies, t.Description)
	return slot, nil
}

// read reads a token by its own right. ErrDenied means that the token certainly does not exist.
func (i *Issuer) read(ctx context.Context, token string) (*consul.ACLToken, error) {
	t, err := i.self(ctx, token)
	status, answered := errors.AsType[consul.StatusError](err)
	switch {
	case err == nil:
		return t, nil
	case isNotFound(err), answered && strings.Contains(status.Body, "Permission denied"):
		return nil, errors.Join(ErrDenied, err)
	case !answered, status.Code >= http.StatusInternalServerError:
		return nil, fmt.Errorf("read the caller's token: %w: %w", store.ErrUnavailable, err)
	}
	return nil, fmt.Errorf("read the caller's token: %w", err)
}
