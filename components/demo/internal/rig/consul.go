package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Consul is the group of clusters/consul, whose clients are those of group Light.
const Consul = "consul"

// DeployConsul starts a local cloud with three coordinators, the Consul example with an image and the version in it, and a
// CVM for clients.
func (r *Rig) DeployConsul(ctx context.Context, n *Narrator, image, version string) error {
	n.Say("starting a local cloud and three coordinators")
	if err := r.Up(ctx); err != nil {
		return err
	}
	if err := r.CreateLightCluster(ctx); err != nil {
		return err
	}
	n.Say("applying groups %s and %s", Consul, Light)
	if err := r.ApplyConsul(ctx, image, version); err != nil {
		return err
	}
	if _, err := r.ApplyLight(ctx, r.LightFile(), "1", "--var", "replicas=1"); err != nil {
		return err
	}
	for _, name := range []string{Consul, Light} {
		if _, err := r.Follow(ctx, name, n.Rollout); err != nil {
			return fmt.Errorf("deploy %s: %w", name, err)
		}
	}
	return nil
}

// ApplyConsul writes the group's spec with an image and the version in it.
func (r *Rig) ApplyConsul(ctx context.Context, image, version string) error {
	vars, err := r.imageVar("consul", image)
	if err != nil {
		return err
	}
	return r.applyFile(ctx, "clusters/consul/consul.hcl", []string{"agent"}, append(vars,
		"--var", "consul_version="+version, "--var", "updates=PROACTIVE", "--var", "clients="+Light)...)
}

// ConsulServer is a server's own report.
type ConsulServer struct {
	Version string
	// ID is on the server's disk.
	ID     string
	Leader bool
	// Term of raft: each election has another one.
	Term int
}

// ConsulClients work on the servers of group Consul from the CVM of group Light, over the overlay.
type ConsulClients struct {
	http   *http.Client
	within *inside
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu sync.Mutex
	// acknowledged are the keys of all acknowledged writes.
	acknowledged []string  // guarded by mu
	span         KeyReport // guarded by mu
	last         time.Time // guarded by mu; of the last acknowledged write
}

// KeyReport is the result of a span of writes.
type KeyReport struct {
	Acknowledged, Failed int
	// Gap is the longest time without an acknowledged write.
	Gap time.Duration
}

// ConsulClients starts clients that write keys until End: one for each server, so that no write waits for another server.
func (r *Rig) ConsulClients(ctx context.Context) (*ConsulClients, error) {
	within, err := r.inside(Light + "-0")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	c := &ConsulClients{within: within, stop: stop, last: time.Now()}
	c.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		known, err := within.lookup(ctx, host)
		if err != nil {
			return nil, err
		}
		return within.dial(ctx, network, net.JoinHostPort(known[0], port))
	}}}
	for n := range 3 {
		c.ended.Go(func() { c.write(ctx, fmt.Sprintf("%s-%d", Consul, n)) })
	}
	return c, nil
}

// write writes a key every 10 ms to a server.
func (c *ConsulClients) write(ctx context.Context, slot string) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		key := fmt.Sprintf("load/%s/%d", slot, n)
		said, err := c.ask(ctx, http.MethodPut, slot, "kv/"+key, key)
		c.note(key, err == nil && string(bytes.TrimSpace(said)) == "true")
	}
}

func (c *ConsulClients) note(key string, acknowledged bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !acknowledged {
		c.span.Failed++
		return
	}
	now := time.Now()
	c.acknowledged = append(c.acknowledged, key)
	c.span.Acknowledged++
	c.span.Gap, c.last = max(c.span.Gap, now.Sub(c.last)), now
}

// ask sends a request to the server of a Slot.
func (c *ConsulClients) ask(ctx context.Context, method, slot, path, body string) (said []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+slot+":8510/v1/"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	said, err = io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	if answer.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s of %s: %s: %s", path, slot, answer.Status, tail(string(said), 200)))
	}
	return said, err
}

// Span waits until n writes were acknowledged since now, and returns the results since the Span before it.
func (c *ConsulClients) Span(ctx context.Context, n int) (KeyReport, error) {
	c.mu.Lock()
	until := c.span.Acknowledged + n
	c.mu.Unlock()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		c.mu.Lock()
		if span := c.span; span.Acknowledged >= until {
			c.span = KeyReport{}
			c.mu.Unlock()
			return span, nil
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return KeyReport{}, fmt.Errorf("the clients did not get %d writes acknowledged: %w", n, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Server asks the server of a Slot.
func (c *ConsulClients) Server(ctx context.Context, slot string) (ConsulServer, error) {
	said, err := c.ask(ctx, http.MethodGet, slot, "agent/self", "")
	if err != nil {
		return ConsulServer{}, err
	}
	var self struct {
		Config struct{ Version, NodeID string }
		Stats  struct {
			Consul struct {
				Leader string `json:"leader"`
			} `json:"consul"`
			Raft struct {
				Term string `json:"term"`
			} `json:"raft"`
		}
	}
	if err := json.Unmarshal(said, &self); err != nil {
		return ConsulServer{}, fmt.Errorf("read what the server of %s said: %q: %w", slot, tail(string(said), 200), err)
	}
	term, err := strconv.Atoi(self.Stats.Raft.Term)
	return ConsulServer{Version: self.Config.Version, ID: self.Config.NodeID, Leader: self.Stats.Consul.Leader == "true", Term: term}, err
}

// End stops the writes, and returns the number of acknowledged ones and the keys that a consistent read does not find.
func (c *ConsulClients) End(ctx context.Context) (acknowledged int, missing []string, err error) {
	c.stop()
	c.ended.Wait()
	said, err := c.ask(ctx, http.MethodGet, Consul+"-0", "kv/load/?keys&consistent", "")
	if err != nil {
		return 0, nil, fmt.Errorf("read the keys: %w", err)
	}
	var keys []string
	if err := json.Unmarshal(said, &keys); err != nil {
		return 0, nil, fmt.Errorf("read the keys: %w", err)
	}
	slices.Sort(keys)
	for _, key := range c.acknowledged {
		if _, found := slices.BinarySearch(keys, key); !found {
			missing = append(missing, key)
		}
	}
	return len(c.acknowledged), missing, nil
}

// Close ends the clients' connections.
func (c *ConsulClients) Close() {
	c.stop()
	c.ended.Wait()
	c.http.CloseIdleConnections()
	c.within.close()
}
