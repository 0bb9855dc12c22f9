package grpcconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	// pingAfter is how long a connection may be silent before gRPC asks whether
	// the far side still serves. The Session beneath notices dead machines.
	pingAfter = 10 * time.Second
	// pingWait is how long the answer may take.
	pingWait = 10 * time.Second
	// window and connWindow bound the unread bytes of the far side. They are fixed: to find
	// the best window, gRPC measures the round trip with each answer that it reads, which
	// doubles the cost of a heartbeat for both ends.
	window     = 256 << 10
	connWindow = 1 << 20
	// readBuffer of the connection; a larger frame is read past it.
	readBuffer = 4 << 10
)

// errSpent ends a second try to connect: there is one connection only.
var errSpent = errors.New("the connection has been used")

// Client makes a gRPC client whose only connection is conn, which it owns from
// now on. When conn dies the client closes, and its calls end with Unavailable
// or Canceled; it never connects again. Closing the client closes conn. The
// connection must already be secure.
func Client(conn net.Conn, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	watched := watch(conn)
	var used atomic.Bool
	dial := func(context.Context, string) (net.Conn, error) {
		if !used.CompareAndSwap(false, true) {
			return nil, errSpent
		}
		return watched, nil
	}
	cc, err := grpc.NewClient("passthrough:///overlay", append([]grpc.DialOption{
		grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: pingAfter, Timeout: pingWait, PermitWithoutStream: true,
		}),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithReadBufferSize(readBuffer),
		grpc.WithChainUnaryInterceptor(untimed),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
	}, opts...)...)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("make client on one connection: %w", err)
	}
	cc.Connect()
	go closeWhenSpent(cc, watched)
	return cc, nil
}

// untimed ends a call when its context ends, without a timeout header for the far side. The
// timeout differs with each call, so the header tables of both ends, 4 KiB each, would fill
// with numbers that never repeat.
func untimed(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	call, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, end)()
	err := invoke(call, method, req, reply, cc, opts...)
	if status.Code(err) == codes.Canceled && ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return err
}

// closeWhenSpent ends with the client, which ends with its connection.
func closeWhenSpent(cc *grpc.ClientConn, conn *watchedConn) {
	defer conn.Close()
	defer cc.Close()
	for {
		state := cc.GetState()
		if state == connectivity.Shutdown || state == connectivity.TransientFailure {
			return
		}
		if !cc.WaitForStateChange(conn.open, state) {
			return
		}
	}
}
