package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/policy"
)

// Kind classifies errors by the caller's remedy.
type Kind string

const (
	// Internal means that the program or a coordinator failed; the default.
	Internal Kind = "internal"
	// Invalid means that the request breaks the rules; change it.
	Invalid Kind = "invalid"
	// Denied means that the token lacks the right.
	Denied Kind = "denied"
	// NotFound means that the object does not exist.
	NotFound Kind = "not found"
	// Conflict means that another caller changed the object; read it again.
	Conflict Kind = "conflict"
	// Unavailable means that no coordinator can answer now; retry.
	Unavailable Kind = "unavailable"
	// Timeout means that the caller's time is up.
	Timeout Kind = "timeout"
	// Untrusted means that the other side is not a coordinator of this cluster.
	Untrusted Kind = "untrusted"
)

// Error is a failed call in plain words.
type Error struct {
	Kind Kind
	// Doing is the action that failed, e.g. "apply group worker".
	Doing string
	// Message is the coordinator's text, or the fault on the way to it.
	Message string
	// Hint is the next step; may be empty.
	Hint string

	cause error
}

// Error is one sentence, followed by the hint.
func (e *Error) Error() string {
	text := e.Doing + ": " + e.Message
	if e.Hint != "" {
		text += "\n" + e.Hint
	}
	return text
}

// Unwrap gives the transport's error.
func (e *Error) Unwrap() error { return e.cause }

// KindOf is the kind of err; Internal when it has none.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Internal
}

// wrap turns a gRPC error into an Error; nil stays nil.
func (c *Client) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("%s: %w", doing, err)
	}
	e := &Error{Kind: Internal, Doing: doing, Message: s.Message(), cause: err}
	switch s.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.ResourceExhausted:
		e.Kind = Invalid
	case codes.NotFound:
		e.Kind = NotFound
	case codes.AlreadyExists, codes.Aborted:
		e.Kind = Conflict
		e.Hint = "it was changed in the meantime: read it again, then repeat"
	case codes.PermissionDenied, codes.Unauthenticated:
		e.Kind = Denied
		e.Hint = "the token of the context may not do this: check `token` in the context file"
	case codes.DeadlineExceeded, codes.Canceled:
		e.Kind = Timeout
		e.Hint = "no coordinator answered in time: `cadre cluster status` says which ones the platform runs"
	case codes.Unimplemented:
		e.Hint = "the coordinators are of another version than this program: `cadre version` shows both"
	case codes.Unavailable:
		e.Kind = Unavailable
		e.Hint = fmt.Sprintf("no coordinator of %s can be reached through %s: `cadre cluster status` shows the CVMs on the platform",
			c.ctx.Cluster, c.ctx.gatewayAddress(APIPort))
		if policy.Code(policy.CodeIn(s.Message())).Known() { // a coordinator's code, not a fault on the way to it
			e.Hint = "a coordinator answers, but cannot do this now: repeat it in a moment; `cadre cluster status` says how the coordinators are"
		}
		var bad *untrusted
		if c.link != nil {
			bad = c.link.lastUntrusted()
		}
		if bad != nil {
			e.Kind, e.Message, e.Hint = Untrusted, bad.Error(), reattestHint
		} else {
			e.Message = dialText(s.Message())
		}
	case codes.OK, codes.Unknown, codes.Internal, codes.DataLoss:
	}
	return e
}

const reattestHint = "if the coordinators were recreated on purpose, prove them again with `cadre cluster connect --reattest`; agents accept only their present cluster ID until their trust file names the new one"

// dialText drops the layers that gRPC puts around a failed dial.
func dialText(s string) string {
	for _, prefix := range []string{"connection error: desc = ", "last connection error: connection error: desc = "} {
		if _, after, ok := strings.Cut(s, prefix); ok {
			s = strings.Trim(after, `"`)
		}
	}
	return strings.TrimPrefix(s, "transport: ")
}
