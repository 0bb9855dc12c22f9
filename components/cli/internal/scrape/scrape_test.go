package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/raced/synctest"
)

func TestMerge(t *testing.T) {
	c := Collection{Nodes: []Node{
		{Instance: "coordinator-0", Coordinator: true, Text: []byte("# HELP cadre_leader Leads.\n# TYPE cadre_leader gauge\ncadre_leader 1 1700000000000\n# TYPE cadre_overlay_rtt_seconds gauge\ncadre_overlay_rtt_seconds{peer=\"pg-0\"} 0.5\n")},
		{Instance: "coordinator-1", Coordinator: true, Problem: "no answer"},
		{Instance: "pg-0", Text: []byte("# HELP cadre_overlay_rtt_seconds Another text.\n# TYPE cadre_overlay_rtt_seconds gauge\ncadre_overlay_rtt_seconds{peer=\"coordinator-0\",instance=\"coordinator-0\",job=\"x\",exported_job=\"y\"} 0.25\n" +
			"# TYPE envoy_requests histogram\nenvoy_requests_bucket{le=\"1\"} 2\nenvoy_requests_bucket{le=\"+Inf\"} 3\nenvoy_requests_sum 4\nenvoy_requests_count 3\n")},
	}}
	text, err := Merge("demo", &c)
	if err != nil {
		t.Fatal(err)
	}
	want := `# HELP cadre_leader Leads.
# TYPE cadre_leader gauge
cadre_leader{cluster="demo",instance="coordinator-0"} 1
# TYPE cadre_overlay_rtt_seconds gauge
cadre_overlay_rtt_seconds{cluster="demo",instance="coordinator-0",peer="pg-0"} 0.5
cadre_overlay_rtt_seconds{cluster="demo",exported_exported_job="x",exported_instance="coordinator-0",exported_job="y",instance="pg-0",peer="coordinator-0"} 0.25
# HELP cadre_scrape_duration_seconds How long the collection took.
# TYPE cadre_scrape_duration_seconds gauge
cadre_scrape_duration_seconds{cluster="demo"} 0
# HELP cadre_scrape_errors Problems of this scrape, such as silent coordinators and agents.
# TYPE cadre_scrape_errors gauge
cadre_scrape_errors{cluster="demo"} 1
# HELP cadre_scrape_up 1 if the figures of the coordinator, or of the connected agent, arrived in this scrape.
# TYPE cadre_scrape_up gauge
cadre_scrape_up{cluster="demo",instance="coordinator-0"} 1
cadre_scrape_up{cluster="demo",instance="coordinator-1"} 0
cadre_scrape_up{cluster="demo",instance="pg-0"} 1
# TYPE envoy_requests histogram
envoy_requests_bucket{cluster="demo",instance="pg-0",le="1"} 2
envoy_requests_bucket{cluster="demo",instance="pg-0",le="+Inf"} 3
envoy_requests_sum{cluster="demo",instance="pg-0"} 4
envoy_requests_count{cluster="demo",instance="pg-0"} 3
`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if again, err := expfmtParse(text); err != nil || len(again) != 6 {
		t.Errorf("the merged text has %d families, %v", len(again), err)
	}
}

// An agent cannot speak for a coordinator or another agent, and its fault leaves the others.
func TestMergeOfAHostileAgent(t *testing.T) {
	for _, c := range []struct {
		text    string
		problem string
		not     string
	}{
		{"cadre_leader 1\n", "cadre_leader", "cadre_leader"},
		{"cadre_group_paused{group=\"pg\"} 0\n", "cadre_group_paused", "cadre_group"},
		{"cadre_scrape_up{instance=\"pg-1\"} 1\n", "cadre_scrape_up", "pg-1"},
		{"# TYPE cadre_agent_x counter\ncadre_agent_x 1\n", "type differs", `instance="pg-9"} 1` + "\ncadre_agent_x"},
		{"cadre_agent_x{__name__=\"cadre_leader\"} 1\n", "not in Prometheus' text format", "cadre_leader"},
		{"cadre_agent_x{a=\"\n", "not in Prometheus' text format", ""},
		{"\x00\x1b[2J", "not in Prometheus' text format", "\x1b"},
		{"<html>", "not in Prometheus' text format", "html"},
		{"# TYPE cadre_agent_x gauge\ncadre_agent_x{__address__=\"evil\"} 3\n", "", "evil"},
	} {
		got := Collection{Nodes: []Node{
			{Instance: "coordinator-0", Coordinator: true, Text: []byte("# TYPE cadre_agent_x gauge\ncadre_agent_x 7\n")}, {Instance: "pg-9", Text: []byte(c.text)},
		}}
		text, err := Merge("demo", &got)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if !strings.Contains(string(text), `cadre_agent_x{cluster="demo",instance="coordinator-0"} 7`) || c.not != "" && strings.Contains(string(text), c.not) {
			t.Errorf("%q gave\n%s", c.text, text)
		}
		if p := got.Nodes[1].Problem; !strings.Contains(p, c.problem) || c.problem == "" && p != "" || strings.ContainsRune(p, '\x1b') {
			t.Errorf("%q has problem %q, want %q", c.text, p, c.problem)
		}
	}
}

// fake is a coordinator with agents.
type fake struct {
	slot   string
	agents []string
	err    error
	after  time.Duration
	calls  atomic.Int32
	asked  atomic.Int32
}

func (f *fake) CoordinatorMetrics(ctx context.Context) (client.Metrics, []string, error) {
	if f.after > 0 {
		select {
		case <-time.After(f.after):
		case <-ctx.Done():
			return client.Metrics{}, nil, ctx.Err()
		}
	}
	return client.Metrics{Slot: f.slot, Text: []byte("cadre_leader 1\n")}, f.agents, f.err
}

func (f *fake) AgentMetrics(_ context.Context, slots []string) (out []client.Metrics, err error) {
	f.calls.Add(1)
	f.asked.Add(int32(len(slots)))
	for _, s := range slots {
		m := client.Metrics{Slot: s, Text: []byte("cadre_agent_admitted 1\n")}
		if s == "pg-1" {
			m = client.Metrics{Slot: s, Error: "AGENT_SILENT: no answer"}
		}
		out = append(out, m)
	}
	return out, nil
}

func TestCollectAsksEachAgentOnce(t *testing.T) {
	var all []string
	for i := range 50 {
		all = append(all, fmt.Sprintf("pg-%d", i))
	}
	one, two, gone := &fake{slot: "coordinator-0", agents: all}, &fake{slot: "coordinator-1", agents: all[:49]}, &fake{err: errors.New("no way\nhint")}
	c := Collect(t.Context(), []Coordinator{{"coordinator-2", gone}, {"b", two}, {"a", one}, {"a", one}})
	if len(c.Nodes) != 3+50 || !c.Healthy() {
		t.Fatalf("%d nodes, healthy: %v", len(c.Nodes), c.Healthy())
	}
	if a, b := one.asked.Load(), two.asked.Load(); a+b != 50 || a < 24 || b < 24 {
		t.Errorf("the coordinators were asked for %d and %d agents", a, b)
	}
	if n := one.calls.Load(); n != 2 {
		t.Errorf("%d calls for 25 agents", n)
	}
	var names []string
	for _, n := range c.Nodes[:4] {
		names = append(names, n.Instance)
	}
	if !slices.Equal(names, []string{"coordinator-0", "coordinator-1", "coordinator-2", "pg-0"}) {
		t.Errorf("order %v", names)
	}
	if all := c.All(); !slices.Equal(all, []string{"coordinator-2: no way", "pg-1: AGENT_SILENT: no answer"}) {
		t.Errorf("problems %q", all)
	}
	if c := Collect(t.Context(), []Coordinator{{"coordinator-2", gone}}); c.Healthy() {
		t.Error("healthy without an answer")
	}
}

// A coordinator that hangs leaves the figures of the others and of their agents; a late
// coordinator is asked for the agents that it alone knows.
func TestCollectDoesNotWaitForAHangingCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		one := &fake{slot: "coordinator-0", agents: []string{"pg-0", "pg-1"}}
		late := &fake{slot: "coordinator-1", agents: []string{"pg-0", "pg-2"}, after: 5 * time.Second}
		c := Collect(ctx, []Coordinator{{"a", one}, {"b", late}, {"coordinator-2", &fake{after: time.Hour}}})
		if one.asked.Load() != 2 || late.asked.Load() != 1 || c.Took != 8*time.Second {
			t.Errorf("%d and %d agents were asked in %s", one.asked.Load(), late.asked.Load(), c.Took)
		}
		if all := c.All(); len(c.Nodes) != 6 || len(all) != 2 || !strings.HasPrefix(all[0], "coordinator-2: context deadline exceeded") {
			t.Errorf("%d nodes, problems %q", len(c.Nodes), all)
		}
	})
}

func TestCheckAddress(t *testing.T) {
	for _, c := range []struct {
		address string
		remote  bool
		says    string
	}{
		{"127.0.0.1:9464", false, ""}, {"[::1]:0", false, ""}, {"localhost:1", false, ""}, {"127.9.9.9:1", false, ""},
		{"0.0.0.0:9464", false, "no loopback"}, {":9464", false, "no loopback"}, {"10.0.0.1:1", false, "--allow-remote"}, {"example.org:1", false, "no loopback"},
		{"0.0.0.0:9464", true, ""}, {"127.0.0.1", true, "HOST:PORT"}, {"127.0.0.1:65536", true, "port"}, {"127.0.0.1:http", false, "port"},
	} {
		if err := CheckAddress(c.address, c.remote); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, remote %v: %v, want %q", c.address, c.remote, err, c.says)
		}
	}
}

// Scrapes that meet share one collection; a name other than a loopback address is refused.
func TestConcurrentScrapesShareACollection(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun, goOn := make(chan struct{}), make(chan struct{})
	var collections atomic.Int32
	s := &Server{Collect: func(context.Context) ([]byte, error) {
		if collections.Add(1) == 1 {
			close(begun)
			<-goOn
		}
		return []byte("cadre_leader 1\n"), nil
	}}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, listener) }()
	get := func(host, path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+path, nil)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	texts := make(chan string, 1)
	go func() { _, text := get("127.0.0.1:9464", "/metrics"); texts <- text }()
	<-begun
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.collect(ctx, left); !errors.Is(err, context.Canceled) || collections.Load() != 1 {
		t.Errorf("a second scrape got %v, and there were %d collections", err, collections.Load())
	}
	if code, _ := get("evil.example", "/metrics"); code != http.StatusForbidden {
		t.Errorf("a foreign name got %d", code)
	}
	if code, _ := get("localhost", "/"); code != http.StatusNotFound {
		t.Errorf("/ got %d", code)
	}
	close(goOn)
	if text := <-texts; text != "cadre_leader 1\n" {
		t.Errorf("got %q", text)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNews(t *testing.T) {
	began, ended := News([]string{"a", "b"}, []string{"b", "c"})
	if !slices.Equal(began, []string{"c"}) || !slices.Equal(ended, []string{"a"}) {
		t.Errorf("began %v, ended %v", began, ended)
	}
}
