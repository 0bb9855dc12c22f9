package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"cadre.dev/core/adapter"
)

// binary is the nats-server of the tests; CADRE_TEST_NATS names another version.
func binary(t *testing.T) string {
	t.Helper()
	if at := os.Getenv("CADRE_TEST_NATS"); at != "" {
		return at
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if at := filepath.Join(dir, ".tools/bin/nats-server"); exec.Command(at, "--version").Run() == nil {
			return at
		}
	}
	t.Skip(".tools/bin/nats-server is missing: run make tools. The adapter was not tested against a real server")
	return ""
}

// cluster is three real servers on loopback, with an adapter each.
type cluster struct {
	*testing.T
	dir      string
	binary   string
	ports    [9]int // for clients, monitoring and routes, by server
	servers  [3]*exec.Cmd
	adapters [3]*Adapter
	names    [3]string
}

func slotName(i int) string { return fmt.Sprintf("nats-%d", i) }

// freePorts holds all ports at once, so that they differ.
func freePorts(t *testing.T, ports []int) {
	t.Helper()
	for i := range ports {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, dir: t.TempDir(), binary: binary(t)}
	freePorts(t, c.ports[:])
	c.file("system", "of the system account\n")
	c.file("app", "of an application")
	for i := range 3 {
		c.names[i] = slotName(i) + "_00a"
		c.adapters[i] = c.adapter(Config{Slot: slotName(i)}, i)
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range 3 {
			c.kill(i)
			if t.Failed() {
				text, _ := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("log%d", i)))
				t.Logf("server %d:\n%s", i, text[max(0, len(text)-1500):])
			}
		}
	})
	return c
}

func (c *cluster) file(name, text string) string {
	c.Helper()
	at := filepath.Join(c.dir, name)
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	return at
}

// adapter completes cfg for server i.
func (c *cluster) adapter(cfg Config, i int) *Adapter {
	c.Helper()
	cfg.Monitor, cfg.Server = fmt.Sprintf("http://127.0.0.1:%d", c.ports[3*i+1]), c.url(i)
	if cfg.User == "" {
		cfg.User, cfg.PasswordFile = "sys", filepath.Join(c.dir, "system")
	}
	cfg.MaxLag = 1000
	cfg.Accounts = []Login{{"APP", "app", filepath.Join(c.dir, "app")}}
	a, err := New(cfg)
	if err != nil {
		c.Fatal(err)
	}
	return a
}

func (c *cluster) url(i int) string { return fmt.Sprintf("nats://127.0.0.1:%d", c.ports[3*i]) }

func (c *cluster) start(i int) {
	c.Helper()
	config := c.file(fmt.Sprintf("%d.conf", i), fmt.Sprintf(`
server_name: %s
listen: 127.0.0.1:%d
http: 127.0.0.1:%d
jetstream { store_dir: %q }
cluster { name: test, listen: 127.0.0.1:%d, routes: [nats://127.0.0.1:%d, nats://127.0.0.1:%d, nats://127.0.0.1:%d] }
system_account: SYS
accounts {
  SYS { users: [{user: sys, password: "of the system account"}] }
  APP { jetstream: enabled, users: [{user: app, password: "of an application"}] }
}
`, c.names[i], c.ports[3*i], c.ports[3*i+1], c.data(i), c.ports[3*i+2], c.ports[2], c.ports[5], c.ports[8]))
	log, err := os.OpenFile(filepath.Join(c.dir, fmt.Sprintf("log%d", i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	server := exec.Command(c.binary, "-c", config)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		c.Fatal(err)
	}
	c.servers[i] = server
}

func (c *cluster) data(i int) string { return filepath.Join(c.dir, "data"+strconv.Itoa(i)) }

func (c *cluster) kill(i int) {
	_ = c.servers[i].Process.Kill()
	_ = c.servers[i].Wait() // its error is the kill
}

func (c *cluster) signal(i int, s syscall.Signal) {
	c.Helper()
	if err := c.servers[i].Process.Signal(s); err != nil {
		c.Fatal(err)
	}
}

// within repeats f until it returns "".
func within(t *testing.T, what string, f func(context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		last := f(ctx)
		if last == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %s", what, last)
		}
	}
}

func (c *cluster) member(i int) adapter.Member {
	c.Helper()
	m, err := c.adapters[i].Member(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	m.Message, m.Fault, m.MayDisruptReason = adapter.Text(m.Message), adapter.Text(m.Fault), adapter.Text(m.MayDisruptReason) // as serve does
	if err := m.CheckOf(slotName(i), true); err != nil {
		c.Errorf("%s: %v", slotName(i), err)
	}
	return m
}

// sees waits until member i fulfils is.
func (c *cluster) sees(i int, what string, is func(adapter.Member) bool) (m adapter.Member) {
	c.Helper()
	within(c.T, fmt.Sprintf("%s is %s", slotName(i), what), func(context.Context) string {
		if m = c.member(i); is(m) {
			return ""
		}
		text, _ := json.Marshal(m)
		return string(text)
	})
	return m
}

func well(m adapter.Member) bool {
	return m.Ready && m.MayDisrupt && m.CaughtUp != nil && *m.CaughtUp && len(m.Busy) == 0 && len(m.Voters) == 3
}

// settled waits until all members are well and agree about the leader, which it returns.
func (c *cluster) settled() (leader int) {
	c.Helper()
	within(c.T, "the cluster is well", func(context.Context) string {
		leaders := map[string]bool{}
		for i := range 3 {
			m := c.member(i)
			if leaders[m.Leader] = true; !well(m) {
				text, _ := json.Marshal(m)
				return slotName(i) + ": " + string(text)
			}
			if m.Role == adapter.RoleLeader {
				leader = i
			}
		}
		if len(leaders) != 1 {
			return fmt.Sprintf("the leaders %v", leaders)
		}
		return ""
	})
	return leader
}

// app is an application's client of server i, which tries the others too.
func (c *cluster) app() nats.JetStreamContext {
	c.Helper()
	nc, err := nats.Connect(strings.Join([]string{c.url(0), c.url(1), c.url(2)}, ","), nats.UserInfo("app", "of an application"),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(nc.Close)
	js, err := nc.JetStream(nats.MaxWait(time.Second))
	if err != nil {
		c.Fatal(err)
	}
	return js
}

// stream makes a stream once the servers are ready for it.
func (c *cluster) stream(js nats.JetStreamContext, name string, replicas int) {
	c.Helper()
	within(c.T, "make the stream "+name, func(context.Context) string {
		_, err := js.AddStream(&nats.StreamConfig{Name: name, Subjects: []string{name}, Replicas: replicas})
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// leads returns the index of the server that leads a stream.
func (c *cluster) leads(js nats.JetStreamContext, name string) (at int) {
	c.Helper()
	within(c.T, "find the leader of "+name, func(context.Context) string {
		info, err := js.StreamInfo(name)
		if err != nil {
			return err.Error()
		}
		for i := range 3 {
			if info.Cluster.Leader == c.names[i] {
				at = i
				return ""
			}
		}
		return "leader " + info.Cluster.Leader
	})
	return at
}
