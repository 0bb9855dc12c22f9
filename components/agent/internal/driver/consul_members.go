package driver

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

var _ Changer = (*consul)(nil)

// Join has nothing to do: a server that joins the gossip is listed by the leader.
func (c *consul) Join(context.Context, string) error { return nil }

// Promote does nothing: autopilot gives a server its vote once the server is stable.
func (c *consul) Promote(context.Context, string, string) error { return nil }

// Leave removes a dead server from raft and from the gossip, so that its name is free for the next
// server. Leave rejects a live server: it would be listed again at once, and a forced leave stops
// it only for others. If only two servers are left, Leave removes the other one from raft while it
// lives, since one server has no quorum later. Within a minute that server is listed again without
// a vote, gets a vote ten seconds later, and must be removed again if it is still there.
func (c *consul) Leave(ctx context.Context, slot, id string) error {
	if slot == c.self {
		return fmt.Errorf("%w: %s is this server itself: another one takes it out", ErrUnsafe, slot)
	}
	header, err := c.header()
	if err != nil {
		return err
	}
	var raft consulRaft
	if err := c.get(ctx, "/v1/operator/raft/configuration", header, &raft); err != nil {
		return fmt.Errorf("%w: %w", ErrTransient, err)
	}
	peer, listed := raft.server(slot, id)
	if listed && id != "" && peer.name() != slot && peer.name() != id {
		return fmt.Errorf("%w: server %s is %s, not %s", ErrUnsafe, id, peer.Node, slot)
	}
	failed, err := c.failed(ctx, header, slot, id, raft.leaves(peer) == c.self)
	if err != nil {
		return err
	}
	// Remove from raft first: raft lists only live servers again. Once the gossip has forgotten the
	// name, a remaining vote has an id without an owner, and no later call could remove it.
	if listed {
		if err := c.lowerMinQuorum(ctx, header, len(raft.Servers)-1); err != nil {
			return err
		}
		if err := c.removePeer(ctx, header, peer.ID); err != nil {
			return err
		}
	}
	if !failed {
		return nil
	}
	return c.put(ctx, http.MethodPut, "/v1/agent/force-leave/"+url.PathEscape(slot)+"?prune=1", header)
}

// lowerMinQuorum undoes Drain's raise of MinQuorum, for the servers that stay: while MinQuorum is
// above their number, autopilot never cleans up a dead server. The group's intended size is the
// lower bound, because a replaced server returns.
func (c *consul) lowerMinQuorum(ctx context.Context, header http.Header, servers int) error {
	return c.setMinQuorum(ctx, header, func(have int) int { return min(have, max(servers, len(c.members()))) })
}

// failed reports that slot's server is in the gossip and does not live. It returns false for a
// later server under the same name, which has another id, and for a live server if mayLive is set.
func (c *consul) failed(ctx context.Context, header http.Header, slot, id string, mayLive bool) (bool, error) {
	var members []consulMember
	if err := c.get(ctx, "/v1/agent/members", header, &members); err != nil {
		return false, fmt.Errorf("%w: %w", ErrTransient, err)
	}
	named := func(name string) int {
		return slices.IndexFunc(members, func(m consulMember) bool { return m.Name == name })
	}
	at := named(slot)
	switch {
	case named(c.self) < 0: // Consul omits servers that the token may not see
		return false, fmt.Errorf("%w: whether %s lives is not known: the token of token_file lacks node_prefix \"\" with policy \"read\"", ErrUnsafe, slot)
	case at < 0, id != "" && members[at].Tags["id"] != id:
		return false, nil
	case members[at].Status == consulAlive && mayLive:
		return false, nil
	case members[at].Status == consulAlive:
		return false, fmt.Errorf("%w: %s still takes part in the gossip: a live server is listed again automatically", ErrUnsafe, slot)
	}
	return true, nil
}

// removePeer removes the server from raft; a server that is absent already is no error.
func (c *consul) removePeer(ctx context.Context, header http.Header, id string) error {
	err := c.put(ctx, http.MethodDelete, "/v1/operator/raft/peer?id="+url.QueryEscape(id), header)
	if err == nil {
		return nil
	}
	var raft consulRaft
	if again := c.get(ctx, "/v1/operator/raft/configuration", header, &raft); again != nil {
		return err
	}
	if _, listed := raft.server("", id); !listed {
		return nil
	}
	return err
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
