package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"cadre.dev/cli/internal/overview"
	"cadre.dev/client"
)

// Server serves the dashboard of one cluster. Set the exported fields before Serve.
type Server struct {
	Client *client.Client
	// Simulated: the root of trust of the cluster is not Intel's.
	Simulated bool
	// List asks the platform for CVMs; nil: the context names no platform.
	List Lister
	// Assess looks at the whole cluster as `cadre status` does. Calls may overlap.
	Assess func(context.Context) overview.Report
	// Now is the clock; nil: time.Now.
	Now func() time.Time

	// patience is how long a page waits for its first answers; 0: firstAnswers.
	patience time.Duration

	session session
	draw    drawing
	hub     *hub
	streams chan struct{} // one value for each open stream

	mu   sync.Mutex // guards said
	said string     // the outcome of the last action, shown once
}

// maxStreams bounds the open live streams. A browser keeps at most six per server.
const maxStreams = 32

// Listen opens a loopback address such as "127.0.0.1:0". Any other address is refused: the page carries the rights of
// the operator's token.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen %q: want a loopback address with a port, such as 127.0.0.1:0: %w", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("listen %q: only a loopback address such as 127.0.0.1:0 is allowed; from another machine use `ssh -L`", address)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen %q: %w; port 0 takes a free port", address, err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("listen %q: %s is no loopback address", address, l.Addr()), l.Close())
	}
	return l, nil
}

// Serve serves on l until ctx ends, and then ends every stream and every call. It reports the address for the browser,
// with the secret of the session, to ready before the first request.
func (s *Server) Serve(ctx context.Context, l net.Listener, ready func(url string)) error {
	defer l.Close()
	if s.Now == nil {
		s.Now = time.Now
	}
	var err error
	if s.session, err = newSession(); err != nil {
		return err
	}
	if s.draw, err = newDrawing(s.Now); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s.hub = newHub(ctx, s.Now)
	s.streams = make(chan struct{}, maxStreams)
	defer s.hub.wait()
	defer cancel()
	server := &http.Server{
		Handler: s.session.guard(s.handler()), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
	}
	ready("http://" + l.Addr().String() + s.session.mount + "enter?secret=" + s.session.secret)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the dashboard: %w", err)
	case <-ctx.Done():
	}
	// Streams end with ctx, which is their base; Close ends the other connections.
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer stop()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close()
	}
	<-served
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{name}", s.asset)
	mux.HandleFunc("GET /live", s.live)
	mux.HandleFunc("GET /act/{verb}", s.askAct)
	mux.HandleFunc("POST /act/{verb}", s.act)
	mux.HandleFunc("GET /", s.page)
	return http.StripPrefix(strings.TrimSuffix(s.session.mount, "/"), mux)
}

func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	types := map[string]string{"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
	name := r.PathValue("name")
	text, err := assets.ReadFile("assets/" + name)
	if types[name] == "" || err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", types[name])
	_, _ = w.Write(text) // the browser is gone
}

// say keeps the outcome of an action for the next page.
func (s *Server) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = text
}

func (s *Server) takeSaid() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.said
	s.said = ""
	return text
}
