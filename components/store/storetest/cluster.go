package storetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"

	"cadre.dev/store/localconsul"
)

// Cluster is a datacenter of real Consul servers with ACLs on and default deny.
type Cluster struct {
	Servers []*ClusterServer
	// ManagementToken may do everything.
	ManagementToken string
}

// ClusterServer is one of them, a process of its own.
type ClusterServer struct {
	// Name of its node.
	Name string
	// Addr of its HTTP API, host:port, and XDS of the gRPC API for proxies.
	Addr, XDS string

	process *process
}

// Kill ends the server without a leave message, and returns when the process is gone.
func (s *ClusterServer) Kill() { s.process.stop() }

// StartConsulCluster starts n servers and waits until each one serves. They end with the test.
// Without a consul binary the test is skipped.
func StartConsulCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	binary := ConsulBinary(t)
	ctx := context.WithoutCancel(t.Context())
	var c *Cluster
	var err error
	for attempt := range 3 { // another process may take a port
		if c, err = launchCluster(ctx, binary, filepath.Join(t.TempDir(), strconv.Itoa(attempt)), n); err == nil {
			t.Cleanup(c.stop)
			return c
		}
		c.stop()
	}
	t.Fatalf("start %d consul servers: %v", n, err)
	return nil
}

func (c *Cluster) stop() {
	var all sync.WaitGroup
	for _, s := range c.Servers {
		all.Go(s.Kill)
	}
	all.Wait()
}

// launchCluster returns the servers that it started, also on failure.
func launchCluster(ctx context.Context, binary, dir string, n int) (*Cluster, error) {
	c := &Cluster{ManagementToken: clusterToken}
	ports, err := localconsul.FreePorts(ctx, portsEach*n)
	if err != nil {
		return c, err
	}
	var join []string
	for i := range n {
		join = append(join, net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[portsEach*i+2])))
	}
	for i := range n {
		name := fmt.Sprintf("server-%d", i)
		config := serverConfig(ports[portsEach*i:portsEach*(i+1)], clusterToken)
		// Without it autopilot removes a dead server after some seconds, before the test that does so.
		config["autopilot"] = map[string]any{"min_quorum": n}
		config["node_name"], config["bootstrap_expect"], config["retry_join"], config["retry_interval"] = name, n, join, "1s"
		p, err := startAgent(ctx, binary, filepath.Join(dir, name), config)
		if err != nil {
			return c, err
		}
		local := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
		c.Servers = append(c.Servers, &ClusterServer{Name: name, Addr: local(ports[portsEach*i]), XDS: local(ports[portsEach*i+3]), process: p})
	}
	for _, s := range c.Servers {
		if err := localconsul.AwaitReady(ctx, s.Addr, clusterToken, s.process.exited); err != nil {
			return c, fmt.Errorf("%s: %w\n%s", s.Name, err, s.process.tail())
		}
	}
	return c, nil
}

const clusterToken = "7d0f3c52-2b7e-4f0a-9c4e-3b1f6f0d5a21" //nolint:gosec // of servers on loopback that end with the test

// Client returns a client of one server with the management token.
func (c *Cluster) Client(server int) (*api.Client, error) {
	return api.NewClient(&api.Config{Address: c.Servers[server].Addr, Token: c.ManagementToken})
}

// Leader returns the index of the leading server in Servers.
func (c *Cluster) Leader() (int, error) {
	_, servers, err := c.raft()
	if err != nil {
		return 0, err
	}
	for _, s := range servers {
		if at := slices.IndexFunc(c.Servers, func(own *ClusterServer) bool { return own.Name == s.Node }); s.Leader && at >= 0 {
			return at, nil
		}
	}
	return 0, errors.New("no server leads")
}

// Lead asks the current leader to transfer leadership to a server. The transfer happens soon after.
func (c *Cluster) Lead(server int) error {
	client, servers, err := c.raft()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(servers, func(s *api.RaftServer) bool { return s.Node == c.Servers[server].Name })
	if at < 0 {
		return fmt.Errorf("%s is no voter yet", c.Servers[server].Name)
	}
	if servers[at].Leader {
		return nil
	}
	_, err = client.Operator().RaftLeaderTransfer(servers[at].ID, nil)
	return err
}

// raft returns the Raft servers according to the first server that answers, and a client of it.
func (c *Cluster) raft() (*api.Client, []*api.RaftServer, error) {
	var errs []error
	for i := range c.Servers {
		client, err := c.Client(i)
		if err != nil {
			return nil, nil, err
		}
		config, err := client.Operator().RaftGetConfiguration(nil)
		if err == nil {
			return client, config.Servers, nil
		}
		errs = append(errs, err)
	}
	return nil, nil, errors.Join(errs...)
}
