package grpcserver

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"
)

// Limits of a server. A zero field takes its default.
type Limits struct {
	// Message bounds one request message, in bytes; 0: 1 MiB. A larger one ends its call
	// with ResourceExhausted as soon as its length is known.
	Message int
	// Calls is how many calls one connection may have at once; 0: 16. Further calls are refused
	// before they reach a handler.
	Calls uint32
	// HeaderBytes bounds the headers of one call as HTTP/2 counts them, 32 bytes for each field
	// in addition to its name and value; 0: 16 KiB.
	HeaderBytes uint32
	// HalfSent is how long a call may take until its first message is there; 0: 15 s. It
	// then ends with DeadlineExceeded. A call that has sent it lives as long as it likes.
	HalfSent time.Duration
	// Admit is called for each call once its headers are there, before its message is read. An
	// error, best one of package status, refuses the call. Its context is the call's and goes
	// on to the handler. The connection is not read meanwhile. nil: all are admitted.
	Admit tap.ServerInHandle
	// Contain runs the handler of each call and gives its error; a panic of the handler is for
	// it to make an error of. nil: a panic ends the process.
	Contain func(handle func() error) error
}

const (
	// handshakeTime bounds the handshake and the preface of HTTP/2.
	handshakeTime = 5 * time.Second
	// window is a call's unread bytes before a handler asks for them, the least that gRPC
	// accepts; connWindow is the same for a connection, which only paces.
	window     = 64 << 10
	connWindow = 256 << 10
	// readBuffer of each connection; a larger frame is read past it.
	readBuffer = 4 << 10
)

func (l Limits) withDefaults() Limits {
	l.Message = cmp.Or(l.Message, 1<<20)
	l.Calls = cmp.Or(l.Calls, 16)
	l.HeaderBytes = cmp.Or(l.HeaderBytes, 16<<10)
	l.HalfSent = cmp.Or(l.HalfSent, 15*time.Second)
	return l
}

// New makes a server within l. opts must not set the options that l sets.
func New(l Limits, opts ...grpc.ServerOption) *grpc.Server {
	l = l.withDefaults()
	opts = append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(l.Message),
		grpc.MaxConcurrentStreams(l.Calls),
		grpc.MaxHeaderListSize(l.HeaderBytes),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
			if l.Admit != nil {
				var err error
				if ctx, err = l.Admit(ctx, info); err != nil {
					return ctx, err
				}
			}
			return halfSent(ctx, l.HalfSent), nil
		}),
		grpc.ChainUnaryInterceptor(sentUnary),
		grpc.ChainStreamInterceptor(sentStream),
	}, opts...)
	if l.Contain != nil {
		// The last interceptors are the innermost ones: the interceptors of opts see an error,
		// and no panic.
		opts = append(opts, grpc.ChainUnaryInterceptor(l.containUnary), grpc.ChainStreamInterceptor(l.containStream))
	}
	return grpc.NewServer(opts...)
}

func (l Limits) containUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	err = l.Contain(func() (err error) {
		answer, err = handle(ctx, req)
		return err
	})
	return answer, err
}

func (l Limits) containStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return l.Contain(func() error { return handle(srv, stream) })
}
