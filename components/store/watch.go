package store

import (
	"context"
	"fmt"

	"github.com/hashicorp/consul/api"
)

// Watch is a blocking query on the keys below prefix. It returns an index that went backwards (a
// restored snapshot, reaped tombstones) at once: the caller reads again from there. Spurious
// returns happen.
func (c *Consul) Watch(ctx context.Context, prefix string, index uint64) (uint64, error) {
	if err := CheckPrefix(prefix); err != nil {
		return index, err
	}
	// Consul adds up to a sixteenth of jitter to the wait. After that the server is gone, although
	// the connection may look alive.
	limit := c.cfg.Resync + c.cfg.Resync/16 + c.cfg.CallTimeout
	call, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("consul did not answer in %v", limit))
	defer cancel()
	// The answer has only the first segments of the keys: the caller reads the records that it
	// wants. A list of all keys at each change would cost as much as the values.
	query := (&api.QueryOptions{RequireConsistent: true, WaitIndex: index, WaitTime: c.cfg.Resync}).WithContext(call)
	_, meta, err := c.client.KV().Keys(c.cfg.Prefix+prefix, "/", query)
	if err != nil {
		if ctx.Err() != nil {
			return index, ctx.Err()
		}
		return index, fmt.Errorf("watch %s: %w", prefix, notRead(err))
	}
	return meta.LastIndex, nil
}
