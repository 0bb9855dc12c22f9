package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cadre.dev/core/adapter"
	"cadre.dev/core/group"
)

// Commands runs declared commands of the CVM's services.
type Commands interface {
	// Ask runs a command for at most limit, with request on its standard input, and returns the answer
	// of a command that exits with 0. code is its exit code, -1 if it did not exit; the error names
	// the reason of any code other than 0.
	Ask(ctx context.Context, a group.ExecAction, request []byte, limit time.Duration) (answer []byte, code int, err error)
}

const (
	// customCalls bounds the commands of one adapter at a time: a command whose time is up may take
	// seconds until its last process is gone.
	customCalls = 4
	// customLongest bounds a command whose caller sets no time.
	customLongest = customDrainLimit
)

// customExec asks an adapter that is a set of declared commands.
type customExec struct {
	service  string
	commands Commands
	calls    chan struct{}
}

func newCustomExec(service string, commands Commands) *customExec {
	return &customExec{service: service, commands: commands, calls: make(chan struct{}, customCalls)}
}

func (c *customExec) close() {}

// ask returns when ctx ends, even if the command does not.
func (c *customExec) ask(ctx context.Context, q question, request any) ([]byte, error) {
	name := c.service + "/" + q.command
	body := []byte("{}")
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTransient, err)
		}
	}
	select {
	case c.calls <- struct{}{}:
	default:
		return nil, fmt.Errorf("%w: %d commands of the adapter in service %s do not end", ErrTransient, customCalls, c.service)
	}
	limit := customLongest
	if at, set := ctx.Deadline(); set {
		limit = max(time.Until(at), time.Millisecond)
	}
	type result struct {
		text []byte
		code int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-c.calls }()
		text, code, err := c.commands.Ask(ctx, group.ExecAction{Service: c.service, Command: q.command}, body, limit)
		done <- result{text, code, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the adapter's command %s did not answer in time: %w", ErrTransient, name, context.Cause(ctx))
	}
	switch {
	case r.code == adapter.ExitBusy:
		return nil, fmt.Errorf("%w: the adapter's %w", ErrBusy, r.err)
	case r.code == adapter.ExitUnsafe:
		return nil, fmt.Errorf("%w: the adapter's %w", ErrUnsafe, r.err)
	case errors.Is(r.err, context.DeadlineExceeded) || r.err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%w: the adapter's command %s did not answer in time", ErrTransient, name)
	case r.err != nil:
		return nil, fmt.Errorf("%w: the adapter: %w", ErrTransient, r.err)
	case len(r.text) > adapter.MaxBody:
		return nil, fmt.Errorf("%w: the answer of the adapter's command %s has more than %d bytes", ErrTransient, name, adapter.MaxBody)
	}
	return r.text, nil
}
