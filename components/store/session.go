package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"

	"cadre.dev/store/internal/leasing"
)

// CreateSession makes a Consul session with behaviour release, the shortest lock delay and no
// checks, on LeaseNode. So neither the leader nor a Boot loses its lock because a coordinator's
// machine is unhealthy, or because another machine takes its name or ID. Consul ends the session at
// up to twice its TTL after the last renewal, and restarts all TTLs when its leader changes.
func (c *Consul) CreateSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	session, err := c.createSession(ctx, name, ttl)
	if noNode(err) {
		// This is the first session of all, or the node was removed.
		if err = c.registerNode(ctx); err == nil {
			session, err = c.createSession(ctx, name, ttl)
		}
	}
	if err != nil {
		return "", fmt.Errorf("create the session %s: %w", name, err)
	}
	return session, nil
}

func (c *Consul) createSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	session, _, err := c.client.Session().CreateNoChecks(&api.SessionEntry{
		Name: name, Node: c.node, TTL: ttl.String(), LockDelay: lockDelay, Behavior: api.SessionBehaviorRelease,
	}, (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return "", classed(err)
	}
	return session, nil
}

// RenewSession asks the Raft leader, the only server that keeps the TTLs.
func (c *Consul) RenewSession(ctx context.Context, session string) error {
	ctx, cancel := c.call(ctx)
	defer cancel()
	err := c.renewSession(ctx, session)
	status, ok := errors.AsType[api.StatusError](err)
	if errors.Is(err, leasing.ErrGone) || ok && status.Code == http.StatusNotFound {
		return fmt.Errorf("renew the session: %w", ErrNoSession)
	}
	if err != nil {
		return classed(err)
	}
	return nil
}

// DestroySession frees the locks of the session.
func (c *Consul) DestroySession(ctx context.Context, session string) error {
	return c.destroySession(ctx, session)
}
