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

// issueTime is how long a token may exist before the admission that it belongs to
// names it: between its making and that record lie moments.
const issueTime = 2 * time.Minute

// Owned is a token of a Slot.
type Owned struct {
	Accessor, Slot string
	CreatedAt      time.Time
}

// Unrecorded are those of owned that no admission names and that none is about to:
// they were given to nobody, since an issue was interrupted (TOK-12), or made by
// somebody else (CTL-20). owned must have been listed before the admissions were read,
// all of them: what was issued in between is recorded then.
func Unrecorded(owned []Owned, recorded func(slot, accessor string) bool, now time.Time) []Owned {
	return slices.DeleteFunc(slices.Clone(owned), func(t Owned) bool {
		return now.Sub(t.CreatedAt) < issueTime || recorded(t.Slot, t.Accessor)
	})
}

// SlotTokens lists the tokens that carry the policy of a Slot, whoever made them, and
// those that were issued for one whose policy is gone.
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

// owner is the Slot that a token with these policies is of.
func owner(policies []*consul.ACLTokenPolicyLink, description string) (string, bool) {
	for _, p := range policies {
		if slot, ok := slotOf(p.Name); ok {
			return slot, true
		}
	}
	return describedSlot(description)
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

// Node is a name that Consul knows, from its catalog or from gossip.
type Node struct {
	// IDs that it bears, in lower case: mostly one, none where there is no agent.
	IDs []string
	// Boot that its entry in the catalog was made for; empty where none was.
	Boot string
	// Address that it says it is at; empty where it is not in gossip.
	Address string
	// Listed: it is in the catalog. Alive: gossip calls it so.
	Listed, Alive bool
}

func (n *Node) bears(id string) {
	if id = strings.ToLower(id); id != "" && !slices.Contains(n.IDs, id) {
		n.IDs = append(n.IDs, id)
	}
}

// aliveMember is serf's status of a member that is there.
const aliveMember = 1

// Nodes are the names that Consul knows. Gossip alone tells of two names with one ID:
// the catalog keeps the last one.
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

// Who names the holder of a token for the record: its accessor and description,
// never its secret. ErrDenied when there is no such token; that is certain.
func (i *Issuer) Who(ctx context.Context, token string) (string, error) {
	t, err := i.read(ctx, token)
	if err != nil {
		return "", err
	}
	text := t.AccessorID
	if t.Description != "" {
		text = fmt.Sprintf("%.100s (%s)", t.Description, t.AccessorID)
	}
	return text, nil
}

// CheckOperator is nil for a token that somebody outside the cluster was given. ErrDenied
// when there is no such token, or it is that of a Slot or of nobody; that is certain.
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
		return fmt.Errorf("%w: the token is what Consul takes for none", ErrDenied)
	}
	return nil
}

// Owner is the Slot that a token was issued for; "": it is of none, or there is no such
// token. An error means that it is not known.
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

// read reads a token by its own right. ErrDenied when there is no such token; that is
// certain.
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
