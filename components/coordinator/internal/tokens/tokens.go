package tokens

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/group"
)

// TTL of tokens given to admitted Boots; Consul's own upper bound.
const TTL = 24 * time.Hour

// Issuer makes and revokes tokens. Safe for concurrent use.
type Issuer struct {
	client  *consul.Client
	address string
	http    *http.Client
}

// New talks to the local Consul at address (host:port) with the management token.
func New(address, managementToken string) (*Issuer, error) {
	client, err := consul.NewClient(&consul.Config{Address: address, Token: managementToken})
	if err != nil {
		return nil, fmt.Errorf("make consul client: %w", err)
	}
	return &Issuer{client: client, address: address, http: &http.Client{Timeout: 10 * time.Second}}, nil
}

// Token is one issued token.
type Token struct {
	Accessor, Secret string
}

// Slot issues the two tokens of an admitted Boot: for its Consul agent and for
// its workload. Earlier tokens are untouched; the caller revokes them when the
// new ones are recorded.
func (i *Issuer) Slot(ctx context.Context, spec group.Spec, slot string) (agent, workload Token, err error) {
	agent, err = i.issue(ctx, agentPolicy(slot), agentRules(slot))
	if err != nil {
		return Token{}, Token{}, err
	}
	workload, err = i.issue(ctx, workloadPolicy(slot), workloadRules(spec.Workload, spec.Name, slot))
	if err != nil {
		return Token{}, Token{}, errors.Join(err, i.Revoke(ctx, agent.Accessor))
	}
	return agent, workload, nil
}

// Retire takes back everything that a Slot was given: its tokens by accessor, and
// the policies that were made for it. What is gone counts as taken back.
func (i *Issuer) Retire(ctx context.Context, slot string, accessors ...string) error {
	errs := []error{i.Revoke(ctx, accessors...)}
	for _, name := range []string{agentPolicy(slot), workloadPolicy(slot)} {
		have, _, err := i.client.ACL().PolicyReadByName(name, (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		if err != nil && !isNotFound(err) {
			errs = append(errs, fmt.Errorf("read policy %s: %w", name, err))
		}
		if err != nil || have == nil {
			continue
		}
		if _, err := i.client.ACL().PolicyDelete(have.ID, (&consul.WriteOptions{}).WithContext(ctx)); err != nil && !isNotFound(err) {
			errs = append(errs, fmt.Errorf("delete policy %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func agentPolicy(slot string) string    { return "cadre-agent-" + slot }
func workloadPolicy(slot string) string { return "cadre-workload-" + slot }

// Revoke deletes tokens by accessor; one that is gone counts as revoked.
func (i *Issuer) Revoke(ctx context.Context, accessors ...string) error {
	var errs []error
	for _, accessor := range accessors {
		_, err := i.client.ACL().TokenDelete(accessor, (&consul.WriteOptions{}).WithContext(ctx))
		if err != nil && !isNotFound(err) {
			errs = append(errs, fmt.Errorf("revoke token %s: %w", accessor, err))
		}
	}
	return errors.Join(errs...)
}

// issue makes a token that carries only the named policy.
func (i *Issuer) issue(ctx context.Context, policy, rules string) (Token, error) {
	id, err := i.ensurePolicy(ctx, policy, rules)
	if err != nil {
		return Token{}, err
	}
	made, _, err := i.client.ACL().TokenCreate(&consul.ACLToken{
		Description:   policy,
		Policies:      []*consul.ACLTokenPolicyLink{{ID: id}},
		ExpirationTTL: TTL,
	}, (&consul.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return Token{}, fmt.Errorf("issue token of policy %s: %w", policy, err)
	}
	return Token{Accessor: made.AccessorID, Secret: made.SecretID}, nil
}

// ensurePolicy makes the named policy read exactly rules.
func (i *Issuer) ensurePolicy(ctx context.Context, name, rules string) (string, error) {
	query := (&consul.QueryOptions{RequireConsistent: true}).WithContext(ctx)
	write := (&consul.WriteOptions{}).WithContext(ctx)
	have, _, err := i.client.ACL().PolicyReadByName(name, query)
	if err != nil && !isNotFound(err) {
		return "", fmt.Errorf("read policy %s: %w", name, err)
	}
	if have == nil {
		made, _, err := i.client.ACL().PolicyCreate(&consul.ACLPolicy{Name: name, Rules: rules}, write)
		if err == nil {
			return made.ID, nil
		}
		// Another coordinator was faster.
		have, _, _ = i.client.ACL().PolicyReadByName(name, query)
		if have == nil {
			return "", fmt.Errorf("make policy %s: %w", name, err)
		}
	}
	if have.Rules != rules {
		have.Rules = rules
		if _, _, err := i.client.ACL().PolicyUpdate(have, write); err != nil {
			return "", fmt.Errorf("update policy %s: %w", name, err)
		}
	}
	return have.ID, nil
}

// EnsureCoordinator makes the known token of a coordinator's own Consul server.
// Idempotent.
func (i *Issuer) EnsureCoordinator(ctx context.Context, secret string) error {
	return i.ensureToken(ctx, secret, "cadre-coordinator", coordinatorAgentRules)
}

// ensureToken makes a token with a known SecretID unless it exists.
func (i *Issuer) ensureToken(ctx context.Context, secret, policy, rules string) error {
	id, err := i.ensurePolicy(ctx, policy, rules)
	if err != nil {
		return err
	}
	if known, err := i.known(ctx, secret); err != nil || known {
		return err
	}
	_, _, err = i.client.ACL().TokenCreate(&consul.ACLToken{
		SecretID: secret, Description: policy, Policies: []*consul.ACLTokenPolicyLink{{ID: id}},
	}, (&consul.WriteOptions{}).WithContext(ctx))
	if err == nil {
		return nil
	}
	if known, readErr := i.known(ctx, secret); readErr == nil && known {
		return nil
	}
	return fmt.Errorf("make token of policy %s: %w", policy, err)
}

// known asks Consul whether it knows the token.
func (i *Issuer) known(ctx context.Context, secret string) (bool, error) {
	_, _, err := i.client.ACL().TokenReadSelf((&consul.QueryOptions{Token: secret, RequireConsistent: true}).WithContext(ctx))
	switch {
	case err == nil:
		return true, nil
	case isNotFound(err):
		return false, nil
	}
	return false, fmt.Errorf("read token: %w", err)
}

// EnsureMinQuorum keeps autopilot from pruning a server that is only away for
// an update. Idempotent.
func (i *Issuer) EnsureMinQuorum(ctx context.Context, servers uint) error {
	operator := i.client.Operator()
	have, err := operator.AutopilotGetConfiguration((&consul.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("read autopilot configuration: %w", err)
	}
	if have.MinQuorum == servers {
		return nil
	}
	have.MinQuorum = servers
	if _, err := operator.AutopilotCASConfiguration(have, (&consul.WriteOptions{}).WithContext(ctx)); err != nil {
		return fmt.Errorf("set autopilot minimum quorum: %w", err)
	}
	return nil
}

func isNotFound(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "ACL not found") || strings.Contains(text, "Cannot find") || strings.Contains(text, "404") ||
		strings.Contains(text, "token does not exist")
}
