package grpcserver

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
)

var errHalfSent = errors.New("the message of the call did not arrive in time")

// unsent is the context of a call that ends after a time, unless its first message is
// there before.
type unsent struct {
	context.Context //nolint:containedctx // it is one
	sent            func()
}

type unsentKey struct{}

// halfSent ends the returned context after limit, unless sent is called before. It has to
// be the context of the stream itself: gRPC waits for a message only with that context.
func halfSent(ctx context.Context, limit time.Duration) context.Context {
	inner, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(errHalfSent) })
	// A call that is reset keeps nothing, however many there are.
	forget := context.AfterFunc(ctx, func() { timer.Stop() })
	return &unsent{Context: inner, sent: func() { timer.Stop(); forget() }}
}

// Err implements context.Context: a time limit is no cancellation by the caller.
func (u *unsent) Err() error {
	err := u.Context.Err()
	if err != nil && errors.Is(context.Cause(u.Context), errHalfSent) {
		return context.DeadlineExceeded
	}
	return err
}

// Value implements context.Context.
func (u *unsent) Value(key any) any {
	if _, is := key.(unsentKey); is {
		return u
	}
	return u.Context.Value(key)
}

// sent notifies the context of a call that its first message has arrived.
func sent(ctx context.Context) {
	if u, ok := ctx.Value(unsentKey{}).(*unsent); ok {
		u.sent()
	}
}

// sentUnary runs when the message of a call has been read.
func sentUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	sent(ctx)
	return handle(ctx, req)
}

// sentStream runs before any message of a call is read.
func sentStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(srv, sentFirst{stream})
}

// sentFirst is a stream with a first message that may be late. The message of a unary
// call counts as arrived when gRPC has also seen the end of the caller's stream.
type sentFirst struct{ grpc.ServerStream }

// RecvMsg implements grpc.ServerStream.
func (s sentFirst) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		sent(s.Context())
	}
	return err
}
