package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/group"
)

// Lifecycle is the API's view of lifecycle.Executor.
type Lifecycle interface {
	Status() (lifecycle.Status, uint64)
	WaitStatus(ctx context.Context, index uint64) (lifecycle.Status, uint64)
	Complete(hook, token string, result group.HookResult) (applied bool, err error)
	Heartbeat(hook, token string) (applied bool, err error)
}

// Config makes a Server. All fields are required.
type Config struct {
	// Address is where the listener listens: requests must name it, or localhost with
	// its port.
	Address net.Addr
	// Instance describes this Boot; ok is false before admission.
	Instance func() (i Instance, ok bool)
	// Lifecycle is nil before admission.
	Lifecycle func() Lifecycle
	// NotReady names the missing condition; empty when ready.
	NotReady func() string
	// Backends are the backends that workloads register, Checks the checks that they answer.
	Backends, Checks *selfreport.Registry
	Metrics          http.Handler
	Log              *slog.Logger
}

// Server is the HTTP interface.
type Server struct {
	cfg     Config
	handler http.Handler
}

// route is one entry of the interface.
type route struct {
	method, path string
	handle       func(*Server, http.ResponseWriter, *http.Request)
}

// routes is the whole interface; docs/reference/openapi-agent.yaml has the same.
var routes = []route{
	{http.MethodGet, "/v1/instance", (*Server).getInstance},
	{http.MethodGet, "/v1/lifecycle", (*Server).getLifecycle},
	{http.MethodPost, "/v1/lifecycle/{hook}/complete", (*Server).completeHook},
	{http.MethodPost, "/v1/lifecycle/{hook}/heartbeat", (*Server).heartbeatHook},
	{http.MethodPut, "/v1/backends/{backend}", (*Server).putBackend},
	{http.MethodPut, "/v1/checks/{check}", (*Server).putCheck},
	{http.MethodGet, "/healthz", (*Server).getHealthz},
	{http.MethodGet, "/readyz", (*Server).getReadyz},
	{http.MethodGet, "/metrics", (*Server).getMetrics},
}

// New returns a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg}
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, req *http.Request) { r.handle(s, w, req) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		writeError(w, http.StatusNotFound, "ROUTE_UNKNOWN", req.Method+" "+req.URL.Path+" does not exist; see docs/reference/openapi-agent.yaml")
	})
	s.handler = guard(ownNames(cfg.Address), mux)
	return s
}

// Handler serves the interface.
func (s *Server) Handler() http.Handler { return s.handler }

// ownNames are the hosts that a request may name: address, and the names of loopback with its port.
func ownNames(address net.Addr) []string {
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return nil // all are refused
	}
	return []string{address.String(), "127.0.0.1:" + port, "[::1]:" + port, "localhost:" + port}
}

// guard rejects requests that a web page in a browser could send: the interface is for programs of
// this CVM, which name it by address. With DNS rebinding, a page's own name appears in Host; any
// page sends its own name in Origin, and no page is served here.
func guard(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !slices.Contains(names, strings.ToLower(req.Host)) {
			writeError(w, http.StatusForbidden, "HOST_FORBIDDEN", "requests must name this interface as their host: "+strings.Join(names[min(1, len(names)):], ", "))
			return
		}
		if len(req.Header.Values("Origin")) > 0 {
			writeError(w, http.StatusForbidden, "ORIGIN_FORBIDDEN", "requests from web pages are refused")
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, req)
	})
}

// Listen opens address, which must be on loopback, with opener.
func Listen(ctx context.Context, opener Opener, address string) (net.Listener, error) {
	l, err := opener.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for workloads: %w", err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		_ = l.Close()
		return nil, fmt.Errorf("listen for workloads: %s is not a loopback address; use 127.0.0.1:7070", address)
	}
	return l, nil
}

// Opener opens sockets to listen on; *net.ListenConfig is one.
type Opener interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
}

// Run serves l until ctx ends.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      maxWait + 10*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := server.Shutdown(short); err != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve workloads: %w", err)
}
