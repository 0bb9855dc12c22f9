// Package gateserver serves settings of gates over HTTP with a token of its own, for programs that
// speak no gRPC: balancers, alarms, schedulers. It acts with the right of an operator's context.
package gateserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/strictjson"
)

const (
	maxBody   = 16 << 10
	maxHeader = 16 << 10
	// maxCalls bounds the concurrent calls to the coordinators.
	maxCalls = 8
	// callTime bounds one request, the call to the coordinators included.
	callTime = 30 * time.Second
	// minToken and maxToken bound the bytes of a token.
	minToken, maxToken = 20, 4096
)

// Gates gives settings of gates; *client.Client does.
type Gates interface {
	SetGate(ctx context.Context, w client.GateSetting) (client.Gate, error)
	ClearGate(ctx context.Context, group, gate, slot string) (changed bool, err error)
	Gates(ctx context.Context, group string) ([]client.Gate, error)
}

// Server translates HTTP requests into settings. Safe for concurrent use.
type Server struct {
	// Token returns the token that requests carry. It is read for each request.
	Token func() (string, error)
	// With calls fn with a connection to the coordinators.
	With func(fn func(Gates) error) error
	Log  *slog.Logger
}

// ReadToken reads a token from a file without the line end. The error names the bounds.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", err
	}
	token := strings.TrimRight(string(text), "\r\n")
	if len(token) < minToken || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%s: a token has %d to %d printable ASCII characters without a space: write one with `openssl rand -hex 32`", path, minToken, maxToken)
	}
	return token, nil
}

// setting is the body of a POST.
type setting struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
	// For is a duration such as 1h; empty: until the next setting.
	For    string `json:"for,omitempty"`
	Slot   string `json:"slot,omitempty"`
	Ticket string `json:"ticket,omitempty"`
}

// Handler serves the requests.
func (s *Server) Handler() http.Handler {
	places := make(chan struct{}, maxCalls)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/gates/{group}/{gate}", func(w http.ResponseWriter, r *http.Request) {
		body, err := read(w, r)
		if err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		setting := client.GateSetting{Group: r.PathValue("group"), Gate: r.PathValue("gate"), Slot: body.Slot, State: body.State, Ticket: body.Ticket, Reason: body.Reason}
		if body.For != "" {
			if setting.Length, err = time.ParseDuration(body.For); err != nil || setting.Length <= 0 {
				refuse(w, http.StatusBadRequest, fmt.Sprintf("for: %.64q is no duration of more than 0: write it like 90m or 1h, or leave it out", body.For))
				return
			}
		}
		s.answer(w, r, places, func(ctx context.Context, g Gates) (any, error) {
			out, err := g.SetGate(ctx, setting)
			if err == nil {
				s.Log.Info("gate set", "gate", out.Group+"/"+out.Gate, "slot", out.Slot, "state", out.State, "until", out.Until, "changed", out.Changed, "reason", setting.Reason)
			}
			return out, err
		})
	})
	mux.HandleFunc("DELETE /v1/gates/{group}/{gate}", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, places, func(ctx context.Context, g Gates) (any, error) {
			changed, err := g.ClearGate(ctx, r.PathValue("group"), r.PathValue("gate"), r.URL.Query().Get("slot"))
			return map[string]bool{"changed": changed}, err
		})
	})
	mux.HandleFunc("GET /v1/gates/{group}", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, places, func(ctx context.Context, g Gates) (any, error) { return g.Gates(ctx, r.PathValue("group")) })
	})
	mux.HandleFunc("GET /v1/gates", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, places, func(ctx context.Context, g Gates) (any, error) { return g.Gates(ctx, "") })
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := s.Token()
		if err != nil {
			s.Log.Error("the token cannot be read", "error", err)
			refuse(w, http.StatusInternalServerError, "the token of this server cannot be read: its log has the reason")
			return
		}
		if !same(r.Header.Get("Authorization"), "Bearer "+token) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "the request has no token or a wrong one: send `Authorization: Bearer TOKEN` with the text of --token-file")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// Serve answers on l until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 2 * callTime,
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
	}
	stop := context.AfterFunc(ctx, func() {
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = server.Shutdown(soon)
		_ = server.Close()
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// same compares digests, so that the time reveals neither the text nor its length.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func read(w http.ResponseWriter, r *http.Request) (body setting, err error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return body, fmt.Errorf("the body cannot be read, or has more than %d bytes: %w", maxBody, err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return body, errors.New(`the body is empty: send {"state":"closed","reason":"..."}`)
	}
	if err := strictjson.Unmarshal(text, &body); err != nil {
		return body, fmt.Errorf("the body is no setting of a gate: %w; its fields are state, reason, for, slot and ticket", err)
	}
	return body, nil
}

// answer makes a call to the coordinators and writes its outcome.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, places chan struct{}, call func(ctx context.Context, g Gates) (any, error)) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	default:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d requests wait for the coordinators already: retry in a moment", maxCalls))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTime)
	defer cancel()
	var out any
	err := s.With(func(g Gates) (err error) {
		out, err = call(ctx, g)
		return err
	})
	if err != nil {
		s.Log.Warn("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		refuse(w, statusOf(err), err.Error())
		return
	}
	write(w, http.StatusOK, out)
}

// statusOf is the status for an error of a coordinator, or of the way to it.
func statusOf(err error) int {
	switch client.KindOf(err) {
	case client.Invalid:
		return http.StatusBadRequest
	case client.NotFound:
		return http.StatusNotFound
	case client.Conflict:
		return http.StatusConflict
	case client.Denied:
		return http.StatusForbidden
	case client.Unavailable:
		return http.StatusServiceUnavailable
	case client.Timeout:
		return http.StatusGatewayTimeout
	case client.Internal, client.Untrusted:
	}
	return http.StatusBadGateway
}

func refuse(w http.ResponseWriter, code int, text string) {
	write(w, code, map[string]string{"error": text})
}

func write(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}
