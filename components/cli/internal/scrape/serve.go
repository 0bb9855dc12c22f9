package scrape

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// CheckAddress refuses an address to listen at that other machines reach, unless remote.
func CheckAddress(address string, remote bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("want HOST:PORT, such as 127.0.0.1:9464: %w", err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q: want 0 to 65535", port)
	} else if _ = n; remote || loopback(host) {
		return nil
	}
	return fmt.Errorf("%q is no loopback address, and the figures are served without a login: use 127.0.0.1, or add --allow-remote", host)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Server serves GET /metrics. Concurrent requests share one collection; between requests the
// coordinators are not asked. Safe for concurrent use.
type Server struct {
	// Collect returns the merged text within bounded time.
	Collect func(ctx context.Context) ([]byte, error)
	// Remote allows requests by any host name; else only those for a loopback address are served, so
	// that no web page reads the figures through a name of its own.
	Remote bool

	mu  sync.Mutex
	now *collecting // guarded by mu; nil: no collection is under way
}

type collecting struct {
	done chan struct{} // closed once text and err are there
	text []byte
	err  error
}

// Run serves on listener until ctx ends.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !s.Remote && !loopback(host) {
			http.Error(w, "host: only loopback addresses are served here", http.StatusForbidden)
			return
		}
		text, err := s.collect(ctx, r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(text)
	})
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 2 * time.Minute,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// collect joins the collection under way, or begins a collection within serving.
func (s *Server) collect(serving, request context.Context) ([]byte, error) {
	s.mu.Lock()
	now := s.now
	if now == nil {
		now = &collecting{done: make(chan struct{})}
		s.now = now
		go func() {
			now.text, now.err = s.Collect(serving)
			s.mu.Lock()
			s.now = nil
			s.mu.Unlock()
			close(now.done)
		}()
	}
	s.mu.Unlock()
	select {
	case <-now.done:
		return now.text, now.err
	case <-request.Done():
		return nil, context.Cause(request)
	}
}

// News compares the problems of a collection with those of the one before, for a log that has each
// change once.
func News(before, after []string) (began, ended []string) {
	began = slices.DeleteFunc(slices.Clone(after), func(p string) bool { return slices.Contains(before, p) })
	ended = slices.DeleteFunc(slices.Clone(before), func(p string) bool { return slices.Contains(after, p) })
	return began, ended
}
