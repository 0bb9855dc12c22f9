package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestConsulServersGoToAnotherPatchAndBack moves real servers to another patch release and back on their disks, as a rollout
// does: followers first, the leader after one hand-over. No acknowledged write is missing at the end.
func TestConsulServersGoToAnotherPatchAndBack(t *testing.T) {
	t.Parallel()
	older := tool(t, "bin/consul1226")
	if testing.Short() {
		t.Skip("starts three Consul servers")
	}
	const kind = 13
	c := consulServers(t, kind)
	within(t, c.settle, "form", c.healthy)
	newer := c.procs[0].argv[0]
	w := writeKeys(t, subnet(t, kind))
	for _, binary := range []string{older, newer} {
		from := time.Now()
		lead := c.leader(t)
		for _, at := range []int{(lead + 1) % 3, (lead + 2) % 3} {
			c.moves(t, at, binary)
		}
		got, err := c.drivers[lead].Transfer(t.Context(), TransferRequest{ExpectedLeader: c.names[lead], Candidates: []string{c.names[(lead+1)%3], c.names[(lead+2)%3]}})
		if err != nil || !got.Moved {
			t.Fatalf("%s leads on: %+v, %v", c.names[lead], got, err)
		}
		within(t, c.settle, "settle after the hand-over", c.healthy)
		c.moves(t, lead, binary)
		views, err := c.views(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range views {
			if v.Version != views[0].Version || v.Epoch != got.Epoch || v.Leader != got.Leader {
				t.Errorf("%s runs %s under %s in term %d, want one version, %s and term %d", c.names[i], v.Version, v.Leader, v.Epoch, got.Leader, got.Epoch)
			}
		}
		t.Logf("all at %s after %s; so far %s", views[0].Version, time.Since(from).Round(time.Second), w)
	}
	w.end(t)
}

// moves stops a server, and starts another program on its disk.
func (c *realCluster) moves(t *testing.T, at int, binary string) {
	t.Helper()
	c.procs[at].stop()
	was := c.procs[at].argv[0]
	c.procs[at].argv[0] = binary
	c.procs[at].start()
	within(t, c.settle, fmt.Sprintf("take %s back, %s after %s", c.names[at], binary, was), c.healthy)
}

// keyWriter writes keys one after the other, at any server, until it ends.
type keyWriter struct {
	addr func(int) netip.Addr
	stop context.CancelFunc
	done chan struct{}

	mu sync.Mutex
	// acknowledged are the numbers of the keys that a server confirmed; failed counts the other attempts.
	acknowledged []int         // guarded by mu
	failed       int           // guarded by mu
	gap          time.Duration // guarded by mu; the longest time between two acknowledged writes
}

func writeKeys(t *testing.T, addr func(int) netip.Addr) *keyWriter {
	ctx, stop := context.WithCancel(t.Context())
	w := &keyWriter{addr: addr, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		last := time.Now()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			body, err := w.ask(ctx, n, http.MethodPut, "", strconv.Itoa(n))
			w.mu.Lock()
			if err == nil && body == "true" {
				w.acknowledged = append(w.acknowledged, n)
				w.gap, last = max(w.gap, time.Since(last)), time.Now()
			} else {
				w.failed++
			}
			w.mu.Unlock()
		}
	}()
	t.Cleanup(func() { stop(); <-w.done })
	return w
}

// ask sends a request about key n to the server whose turn it is.
func (w *keyWriter) ask(ctx context.Context, n int, method, query, body string) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://%s:8500/v1/kv/key-%d%s", w.addr(n%3), n, query), strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("status %d: %s", resp.StatusCode, data))
	}
	return strings.TrimSpace(string(data)), err
}

func (w *keyWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%d writes acknowledged, %d failed, longest gap %d ms", len(w.acknowledged), w.failed, w.gap.Milliseconds())
}

// end stops the writer, and looks for each acknowledged key by a consistent read.
func (w *keyWriter) end(t *testing.T) {
	t.Helper()
	w.stop()
	<-w.done
	if len(w.acknowledged) == 0 {
		t.Error("no write was acknowledged")
	}
	for _, n := range w.acknowledged {
		if got, err := w.ask(t.Context(), n, http.MethodGet, "?raw&consistent", ""); err != nil || got != strconv.Itoa(n) {
			t.Fatalf("key %d was acknowledged and is %q, %v", n, got, err)
		}
	}
}
