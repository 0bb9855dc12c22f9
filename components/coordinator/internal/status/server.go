package status

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health is the answer of /healthz.
type Health struct {
	Slot string `json:"slot"`
	// Records: the records can be read. It turns false some seconds after the store began to fail,
	// and true with the first answer.
	Records bool `json:"records"`
	// Leader and Term of the last read.
	Leader string `json:"leader,omitempty"`
	Term   uint64 `json:"term,omitempty"`
	// Halted is why no coordinator can lead until an operator acts, and the action.
	Halted string `json:"halted,omitempty"`
}

// Run serves /healthz and /metrics until ctx ends. /healthz is 200 while the process lives: a
// coordinator without quorum must not be restarted for it. /readyz is 200 while the records can be
// read.
func Run(ctx context.Context, listener net.Listener, metrics *Metrics, health func() Health) error {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, code int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(health())
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !health().Records {
			answer(w, http.StatusServiceUnavailable)
			return
		}
		answer(w, http.StatusOK)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
