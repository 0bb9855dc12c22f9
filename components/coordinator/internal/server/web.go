package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/kvproxy"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// Bounds of a request over HTTP/1; package kvproxy bounds the rest.
const (
	headerTime  = 5 * time.Second
	headerBytes = 12 << 10
)

// web serves the HTTP/1 connections of the operators' API: Consul KV for operators.
type web struct {
	server *Server
	http   *http.Server
	conns  chan net.Conn
	end    chan struct{}
	once   sync.Once
}

// connKey has the connection of a request.
type connKey struct{}

func (s *Server) newWeb() *web {
	w := &web{server: s, conns: make(chan net.Conn), end: make(chan struct{})}
	w.http = &http.Server{
		Handler: w, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog:    slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	return w
}

// take serves a connection whose handshake is over.
func (w *web) take(conn net.Conn) {
	select {
	case w.conns <- conn:
	case <-w.end:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (w *web) Accept() (net.Conn, error) {
	select {
	case conn := <-w.conns:
		return conn, nil
	case <-w.end:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *web) Close() error {
	w.once.Do(func() { close(w.end) })
	return nil
}

// Addr implements net.Listener. The connections come from another listener.
func (w *web) Addr() net.Addr { return &net.TCPAddr{} }

// run serves until stop.
func (w *web) run() { _ = w.http.Serve(w) }

// stop ends all connections.
func (w *web) stop() {
	_ = w.Close()
	_ = w.http.Close()
}

// ServeHTTP implements http.Handler. The token is checked before anything else of the request.
func (w *web) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	complete := true
	err := w.server.cfg.Panics.In("api")(func() error {
		complete = w.serve(out, r)
		return nil
	})
	if err != nil {
		kvproxy.Refuse(out, http.StatusInternalServerError, err.Error())
	}
	if !complete {
		panic(http.ErrAbortHandler) // a shortened answer must not look complete
	}
}

// serve answers a request; false: the answer ended early.
func (w *web) serve(out http.ResponseWriter, r *http.Request) (complete bool) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	token := bearer(r)
	done, last, err := w.server.callers.AdmitHTTP(conn, token) //nolint:contextcheck // a check in the background outlives the request
	if last {
		out.Header().Set("Connection", "close")
	}
	if err != nil {
		kvproxy.Refuse(out, httpStatus(err), status.Convert(err).Message())
		return true
	}
	answered := 0
	defer func() { done(answered == http.StatusForbidden) }()
	ctx, cancel := context.WithTimeout(r.Context(), callTime)
	defer cancel()
	err = w.server.hasRecords("") // a path may have the name of an open method
	if err == nil {
		var v *view.View
		if v, err = w.server.firstView(ctx); err == nil {
			err = w.server.firstUse(ctx, token[0], v)
		}
	}
	if err != nil {
		answered = kvproxy.Refuse(out, httpStatus(err), status.Convert(err).Message())
		return true
	}
	answered = w.server.kv.Serve(out, r, token[0])
	return answered != 0
}

// bearer returns the tokens of a request: of X-Consul-Token and of Authorization.
func bearer(r *http.Request) []string {
	all := r.Header.Values(tokenHeader)
	for _, value := range r.Header.Values("Authorization") {
		if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
			all = append(all, strings.TrimSpace(token))
		}
	}
	if len(all) == 2 && all[0] == all[1] {
		all = all[:1]
	}
	return all
}

func httpStatus(err error) int {
	switch status.Code(err) { //nolint:exhaustive // the codes of an admission
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// allowSpec adds the rule for a new group's spec, as ApplyGroup does. A token without the right to
// add groups is left to Consul, which refuses its write.
func (s *Server) allowSpec(ctx context.Context, token, name string) error {
	err := s.allowed(ctx, token, name, store.GroupSpecKey(name))
	if errors.Is(err, store.ErrDenied) || errors.Is(err, tokens.ErrDenied) {
		return nil
	}
	return err
}
