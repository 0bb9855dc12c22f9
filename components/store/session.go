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

// CreateSession makes a Consul session with behaviour release, as good as no lock
// delay and no checks, on LeaseNode: neither the leader nor a Boot must lose what it
// holds because a coordinator's machine is ill, or because somebody took a machine's
// name or ID. Consul ends it at twice its TTL after the last renewal, and starts all
// TTLs anew when its leader changes.
func (c *Consul) CreateSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	session, err := c.createSession(ctx, name, ttl)
	if noNode(err) {
		// The first session of all, or somebody removed the node.
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

// RenewSession asks the Raft leader, which alone keeps the TTLs.
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

// DestroySession frees what the session locks.
func (c *Consul) DestroySession(ctx context.Context, session string) error {
	return c.destroySession(ctx, session)
}
