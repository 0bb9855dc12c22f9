package health

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/raced/synctest"
)

func TestJudge(t *testing.T) {
	const ok, bad, dunno = "", "down", "who knows"
	type probe struct {
		after   time.Duration
		problem string
		want    rollout.Health
	}
	s := time.Second
	for name, probes := range map[string][]probe{
		"unknown until the healthy threshold": {{0, ok, rollout.Unknown}, {s, ok, rollout.Healthy}},
		"a failure resets the count":          {{0, ok, rollout.Unknown}, {s, bad, rollout.Unknown}, {s, ok, rollout.Unknown}, {s, ok, rollout.Healthy}},
		"fast failures are no quicker verdict": {
			{0, bad, rollout.Unknown}, {s, bad, rollout.Unknown}, {s, bad, rollout.Unknown}, {s, bad, rollout.Unknown},
			{17 * s, bad, rollout.Unhealthy},
		},
		"one failure is not unhealthy":   {{0, ok, rollout.Unknown}, {s, ok, rollout.Healthy}, {10 * s, bad, rollout.Healthy}, {s, ok, rollout.Healthy}},
		"few failures are not unhealthy": {{0, bad, rollout.Unknown}, {30 * s, bad, rollout.Unknown}, {s, bad, rollout.Unhealthy}},
		"unhealthy needs two to recover": {{0, bad, rollout.Unknown}, {10 * s, bad, rollout.Unknown}, {10 * s, bad, rollout.Unhealthy}, {s, ok, rollout.Unhealthy}, {s, ok, rollout.Healthy}},
		"unknown outcomes end health, after the same time": {
			{0, ok, rollout.Unknown}, {s, ok, rollout.Healthy}, {10 * s, dunno, rollout.Healthy}, {10 * s, bad, rollout.Healthy}, {10 * s, dunno, rollout.Unknown},
			{s, ok, rollout.Unknown}, {s, ok, rollout.Healthy},
		},
		"an unknown outcome is no failure":   {{0, dunno, rollout.Unknown}, {30 * s, dunno, rollout.Unknown}, {s, bad, rollout.Unknown}, {10 * s, bad, rollout.Unknown}, {10 * s, bad, rollout.Unhealthy}},
		"unhealthy stays so until it passes": {{0, bad, rollout.Unknown}, {10 * s, bad, rollout.Unknown}, {10 * s, bad, rollout.Unhealthy}, {30 * s, dunno, rollout.Unhealthy}, {30 * s, dunno, rollout.Unhealthy}},
		"unknown stays unknown for a mix":    {{0, ok, rollout.Unknown}, {s, bad, rollout.Unknown}, {s, ok, rollout.Unknown}, {s, bad, rollout.Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			j := newJudge(group.HealthCheck{}, Result{Health: rollout.Unknown, Since: start})
			at, since := start, start
			for i, p := range probes {
				at = at.Add(p.after)
				before := j.result.Health
				o := outcome{}
				switch p.problem {
				case bad:
					o = failing(bad)
				case dunno:
					o = outcome{unsure, dunno}
				}
				j.add(o, at)
				if before != j.result.Health {
					since = at
				}
				if j.result.Health != p.want || !j.result.Since.Equal(since) {
					t.Fatalf("probe %d: %s since %s, want %s since %s", i, j.result.Health, j.result.Since, p.want, since)
				}
			}
		})
	}
}

func TestProbes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.URL.Path[1:])
		w.WriteHeader(code)
	}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	for name, tc := range map[string]struct {
		check group.HealthCheck
		pass  bool
	}{
		"http 200":             {group.HealthCheck{HTTP: &group.HTTPCheck{Port: port, RequestPath: "/200"}}, true},
		"http 503":             {group.HealthCheck{HTTP: &group.HTTPCheck{Port: port, RequestPath: "/503"}}, false},
		"http 503 as expected": {group.HealthCheck{HTTP: &group.HTTPCheck{Port: port, RequestPath: "/503", Expect: "503"}}, true},
		"http redirect":        {group.HealthCheck{HTTP: &group.HTTPCheck{Port: port, RequestPath: "/302"}}, false},
		"http refused":         {group.HealthCheck{HTTP: &group.HTTPCheck{Port: closed, RequestPath: "/"}}, false},
		"tcp":                  {group.HealthCheck{TCP: &group.TCPCheck{Port: port}}, true},
		"tcp refused":          {group.HealthCheck{TCP: &group.TCPCheck{Port: closed}}, false},
		"exec":                 {group.HealthCheck{Exec: &group.ExecAction{Service: "web", Command: "true"}}, true},
		"exec failure":         {group.HealthCheck{Exec: &group.ExecAction{Service: "web", Command: "false"}}, false},
		"exec that hangs":      {group.HealthCheck{Exec: &group.ExecAction{Service: "web", Command: "sleep"}}, false},
		"nothing":              {group.HealthCheck{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if seen := NewChecker(fakeCommands{}, nil, slog.New(slog.DiscardHandler)).probe(ctx, tc.check, time.Second); (seen == outcome{}) != tc.pass {
				t.Errorf("probe = %+v, want pass %t", seen, tc.pass)
			}
		})
	}
}

func TestCheckerReportsAndReplaces(t *testing.T) {
	var status atomic.Int32
	status.Store(200)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	c := NewChecker(nil, nil, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	spec := group.HealthCheck{Name: "ready", HTTP: &group.HTTPCheck{Port: port, RequestPath: "/"}, CheckIntervalSec: 1, HealthyThreshold: 1, UnhealthyThreshold: 1}
	c.SetChecks([]group.HealthCheck{spec})
	await := func(want rollout.Health) {
		t.Helper()
		for {
			_, index := c.Changes().Get()
			if r := c.Results(); len(r) == 1 && r[0].Health == want {
				return
			}
			wait, cancel := context.WithTimeout(ctx, 10*time.Second)
			_, _, err := c.Changes().Wait(wait, index)
			cancel()
			if err != nil {
				t.Fatalf("results = %+v, want %s", c.Results(), want)
			}
		}
	}
	await(rollout.Healthy)
	status.Store(500)
	await(rollout.Unhealthy)
	spec.Name = "other"
	status.Store(200)
	c.SetChecks([]group.HealthCheck{spec})
	await(rollout.Healthy)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPauseIsShortUntilHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudge(group.HealthCheck{CheckIntervalSec: 10}, Result{Health: rollout.Unknown})
		if got := j.pause(0); got != 100*time.Millisecond {
			t.Errorf("pause while unknown = %s, want 100ms", got)
		}
		j.add(outcome{}, time.Now())
		j.add(outcome{}, time.Now())
		if got := j.pause(0); got != 10*time.Second {
			t.Errorf("pause while healthy = %s, want the interval", got)
		}
		j.add(failing("down"), time.Now())
		if got := j.pause(0); got != 100*time.Millisecond {
			t.Errorf("pause after a failure = %s, want 100ms", got)
		}
	})
}

// A slow probe that fails is not repeated without a pause, and the verdict comes as early as
// without the pause.
func TestASlowProbePausesBetweenTries(t *testing.T) {
	at := time.Now()
	j := newJudge(group.HealthCheck{CheckIntervalSec: 10}, Result{Health: rollout.Healthy})
	probe := func(o outcome, took, want time.Duration) {
		t.Helper()
		at = at.Add(took)
		j.add(o, at)
		if got := j.pause(took); got != want {
			t.Errorf("after %s as %s: a pause of %s, want %s", took, j.result.Health, got, want)
		}
		at = at.Add(want)
	}
	first := at
	probe(failing("late"), 5*time.Second, 5*time.Second)
	probe(failing("late"), 5*time.Second, 5*time.Second)
	probe(failing("late"), 5*time.Second, 10*time.Second)
	if want := first.Add(25 * time.Second); j.result.Health != rollout.Unhealthy || !j.result.Since.Equal(want) {
		t.Errorf("%s %s after the first, want 25s", j.result.Health, j.result.Since.Sub(first))
	}
	probe(failing("down"), 500*time.Millisecond, 4500*time.Millisecond)
	probe(failing("down"), time.Millisecond, 100*time.Millisecond)
	probe(outcome{}, time.Second, 100*time.Millisecond)
	probe(outcome{}, time.Second, 10*time.Second)
}

// TestHK01_HK02_ChecksReachLoopbackOnly: a check follows no redirect, and a spec cannot name a
// host.
func TestHK01_HK02_ChecksReachLoopbackOnly(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	at := strings.TrimPrefix(other.URL, "http://")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Host, "127.0.0.1:") {
			t.Errorf("asked for %q", r.Host)
		}
		if r.URL.Path == "/away" {
			w.Header().Set("Location", other.URL+"/")
			w.WriteHeader(http.StatusFound)
		}
	}))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	for _, path := range []string{"/away", "/@" + at + "/", "/\\" + at, "/..//" + at, "/?u=" + other.URL, "/#@" + at, "/%2f%2f" + at} {
		problem := NewChecker(nil, nil, slog.New(slog.DiscardHandler)).probe(t.Context(), group.HealthCheck{HTTP: &group.HTTPCheck{Port: port, RequestPath: path}}, time.Second).text
		if path == "/away" && !strings.Contains(problem, "302") {
			t.Errorf("a redirect: %q", problem)
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("another server was asked %d times", n)
	}
}

// fakeCommands acts as the names indicate.
type fakeCommands struct{}

func (fakeCommands) Run(ctx context.Context, a group.ExecAction, _ []string, _ time.Duration) error {
	switch a.Command {
	case "true":
		return nil
	case "sleep":
		<-ctx.Done()
		return ctx.Err()
	}
	return errors.New("no")
}
