package grpcconn

import (
	"context"
	"errors"
	"fmt"
	"net"

	"cadre.dev/overlay/grpcserver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Serve serves gRPC on conn alone, which it owns from now on, until ctx ends or conn
// dies, and returns nil then. Handlers get contexts that end with conn, and have returned
// when Serve does. The connection must already be secure. limits bound the far side: an
// authenticated Peer may be broken all the same.
func Serve(ctx context.Context, conn net.Conn, register func(*grpc.Server), limits grpcserver.Limits) error {
	srv := grpcserver.New(limits,
		grpc.WaitForHandlers(true),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: pingAfter / 2, PermitWithoutStream: true,
		}),
	)
	register(srv)
	watched := watch(conn)
	defer watched.Close()
	defer context.AfterFunc(ctx, func() { watched.Close() })()
	err := srv.Serve(&oneListener{conn: watched, first: make(chan struct{}, 1)})
	srv.Stop()
	if err != nil && !errors.Is(err, errSpent) && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve on one connection: %w", err)
	}
	return nil
}

// oneListener accepts one connection, and ends with it.
type oneListener struct {
	conn  *watchedConn
	first chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	select {
	case l.first <- struct{}{}:
		return l.conn, nil
	default:
		<-l.conn.open.Done()
		return nil, errSpent
	}
}

// Close is called by gRPC, also while the connection serves.
func (l *oneListener) Close() error   { return nil }
func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }
