package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"
)

// LeaseNodePrefix begins the name of the catalog node that sessions are on. No Slot's name has a
// dot.
const LeaseNodePrefix = "cadre.lease-"

// leaseNode returns the node of all sessions that are created with the token. A session ends with
// its node, and any member of Consul's gossip can register and deregister a node of a known name.
// The name cannot be guessed without the token.
func leaseNode(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("cadre/v1/lease-node"))
	return LeaseNodePrefix + hex.EncodeToString(mac.Sum(nil)[:16])
}

// LeaseNode names the catalog node that this store's sessions are on. It represents no machine. It
// has no ID, so that no other node can rename it by registering its ID. It has no check, so that
// neither gossip nor the health of a machine ends its sessions.
func (c *Consul) LeaseNode() string { return c.node }

// registerNode creates the node of the sessions. An existing node stays unchanged.
func (c *Consul) registerNode(ctx context.Context) error {
	_, err := c.client.Catalog().Register(&api.CatalogRegistration{
		Node: c.node, Address: "127.0.0.1", SkipNodeUpdate: true,
	}, (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("register node %s: %w", c.node, classed(err))
	}
	return nil
}

// noNode reports whether Consul knows no node of that name.
func noNode(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Missing node registration")
}
