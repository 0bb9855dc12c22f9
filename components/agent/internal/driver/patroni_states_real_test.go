package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// TestPatroniStates takes one real cluster through the states in which a driver was wrong before:
// one cluster for all of them, since each costs many seconds to start.
func TestPatroniStates(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Consul and three PostgreSQL members")
	}
	r := startRig(t, 14, stockPatroni, func(_ int, config map[string]any) {
		dcs := config["bootstrap"].(map[string]any)["dcs"].(map[string]any)
		dcs["synchronous_mode"], dcs["synchronous_node_count"] = "quorum", 1
		config["postgresql"].(map[string]any)["parameters"].(map[string]any)["fsync"] = "off"
	})
	within(t, r.settle, "form", r.healthy)
	r.quorumMode(t)
}

// quorumMode: a replica with nosync is no candidate, and the next one is asked for.
func (r *rig) quorumMode(t *testing.T) {
	t.Helper()
	from := r.leader(t)
	nosync, to := (from+1)%3, (from+2)%3
	r.configs[nosync]["tags"] = map[string]any{"nosync": true}
	r.reload(t, nosync)
	r.roles(t, map[int]string{from: "leader", nosync: "replica", to: "quorum_standby"})
	out, err := r.drivers[from].Transfer(t.Context(), TransferRequest{
		ExpectedLeader: r.names[from], Candidates: []string{r.names[nosync], r.names[to]},
	})
	if err != nil || !out.Moved || out.Leader != r.names[to] {
		t.Fatalf("transfer with a nosync candidate first = %+v, %v; want %s", out, err, r.names[to])
	}
	delete(r.configs[nosync], "tags")
	r.reload(t, nosync)
	within(t, r.settle, "settle", r.healthy)
}

// reload has member i read its configuration again.
func (r *rig) reload(t *testing.T, i int) {
	t.Helper()
	r.write(t, i)
	if err := r.procs[i].cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// roles waits until Patroni shows those members in those roles.
func (r *rig) roles(t *testing.T, want map[int]string) {
	t.Helper()
	within(t, r.settle, fmt.Sprintf("be %v", want), func(ctx context.Context) error {
		c, err := r.drivers[0].(*patroni).cluster(ctx)
		for i, role := range want {
			if m, _ := c.member(r.names[i]); err == nil && m.Role != role {
				err = fmt.Errorf("%s is %s", m.Name, m.Role)
			}
		}
		return err
	})
}

// rest calls Patroni's API of member i as an operator does.
func (r *rig) rest(method string, i int, path string, body any) (string, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequest(method, "http://"+r.hosts[i]+":8008"+path, bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	res, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // test
	out, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", path, res.StatusCode, out)
	}
	return string(out), err
}
