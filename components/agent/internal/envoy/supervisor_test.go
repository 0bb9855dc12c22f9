package envoy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	web = Proxy{ID: "web-sidecar-proxy", Service: "web", Node: "web-0"}
	db  = Proxy{ID: "db-sidecar-proxy", Service: "db", Node: "web-0"}

	errFailed = errors.New("a part of the agent failed")
)

// leaving keeps the Envoys running when errFailed ends the Supervisor.
func leaving(cfg Config) Config {
	cfg.Leaves = func(cause error) bool { return errors.Is(cause, errFailed) }
	return cfg
}

func TestItIsLiveWithTheCoordinatorsConfiguration(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	cfg := config(t, c)
	began := time.Now()
	r := beginRun(t, cfg, web)
	status := r.live(web.ID)
	t.Logf("live after %v", time.Since(began).Round(time.Millisecond))
	if status.PID == 0 || status.Restarts != 0 || status.Message != "" || status.Since.Before(began) {
		t.Errorf("status: %+v", status)
	}
	nodes, headers := c.nodes()
	if len(nodes) != 1 || nodes[0].id != web.ID || nodes[0].cluster != "web" ||
		nodes[0].metadata["node_name"] != "web-0" || nodes[0].metadata["namespace"] != "default" || nodes[0].metadata["partition"] != "default" {
		t.Errorf("it calls itself %+v", nodes)
	}
	if len(headers[0].Get("x-consul-token")) > 0 || len(headers[0].Get("authorization")) > 0 {
		t.Errorf("it shows %v", headers[0])
	}
	dial(t, c.port(web.ID))

	clusters, err := r.Clusters(t.Context(), web.ID)
	if err != nil || len(clusters) != 1 || clusters[0].Name != "db" || !slices.Equal(clusters[0].Endpoints, []Endpoint{
		{Address: netip.MustParseAddrPort("127.50.1.1:20000"), Health: "HEALTHY", Healthy: true},
		{Address: netip.MustParseAddrPort("127.50.1.2:20001"), Health: "UNHEALTHY"},
	}) {
		t.Errorf("clusters: %+v (%v)", clusters, err)
	}
	if _, err := r.Clusters(t.Context(), "other"); err == nil {
		t.Error("clusters of an unknown proxy")
	}

	at := folder(filepath.Join(cfg.RunDir, folderName(web.ID)))
	for path, mode := range map[string]os.FileMode{cfg.RunDir: 0o700, string(at): 0o700, at.bootstrap(): 0o600, at.admin(): 0o600, at.log(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want %v", path, info, err, mode)
		}
	}
	env, err := os.ReadFile(filepath.Join("/proc", itoa(status.PID), "environ"))
	if err != nil || len(env) > 0 {
		t.Errorf("its environment: %q (%v)", env, err)
	}
	r.stop(nil)
	gone(t, status.PID)
	if entries, err := os.ReadDir(cfg.RunDir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v (%v)", entries, err)
	}
}

func itoa(n int) string {
	out, _ := json.Marshal(n)
	return string(out)
}

func TestFigures(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	r := beginRun(t, config(t, c), web, db)
	r.live(web.ID)
	r.live(db.ID)
	dial(t, c.port(web.ID))
	// As the agent merges them: it refuses families that do not fit together.
	own := prometheus.NewRegistry()
	own.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "cadre_agent_x", Help: "x"}))
	families, err := prometheus.Gatherers{own, r}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			got[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	at := strings.ReplaceAll(c.port(web.ID), ":", "_")
	for key, want := range map[string]float64{
		"cadre_agent_envoy_live proxy=web-sidecar-proxy":                                 1,
		"cadre_agent_envoy_restarts_total proxy=db-sidecar-proxy":                        0,
		"envoy_cluster_membership_healthy cluster=db proxy=db-sidecar-proxy":             1,
		"envoy_cluster_membership_total cluster=db proxy=web-sidecar-proxy":              2,
		"envoy_listener_downstream_cx_total listener=" + at + " proxy=web-sidecar-proxy": 1,
		"envoy_control_plane_connected_state proxy=web-sidecar-proxy":                    1,
		"envoy_server_live proxy=web-sidecar-proxy":                                      1,
		"cadre_agent_x": 0,
	} {
		if had, is := got[key]; !is || had != want {
			t.Errorf("%s: %v (%v), want %v", key, had, is, want)
		}
	}
	if len(got) > 200 {
		t.Errorf("%d figures", len(got))
	}
}

func TestAKilledEnvoyIsRestarted(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	r := beginRun(t, config(t, c), web, db)
	before, other := r.live(web.ID), r.live(db.ID)
	_ = syscall.Kill(before.PID, syscall.SIGKILL)
	down := r.await(web.ID, "down", func(s Status) bool { return s.State == StateDown })
	if !strings.Contains(down.Message, "killed") || down.PID != 0 {
		t.Errorf("status: %+v", down)
	}
	after := r.await(web.ID, "live again", func(s Status) bool { return s.State == StateLive && s.PID != before.PID })
	if after.Restarts != 1 {
		t.Errorf("status: %+v", after)
	}
	dial(t, c.port(web.ID))
	if now := r.live(db.ID); now != other {
		t.Errorf("the other one: %+v, was %+v", now, other)
	}
}

func TestWithoutACoordinatorItWaits(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.mute = true
	r := beginRun(t, config(t, c), web)
	status := r.await(web.ID, "waiting", func(s Status) bool { return s.Message != "" })
	if status.State != StateStarting || !strings.Contains(status.Message, "waits for its configuration") {
		t.Errorf("status: %+v", status)
	}
	if _, err := net.Dial("tcp", c.port(web.ID)); err == nil {
		t.Error("it listens")
	}
}

func TestARejectedConfigurationIsReported(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	c.bad = true
	cfg := config(t, c)
	r := beginRun(t, cfg, web)
	status := r.await(web.ID, "refusing", func(s Status) bool { return s.Message != "" })
	if status.State != StateStarting || !strings.Contains(status.Message, "refused") {
		t.Errorf("status: %+v", status)
	}
}

func TestTheNextTakesItOver(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	cfg := leaving(config(t, c))
	first := beginRun(t, cfg, web)
	before := first.live(web.ID)
	conn := dial(t, c.port(web.ID))
	first.stop(errFailed)
	echoes(t, conn)

	out := &lines{}
	cfg.Log = logTo(out)
	second := beginRun(t, cfg, web)
	if after := second.live(web.ID); after.PID != before.PID || after.Restarts != 0 {
		t.Errorf("%+v, was %+v", after, before)
	}
	echoes(t, conn)
	if nodes, _ := c.nodes(); len(nodes) != 1 {
		t.Errorf("streams of %+v, want the one from before", nodes)
	}

	// The second process is not its parent; its log and its end are observed all the same.
	_ = syscall.Kill(before.PID, syscall.SIGTERM)
	after := second.await(web.ID, "live again", func(s Status) bool { return s.State == StateLive && s.PID != before.PID })
	if after.Restarts != 1 {
		t.Errorf("%+v", after)
	}
	if !strings.Contains(out.String(), "caught ENVOY_SIGTERM") {
		t.Errorf("its words are lost: %s", out)
	}
}

func TestAChangedEnvoyIsReplaced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Config, *control, *Proxy)
		before func(*run, Status)
	}{
		"another bootstrap": {change: func(_ *Config, _ *control, p *Proxy) { p.Node = "web-1" }},
		"another command":   {change: func(cfg *Config, _ *control, _ *Proxy) { cfg.DrainTime = time.Minute }},
		"it was drained": {before: func(r *run, _ Status) {
			if err := admin(folder(filepath.Join(r.cfg.RunDir, folderName(web.ID))).admin()).drain(r.t.Context()); err != nil {
				r.t.Error(err)
			}
		}},
		"it does not answer": {before: func(_ *run, s Status) { _ = syscall.Kill(s.PID, syscall.SIGSTOP) }},
		"its socket is gone": {before: func(r *run, _ Status) {
			_ = os.Remove(folder(filepath.Join(r.cfg.RunDir, folderName(web.ID))).admin())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newControl(t)
			cfg, proxy := leaving(config(t, c)), web
			first := beginRun(t, cfg, proxy)
			before := first.live(web.ID)
			if tc.before != nil {
				tc.before(first, before)
			}
			first.stop(errFailed)
			if tc.change != nil {
				tc.change(&cfg, c, &proxy)
			}
			second := beginRun(t, cfg, proxy)
			after := second.live(web.ID)
			if after.PID == before.PID {
				t.Errorf("%+v, was %+v", after, before)
			}
			gone(t, before.PID)
			dial(t, c.port(web.ID))
		})
	}
}

func TestAChangedProxyIsReplaced(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	r := beginRun(t, config(t, c), web)
	before := r.live(web.ID)
	moved := web
	moved.Node = "web-1"
	r.Set([]Proxy{moved})
	after := r.await(web.ID, "another", func(s Status) bool { return s.State == StateLive && s.PID != before.PID })
	gone(t, before.PID)
	r.Set([]Proxy{moved})
	r.Set([]Proxy{moved, db})
	r.live(db.ID)
	if now := r.live(web.ID); now != after {
		t.Errorf("%+v, was %+v", now, after)
	}
	r.Set([]Proxy{db})
	gone(t, after.PID)
	if all := r.Status(); len(all) != 1 || all[0].ID != db.ID {
		t.Errorf("%+v", all)
	}
}

func TestUnwantedEnvoysEnd(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	cfg := leaving(config(t, c))
	first := beginRun(t, cfg, web, db)
	unwanted, wanted := first.live(web.ID), first.live(db.ID)
	first.stop(errFailed)
	second := beginRun(t, cfg) // no Set yet
	dial(t, c.port(web.ID))
	second.Set([]Proxy{db})
	if now := second.live(db.ID); now.PID != wanted.PID {
		t.Errorf("%+v, was %+v", now, wanted)
	}
	gone(t, unwanted.PID)
	second.stop(errFailed)

	third := beginRun(t, cfg)
	third.stop(nil) // the end, without any Set
	gone(t, wanted.PID)
}

func TestTheEndWaitsForConnectionsWithinItsBound(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	cfg := config(t, c)
	cfg.StopWithin = 30 * time.Second
	r := beginRun(t, cfg, web)
	pid := r.live(web.ID).PID
	conn := dial(t, c.port(web.ID))
	go r.stop(nil)
	r.await(web.ID, "draining", func(s Status) bool { return s.State == StateDraining })
	echoes(t, conn)
	_ = conn.Close() // nothing is left to wait for
	gone(t, pid)
	<-r.over

	cfg.StopWithin = 1200 * time.Millisecond
	r = beginRun(t, cfg, web)
	pid = r.live(web.ID).PID
	dial(t, c.port(web.ID))
	began := time.Now()
	r.stop(nil)
	gone(t, pid)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
}

func TestWithoutTheProgram(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	cfg := config(t, c)
	real := cfg.Binary
	cfg.Binary = filepath.Join(t.TempDir(), "envoy")
	r := beginRun(t, cfg, web)
	status := r.await(web.ID, "down", func(s Status) bool { return s.State == StateDown })
	if !strings.Contains(status.Message, cfg.Binary) || !strings.Contains(status.Message, "put Envoy "+Version) {
		t.Errorf("status: %+v", status)
	}
	if err := os.Link(real, cfg.Binary); err != nil {
		if err := os.Symlink(real, cfg.Binary); err != nil {
			t.Fatal(err)
		}
	}
	r.live(web.ID) // without another Set
}

// TestItOutlivesItsWorker kills a process that keeps an Envoy.
func TestItOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	cfg := config(t, c)
	worker := exec.Command(os.Args[0], "-test.run=^TestWorker$")
	worker.Env = append(os.Environ(), "ENVOY_TEST_WORKER="+strings.Join([]string{cfg.Binary, cfg.RunDir, cfg.XDS.String()}, " "))
	worker.Stderr = os.Stderr
	said, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(said)
	if !scanner.Scan() || scanner.Text() != "live" {
		t.Errorf("the worker says %q", scanner.Text())
	}
	conn := dial(t, c.port(web.ID))
	_ = worker.Process.Kill()
	_ = worker.Wait()
	echoes(t, conn)
	r := beginRun(t, cfg, web)
	status := r.live(web.ID)
	echoes(t, conn)
	if nodes, _ := c.nodes(); len(nodes) != 1 {
		t.Errorf("streams of %+v, want that of one", nodes)
	}
	r.stop(nil)
	gone(t, status.PID)
}

// TestWorker is the process of TestItOutlivesItsWorker.
func TestWorker(t *testing.T) {
	args := strings.Fields(os.Getenv("ENVOY_TEST_WORKER"))
	if len(args) == 0 {
		return
	}
	s, err := New(Config{Binary: args[0], RunDir: args[1], XDS: netip.MustParseAddrPort(args[2])})
	if err != nil {
		t.Fatal(err)
	}
	s.Set([]Proxy{web})
	go s.Run(context.Background()) //nolint:errcheck // it is killed
	for {
		all, index := s.Statuses().Get()
		if len(all) == 1 && all[0].State == StateLive {
			break
		}
		if _, _, err := s.Statuses().Wait(t.Context(), index); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = os.Stdout.WriteString("live\n")
	select {}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{Binary: "envoy", RunDir: "/" + strings.Repeat("long/", 20), XDS: netip.MustParseAddrPort("10.0.0.1:8502"), DrainTime: time.Millisecond})
	for _, want := range []string{"absolute path", "shorter", "127.0.0.1", "drain time"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// TestAnEnvoyWithoutALogReaderContinues has an Envoy write far more than its pipe takes while no
// worker is there.
func TestAnEnvoyWithoutALogReaderContinues(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	cfg := leaving(config(t, c))
	first := beginRun(t, cfg, web)
	before := first.live(web.ID)
	first.stop(errFailed)
	at := admin(folder(filepath.Join(cfg.RunDir, folderName(web.ID))).admin())
	if _, err := at.ask(t.Context(), "POST", "/logging?level=trace"); err != nil {
		t.Fatal(err)
	}
	conn := dial(t, c.port(web.ID))
	for range 3000 { // each is some hundred bytes of trace, three times
		echoes(t, conn)
	}
	if _, err := at.ask(t.Context(), "POST", "/logging?level=warning"); err != nil {
		t.Fatal(err)
	}
	out := &lines{}
	cfg.Log = logTo(out)
	second := beginRun(t, cfg, web)
	if after := second.live(web.ID); after.PID != before.PID {
		t.Errorf("%+v, was %+v", after, before)
	}
	echoes(t, conn)
	second.stop(nil)
	if text := out.String(); !strings.Contains(text, "envoy says") || len(text) > linesAtOnce*4*lineMost {
		t.Errorf("%d bytes of log: %.300s", len(text), text)
	}
}
