package tokens

import (
	"context"
	"fmt"

	consul "github.com/hashicorp/consul/api"
)

// known reports whether Consul knows the token.
func (i *Issuer) known(ctx context.Context, secret string) (bool, error) {
	_, err := i.self(ctx, secret)
	switch {
	case err == nil:
		return true, nil
	case isNotFound(err):
		return false, nil
	}
	return false, fmt.Errorf("read token: %w", err)
}

// self reads a token by its own right. The read is consistent: a leader answers it only after it
// has read its log.
func (i *Issuer) self(ctx context.Context, secret string) (*consul.ACLToken, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t, _, err := i.client.ACL().TokenReadSelf((&consul.QueryOptions{Token: secret, RequireConsistent: true}).WithContext(ctx))
	return t, err
}

// EnsureMinQuorum stops autopilot from pruning a server that is only away for an update.
// Idempotent.
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

// UseAgentToken sets the local Consul server's own token, at once and without a restart.
func (i *Issuer) UseAgentToken(ctx context.Context, secret string) error {
	if _, err := i.client.Agent().UpdateAgentACLToken(secret, (&consul.WriteOptions{}).WithContext(ctx)); err != nil {
		return fmt.Errorf("give consul its token: %w", err)
	}
	return nil
}
