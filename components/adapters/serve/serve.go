// Package serve answers the calls of an agent to an adapter over HTTP, for adapters that are written
// in Go. The contract is cadre.dev/core/adapter.
package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"cadre.dev/core/adapter"
	"cadre.dev/core/strictjson"
)

// Workload is the knowledge of an adapter. All methods are safe for concurrent use, end with ctx and may be
// repeated. A failure that wraps ErrBusy or ErrUnsafe is one; every other failure is transient.
type Workload interface {
	// Member reads the member's state, within a second. A member that is down is a Member, not a failure.
	Member(ctx context.Context) (adapter.Member, error)
	// Transfer returns once the new leader is confirmed.
	Transfer(ctx context.Context, r adapter.TransferRequest) (adapter.Transferred, error)
	Drain(ctx context.Context) error
	CancelDrain(ctx context.Context) error
	// ChangeSet returns once the change is committed.
	ChangeSet(ctx context.Context, r adapter.SetRequest) error
}

var (
	// ErrBusy: another change of the workload is in progress.
	ErrBusy = errors.New("busy")
	// ErrUnsafe: the workload refuses, or no candidate qualifies.
	ErrUnsafe = errors.New("unsafe")
)

// Handler answers the calls for w.
func Handler(w Workload) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+adapter.PathMember, func(out http.ResponseWriter, in *http.Request) {
		answer(out, in, func(ctx context.Context, _ *none) (adapter.Member, error) { return member(ctx, w) })
	})
	mux.HandleFunc("POST "+adapter.PathTransfer, func(out http.ResponseWriter, in *http.Request) {
		answer(out, in, func(ctx context.Context, r *adapter.TransferRequest) (adapter.Transferred, error) {
			return w.Transfer(ctx, *r)
		})
	})
	mux.HandleFunc("POST "+adapter.PathDrain, func(out http.ResponseWriter, in *http.Request) {
		answer(out, in, func(ctx context.Context, _ *none) (struct{}, error) { return struct{}{}, w.Drain(ctx) })
	})
	mux.HandleFunc("DELETE "+adapter.PathDrain, func(out http.ResponseWriter, in *http.Request) {
		answer(out, in, func(ctx context.Context, _ *none) (struct{}, error) { return struct{}{}, w.CancelDrain(ctx) })
	})
	mux.HandleFunc("POST "+adapter.PathSet, func(out http.ResponseWriter, in *http.Request) {
		answer(out, in, func(ctx context.Context, r *adapter.SetRequest) (struct{}, error) {
			return struct{}{}, w.ChangeSet(ctx, *r)
		})
	})
	return mux
}

// member is w's answer as the contract takes it; a mistake in it is named here already.
func member(ctx context.Context, w Workload) (adapter.Member, error) {
	m, err := w.Member(ctx)
	if err != nil {
		return m, err
	}
	m.Message, m.Fault, m.MayDisruptReason = adapter.Text(m.Message), adapter.Text(m.Fault), adapter.Text(m.MayDisruptReason)
	return m, m.Check()
}

// none is a request without fields.
type none struct{}

func (none) Check() error { return nil }

// Run serves w at address, "127.0.0.1:9900" or a free port for ":0", until ctx ends.
func Run(ctx context.Context, address string, w Workload) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: Handler(w), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// answer reads a bounded request, and writes the result of do.
func answer[Q interface{ Check() error }, A any](out http.ResponseWriter, in *http.Request, do func(context.Context, *Q) (A, error)) {
	var q Q
	if err := read(in, &q); err != nil {
		fail(out, http.StatusBadRequest, err)
		return
	}
	if err := q.Check(); err != nil {
		fail(out, http.StatusBadRequest, err)
		return
	}
	a, err := do(in.Context(), &q)
	switch {
	case err == nil:
		write(out, http.StatusOK, a)
	case errors.Is(err, ErrBusy):
		fail(out, http.StatusConflict, err)
	case errors.Is(err, ErrUnsafe):
		fail(out, http.StatusUnprocessableEntity, err)
	default:
		fail(out, http.StatusServiceUnavailable, err)
	}
}

// read decodes the request's JSON; an absent body is an empty object.
func read(in *http.Request, q any) error {
	text, err := io.ReadAll(io.LimitReader(in.Body, adapter.MaxBody+1))
	switch {
	case err != nil:
		return fmt.Errorf("read request: %w", err)
	case len(text) > adapter.MaxBody:
		return fmt.Errorf("the request has more than %d bytes", adapter.MaxBody)
	case len(bytes.TrimSpace(text)) == 0:
		return nil
	}
	if err := strictjson.Unmarshal(text, q); err != nil {
		return fmt.Errorf("the request is not the expected JSON: %w", err)
	}
	return nil
}

func fail(out http.ResponseWriter, status int, err error) {
	write(out, status, adapter.Error{Message: adapter.Text(err.Error())})
}

func write(out http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"message":"the answer cannot be written as JSON"}`)
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(status)
	_, _ = out.Write(text)
}
