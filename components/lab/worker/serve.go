package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Argument makes the benchmark's binary a worker when it is its first one.
const Argument = "worker"

// maxLine bounds one message; a node with a hundred Peers takes about 200 KiB.
const maxLine = 16 << 20

// ErrUnavailable marks a feature that this build lacks: a figure that needs it is
// reported as not measured, never as failed. It survives the way from worker to
// benchmark.
var ErrUnavailable = errors.New("not available")

// Method answers one call. Calls may run at the same time.
type Method func(ctx context.Context, args json.RawMessage) (any, error)

// Typed makes a Method of a function with typed arguments and result.
func Typed[A, R any](f func(ctx context.Context, args A) (R, error)) Method {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, fmt.Errorf("read arguments: %w", err)
			}
		}
		return f(ctx, args)
	}
}

// Actor is a started role.
type Actor struct {
	Methods map[string]Method
	// Close frees the role's resources; nil means that there are none. It is called once,
	// after every call has returned.
	Close func()
}

// Role starts a part from its config. ctx ends with the worker.
type Role func(ctx context.Context, config json.RawMessage) (Actor, error)

type hello struct {
	Role   string          `json:"role"`
	Config json.RawMessage `json:"config"`
}

type request struct {
	ID     uint64          `json:"id"`
	Method string          `json:"method"`
	Args   json.RawMessage `json:"args,omitempty"`
}

type response struct {
	ID          uint64          `json:"id"`
	Result      json.RawMessage `json:"result,omitempty"`
	Error       string          `json:"error,omitempty"`
	Unavailable bool            `json:"unavailable,omitempty"`
}

// Serve is a worker's life: one role, until in ends. It returns nil then.
func Serve(ctx context.Context, in io.Reader, out io.Writer, roles map[string]Role) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	if !lines.Scan() {
		return errors.New("no role given")
	}
	var h hello
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
		return fmt.Errorf("read role: %w", err)
	}
	reply := replier{out: out}
	role, ok := roles[h.Role]
	if !ok {
		return reply.send(0, nil, fmt.Errorf("no role %q", h.Role))
	}
	actor, err := role(ctx, h.Config)
	if sendErr := reply.send(0, nil, err); sendErr != nil || err != nil {
		return sendErr
	}
	var wg sync.WaitGroup
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			cancel()
			wg.Wait()
			return fmt.Errorf("read call: %w", err)
		}
		wg.Go(func() {
			method, ok := actor.Methods[r.Method]
			if !ok {
				_ = reply.send(r.ID, nil, fmt.Errorf("role %s has no method %q", h.Role, r.Method))
				return
			}
			result, err := method(ctx, r.Args)
			_ = reply.send(r.ID, result, err) // a benchmark that is gone ends us by closing in
		})
	}
	cancel()
	wg.Wait()
	if actor.Close != nil {
		actor.Close()
	}
	return nil
}

// replier writes whole lines.
type replier struct {
	mu  sync.Mutex
	out io.Writer // guarded by mu
}

func (r *replier) send(id uint64, result any, failure error) error {
	resp := response{ID: id}
	if failure != nil {
		resp.Error = failure.Error()
		resp.Unavailable = errors.Is(failure, ErrUnavailable)
	} else if result != nil {
		raw, err := json.Marshal(result)
		if err != nil {
			return fmt.Errorf("write result: %w", err)
		}
		resp.Result = raw
	}
	line, err := json.Marshal(resp)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err = r.out.Write(append(line, '\n'))
	return err
}
