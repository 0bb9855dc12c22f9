package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// RaftLeader asks the server for the address of the Raft leader, "host:port", as this server knows
// it; "" without a leader. Safe for concurrent use.
func (c *Consul) RaftLeader(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.cfg.Address()+"/v1/status/leader", nil)
	if err != nil {
		return "", fmt.Errorf("ask Consul for the Raft leader: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask Consul for the Raft leader: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return "", fmt.Errorf("ask Consul for the Raft leader: %w", err)
	}
	var leader string
	if resp.StatusCode != http.StatusOK || json.Unmarshal(text, &leader) != nil {
		return "", fmt.Errorf("ask Consul for the Raft leader: status %d: %.200s", resp.StatusCode, text)
	}
	return leader, nil
}
