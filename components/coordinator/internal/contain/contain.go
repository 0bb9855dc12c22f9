// Package contain limits a panic to the work in which it happened: one call of an API, one pass
// over one group, one duty of the leader. The caller of the work discards its results and starts it
// again from the records.
package contain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is a contained panic. Its text excludes the value of the panic, which may contain a secret.
type Error struct {
	// ID is equal for all panics at one place of the code. The log line with the stack includes it.
	ID string

	value, stack string
}

// Error returns a text with the id.
func (e *Error) Error() string {
	return fmt.Sprintf("INTERNAL_ERROR: an error in the coordinator's own code, with the id %s: its stack is in this coordinator's log; report it with the id", e.ID)
}

// GRPCStatus makes the error an Internal one on the wire.
func (e *Error) GRPCStatus() *status.Status { return status.New(codes.Internal, e.Error()) }

// Call runs work and returns its error, or its panic as an *Error. The Panics whose Do or Note
// receives the error logs it. Call is for a goroutine that work of Do starts, and for work on
// foreign input whose panic is a refusal of the input.
func Call(work func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = caught(value)
		}
	}()
	return work()
}

// caught returns the panic with this value; the caller is the deferred function that recovered. The
// stack above Call is left out, so that a place has one id for all callers.
func caught(value any) *Error {
	pcs := make([]uintptr, maxFrames)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var stack strings.Builder
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.HasSuffix(f.Function, "/contain.Call") {
			break
		}
		fmt.Fprintf(&stack, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
	}
	sum := sha256.Sum256([]byte(stack.String()))
	return &Error{ID: hex.EncodeToString(sum[:4]), value: fmt.Sprintf("%.*s", maxValue, fmt.Sprint(value)), stack: stack.String()}
}

const (
	maxFrames = 64
	maxValue  = 500
	// maxLogged bounds the number of stacks remembered as logged.
	maxLogged = 256
	// restartFirst is the pause before work that panicked runs again, doubled up to restartMost.
	restartFirst = time.Second
	restartMost  = time.Minute
)

// Panics contains panics, counts them, and logs the stack of each place once. A nil one contains
// nothing, so that a test or a simulation ends with the panic. Safe for concurrent use.
type Panics struct {
	log   *slog.Logger
	count func(part string)

	mu     sync.Mutex
	logged map[string]bool // by id; guarded by mu
}

// New makes Panics that calls count with the part in which each panic happened.
func New(log *slog.Logger, count func(part string)) *Panics {
	return &Panics{log: log, count: count, logged: map[string]bool{}}
}

// Do runs work of a part and returns its error, or its panic as an *Error.
func (p *Panics) Do(part string, work func() error) error {
	if p == nil {
		return work()
	}
	err := Call(work)
	p.Note(part, err)
	return err
}

// Note counts and logs err if it is a panic that Call turned into an error.
func (p *Panics) Note(part string, err error) {
	crash, is := errors.AsType[*Error](err)
	if p == nil || !is {
		return
	}
	p.count(part)
	p.mu.Lock()
	logged := p.logged[crash.ID]
	if len(p.logged) < maxLogged {
		p.logged[crash.ID] = true
	}
	p.mu.Unlock()
	if !logged {
		p.log.Error("a panic was contained", "part", part, "id", crash.ID, "error", crash.value, "stack", crash.stack)
	}
}

// In returns Do for a part, for a caller that runs foreign work.
func (p *Panics) In(part string) func(work func() error) error {
	return func(work func() error) error { return p.Do(part, work) }
}

// Keep runs work of a part until it ends without a panic, or ctx does. After a panic it runs the
// work again from its beginning, after a pause that grows.
func (p *Panics) Keep(ctx context.Context, part string, work func(context.Context) error) error {
	for pause := restartFirst; ; pause = min(2*pause, restartMost) {
		err := p.Do(part, func() error { return work(ctx) })
		if _, crashed := errors.AsType[*Error](err); p == nil || !crashed {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}
