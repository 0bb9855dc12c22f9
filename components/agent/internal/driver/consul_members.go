package driver

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

var _ Changer = (*consul)(nil)

// Join has nothing to do: a server that joins the gossip is listed by the leader.
func (c *consul) Join(context.Context, string) error { return nil }

// Promote has nothing to do: autopilot gives a server its vote once it is stable.
func (c *consul) Promote(context.Context, string) error { return nil }

// Leave takes a server that is gone out of raft, and out of the gossip, so that its name is
// free for the next one. One that lives would be listed again at once.
func (c *consul) Leave(ctx context.Context, slot string) error {
	if slot == c.self {
		return fmt.Errorf("%w: %s is this server itself: another one takes it out", ErrUnsafe, slot)
	}
	header, err := c.header()
	if err != nil {
		return err
	}
	// First the gossip: the leader lists again who is in it.
	if err := c.put(ctx, http.MethodPut, "/v1/agent/force-leave/"+url.PathEscape(slot)+"?prune=1", header); err != nil {
		return err
	}
	var raft consulRaft
	if err := c.get(ctx, "/v1/operator/raft/configuration", header, &raft); err != nil {
		return fmt.Errorf("%w: %w", ErrTransient, err)
	}
	id, listed := raft.server(slot)
	if !listed {
		return nil
	}
	return c.put(ctx, http.MethodDelete, "/v1/operator/raft/peer?id="+url.QueryEscape(id), header)
}

// put makes a call whose answer is only whether it was done.
func (c *consul) put(ctx context.Context, method, path string, header http.Header) error {
	status, answer, err := call(ctx, c.client, method, c.base+path, header, nil)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrTransient, err)
	case status == http.StatusOK, strings.Contains(string(answer), "No node found"):
		return nil
	}
	return fmt.Errorf("%w: %s %s: status %d: %s", ErrTransient, method, path, status, strings.TrimSpace(string(answer)))
}
