package status

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReadinessGoesAndComes: a coordinator without records is alive and not ready.
func TestReadinessGoesAndComes(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var records atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := Run(ctx, listener, Pages{Metrics: NewMetrics(), Health: func() Health { return Health{Records: records.Load()} }}); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	for i, readable := range []bool{false, true, false, true} {
		records.Store(readable)
		ready := http.StatusServiceUnavailable
		if readable {
			ready = http.StatusOK
		}
		for path, want := range map[string]int{"/readyz": ready, "/healthz": http.StatusOK, "/metrics": http.StatusOK} {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listener.Addr().String()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%d: records %t, %s answers %d, want %d", i, readable, path, answer.StatusCode, want)
			}
		}
	}
}

// TestINP01_HeadersAreBounded: the page reads the headers of a scraper and no more.
func TestINP01_HeadersAreBounded(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := Run(ctx, listener, Pages{Metrics: NewMetrics(), Health: func() Health { return Health{} }}); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	for size, want := range map[int]int{8 << 10: http.StatusOK, 32 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listener.Addr().String()+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Filler", strings.Repeat("v", size))
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%d bytes: %d, want %d", size, answer.StatusCode, want)
		}
	}
}
