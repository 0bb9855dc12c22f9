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
// delay and no node checks: a Boot must not lose its Slot because a coordinator's
// machine is ill. Consul ends it at twice its TTL after the last renewal, and
// starts all TTLs anew when its leader changes.
func (c *Consul) CreateSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	session, _, err := c.client.Session().CreateNoChecks(&api.SessionEntry{
		Name: name, TTL: ttl.String(), LockDelay: lockDelay, Behavior: api.SessionBehaviorRelease,
	}, (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("create the session %s: %w", name, classed(err))
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
